"""locales/: English has every text of the nodes, and each translation has them all, with the same words of the program.

The frontend reads `nodeDefs.<node>.inputs.<input>.name` and so on, dots in an id made underscores. Names and
descriptions go through its message compiler (vue-i18n), to which { } @ | are syntax.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.nodes.export_locale import ENGLISH, FILE_MENUS, english, schemas_of

LOCALES = ENGLISH.parents[1]
# The folder names that ComfyUI's frontend 1.49.6 knows, and German, which it does not offer yet.
OFFERED = {"en", "zh", "zh-TW", "ru", "ja", "ko", "fr", "es", "ar", "tr", "pt-BR", "fa", "he"}
TRANSLATED = {"zh", "zh-TW", "ja", "ko", "de", "fr", "es", "ru", "pt-BR"}
SCRIPTS = {
    "zh": "[\u4e00-\u9fff]",
    "zh-TW": "[\u4e00-\u9fff]",
    "ja": "[\u3040-\u30ff\u4e00-\u9fff]",
    "ko": "[\uac00-\ud7a3]",
    "ru": "[\u0400-\u04ff]",
}
# Names that are the same word elsewhere. Sentences never are.
SAME = {
    "alpha",
    "audio",
    "clips",
    "dataset",
    "description",
    "design",
    "dropout",
    "dtype",
    "frames",
    "guidance",
    "image",
    "info",
    "LoRA",
    "lora",
    "name",
    "offloading",
    "patience",
    "preset",
    "rank",
    "seed",
    "steps",
    "style",
    "t_shift",
    "text",
    "transcript",
    "transcription",
    "validation",
    "warmup",
}
NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
FIXED = re.compile(
    r"models/\w+|k2-fsa/OmniVoice|\b\w+\.(?:json|safetensors)\b|(?<= )\.safetensors\b|\baudio_tokenizer\b|\[[a-z-]+\]"
    r"|\b(?:R|CUDA|NVIDIA|GPU|CPU|LoRA|PEFT|Whisper|OmniVoice|UTMOS|CC-BY-NC|Apache-2\.0|arXiv|kHz)\b"
    r"|\bBoson Higgs Audio 2 Community License\b"
)
SMALL_MENU = 40  # options; the words of longer ones (languages) also stand in plain sentences

Texts = dict[str, dict]


def read(path: Path) -> Texts:
    return json.loads(path.read_text(encoding="utf-8"))


def leaves(tree: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """((node, "inputs", id, "tooltip"), text) of every text."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    else:
        assert isinstance(tree, str), path
        yield path, tree


@pytest.fixture
def schemas(nodes: dict[str, type]) -> dict[str, SimpleNamespace]:
    return schemas_of(nodes)


def test_english_is_what_the_nodes_say(schemas: dict[str, SimpleNamespace]) -> None:
    expected, found = dict(leaves(english(schemas))), dict(leaves(read(ENGLISH)))
    wrong = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    assert not wrong, f"{wrong[:5]} of {len(wrong)}: write it in {ENGLISH.name}, or remove it there"
    assert list(read(ENGLISH)) == list(schemas)


def test_texts_hold_nothing_that_the_message_compiler_reads() -> None:
    for path in LOCALES.rglob("*.json"):
        assert not [where for where, text in leaves(read(path)) if re.search(r"[{}@|]", text) or text != text.strip()]


def test_folders_are_the_languages_that_were_asked_for() -> None:
    assert {path.name for path in LOCALES.iterdir()} == TRANSLATED | {"en"}
    assert {language for language in TRANSLATED if language not in OFFERED} == {"de"}
    assert {p.relative_to(LOCALES).parts[1:] for p in LOCALES.rglob("*") if p.is_file()} == {("nodeDefs.json",)}


@pytest.mark.parametrize("language", sorted(TRANSLATED))
def test_translation_is_complete_and_keeps_the_words_of_the_program(
    language: str, schemas: dict[str, SimpleNamespace]
) -> None:
    ours, theirs = dict(leaves(read(ENGLISH))), dict(leaves(read(LOCALES / language / "nodeDefs.json")))
    missing, unknown = sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours.keys())
    assert not missing and not unknown, f"missing {missing[:5]}, unknown {unknown[:5]}"
    names = node_names(theirs)
    wrong = []
    for path, text in ours.items():
        menu = [word for word in menu_words(schemas[path[0]], path[-2]) if names_word(word, text)]
        wrong += [f"{'.'.join(path)}: {fault}" for fault in faults(text, theirs[path], path, language, menu, names)]
    assert not wrong, "\n".join(wrong)


def faults(
    text: str, other: str, path: tuple[str, ...], language: str, menu: list[str], names: dict[str, set[str]]
) -> Iterator[str]:
    """What is wrong with `other` as a translation of `text`."""
    is_name = path[-1] in ("name", "display_name")
    if not other.strip():
        yield "is empty"
    if other == text and not (is_name and text in SAME):
        yield f"is not translated: {text!r}"
    if not is_name and language in SCRIPTS and not re.search(SCRIPTS[language], other):
        yield "is in another script"
    if numbers(text) != numbers(other):
        yield f"has the numbers {numbers(other)}, English {numbers(text)}"
    if is_name:
        return
    lost = sorted(word for word in set(FIXED.findall(text)) if word not in other)
    lost += [word for word in menu if not names_word(word, other)]
    lost += [name for name in nodes_named(text, names) if not any(form in other for form in names[name])]
    if lost:
        yield f"lacks {', '.join(lost)}"


def numbers(text: str) -> list[str]:
    """The numbers in a text, in any order; 1,16 is 1.16."""
    return sorted(number.replace(",", ".") for number in NUMBER.findall(text))


def node_names(theirs: dict[tuple[str, ...], str]) -> dict[str, set[str]]:
    """{a node's name as English texts say it: what a translation may say, its own title for that node included}."""
    names = {}
    for path, title in dict(leaves(read(ENGLISH))).items():
        if path[1:] == ("display_name",):
            short = title.removeprefix("OmniVoice ")
            own = theirs[path]
            names[short] = {short, own, re.sub(r"^OmniVoice[\s:\u00b7-]*|[\s:\u00b7-]*OmniVoice$", "", own)}
    return names


def nodes_named(text: str, names: Iterable[str]) -> list[str]:
    """The nodes that a text names: in "Training Settings", not also "Settings"."""
    longest_first = sorted(names, key=len, reverse=True)
    found = re.findall(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, longest_first))})(?![A-Za-z])", text)
    return sorted(set(found))


def menu_words(schema: SimpleNamespace, input_id: str) -> set[str]:
    """auto, and what the menu of this input offers: "fast" is a plain word in the tooltip of another input."""
    menus = [i for i in schema.inputs if i.kind == "COMBO" and (schema.node_id, i.id) not in FILE_MENUS]
    own = [i for i in menus if i.id.replace(".", "_") == input_id and len(i.options) < SMALL_MENU]
    return {"auto"} | {word for menu in own for word in menu.options}


def names_word(word: str, text: str) -> bool:
    return bool(re.search(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", text))


def test_the_check_sees_what_is_lost() -> None:
    """The check above is not blind: each of these shows."""
    text = "auto takes bf16; 0.1 is quick. Put config.json into models/omnivoice, press R. From Load OmniVoice."
    sound = "auto nimmt bf16; 0,1 ist schnell. config.json nach models/omnivoice, R. Von Load OmniVoice."
    names = {"Load OmniVoice": {"Load OmniVoice", "OmniVoice laden"}}

    def found(other: str, language: str = "de") -> str:
        return "; ".join(faults(text, other, ("N", "inputs", "x", "tooltip"), language, ["auto", "bf16"], names))

    assert found(sound) == "" and found(sound.replace("Load OmniVoice", "OmniVoice laden")) == ""
    for old, new, told in (
        ("auto", "automatisch", "lacks auto"),
        ("bf16", "BF16", "lacks bf16"),
        ("0,1", "0,2", "has the numbers"),
        ("config.json", "configjson", "lacks config.json"),
        ("models/omnivoice", "modelle", "lacks models/omnivoice"),
        (" R.", " r.", "lacks R"),
        ("Load OmniVoice", "dort", "Load OmniVoice"),
    ):
        assert told in found(sound.replace(old, new)), (new, found(sound.replace(old, new)))
    assert nodes_named("From OmniVoice Training Settings.", ["Settings", "Training Settings"]) == ["Training Settings"]
    assert "is not translated" in found(text) and "another script" in found(sound, "ru")
