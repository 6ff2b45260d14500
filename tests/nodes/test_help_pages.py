"""web/docs/<node id>.md, which ComfyUI shows next to a node, and the examples in README and docs/: all of it is true.

Tables are compared with the schemas, examples are parsed by the engine, quoted messages are looked up in the code
that raises them, and the prompts for the HTTP interface are checked as ComfyUI would.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.nodes.export_locale import FILE_MENUS, schemas_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "web" / "docs"
README_AND_DOCS = "\n".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
)
IDS = [
    "LoadOmniVoice",
    "OmniVoiceReferenceAudio",
    "OmniVoiceVoiceDesignAttributes",
    "OmniVoiceSynthesize",
    "OmniVoiceSettings",
    "OmniVoiceSaveVoice",
    "OmniVoiceLoadVoice",
    "OmniVoiceDownload",
    "OmniVoiceTranscribe",
    "OmniVoiceApplyLoRA",
    "OmniVoiceDataset",
    "OmniVoiceTrainLoRA",
    "OmniVoiceTrainingSettings",
    "OmniVoiceJoinAudio",
    "OmniVoiceSecondsToFrames",
    "OmniVoiceFramesToSeconds",
    "OmniVoiceAudioImage",
    "OmniVoiceDialogue",
    "OmniVoiceTimings",
    "OmniVoiceSubtitles",
    "OmniVoiceLongText",
    "OmniVoiceDictionary",
    "OmniVoicePreviewText",
    "OmniVoiceTakes",
    "OmniVoiceEditSpeech",
    "OmniVoiceRedo",
    "OmniVoiceDisclose",
]
# Core nodes in the prompts: their inputs, and the types of their outputs. Both ComfyUI 0.14.0 and the newest have them.
CORE = {
    "LoadAudio": ({"audio": "FILE"}, ["AUDIO"]),
    "SaveAudio": ({"audio": "AUDIO", "filename_prefix": "STRING"}, []),
    "SaveImage": ({"images": "IMAGE", "filename_prefix": "STRING"}, []),
    "PreviewAny": ({"source": "*"}, []),
}
SMALL_MENU = 40  # options; longer menus are not listed


def page(node: str) -> str:
    return (DOCS / f"{node}.md").read_text(encoding="utf-8")


def table(text: str, heading: str) -> list[list[str]]:
    """The rows of the tables whose first heading it is, as lists of cells."""
    rows, inside = [], False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells and inside and not line.startswith("|---"):
            rows.append(cells)
        inside = bool(cells) and (inside or cells[0] == heading)
    return rows


def fenced(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def schemas(nodes: dict[str, type]) -> dict[str, SimpleNamespace]:
    return schemas_of(nodes)


@pytest.fixture(scope="module")
def engine(loaded_pack: SimpleNamespace) -> Callable[[str], object]:
    """Modules of the pack's engine, by name."""
    return lambda name: importlib.import_module(f"{loaded_pack.package.__name__}.omnivoice.{name}")


# Tables against the schemas.


def test_a_page_for_every_node_and_nothing_else(schemas: dict[str, SimpleNamespace], pack: SimpleNamespace) -> None:
    assert list(schemas) == IDS
    assert sorted(p.relative_to(ROOT / "web").as_posix() for p in (ROOT / "web").rglob("*") if p.is_file()) == sorted(
        [*(f"docs/{node}.md" for node in IDS), "docs/edit_speech.jpg", "long_text.js", "text_box.js"]
    )
    assert pack.package.WEB_DIRECTORY == "./web"
    assert "[tool.comfy]\nweb" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("node", IDS)
def test_tables_are_the_schema(node: str, schemas: dict[str, SimpleNamespace]) -> None:
    """Two columns fit ComfyUI's narrow side panel. A row of an input ends with `facts`; one of an output starts with
    its type."""
    schema, text = schemas[node], page(node)
    assert text.startswith(f"# {schema.display_name}\n\n")
    inputs, outputs = table(text, "input"), table(text, "output")
    assert [row[0] for row in inputs] == [f"`{item.id}`" for item in schema.inputs]
    assert [row[0] for row in outputs] == [f"`{item.display_name}`" for item in schema.outputs]
    assert all(len(row) == 2 and row[1].endswith(".") for row in (*inputs, *outputs))
    for row, item in zip(inputs, schema.inputs):
        assert row[1].endswith(f". {facts(node, item)}"), f"{row[0]} must end with: {facts(node, item)}"
    for row, item in zip(outputs, schema.outputs):
        assert row[1].startswith(f"{kind(item)}. "), f"{row[0]} must start with: {kind(item)}."


def kind(item: SimpleNamespace) -> str:
    """The type of an output: `AUDIO`, or List of `AUDIO`."""
    return "List of " * bool(getattr(item, "is_output_list", False)) + f"`{item.kind}`"


def facts(node: str, item: SimpleNamespace) -> str:
    """The sentence that states what an input accepts and its default."""
    if item.kind in ("INT", "FLOAT"):
        return f"{number(item.min)} to {number(item.max)}, default {number(item.default)}."
    if item.kind == "BOOLEAN":
        return f"On or off, default {'on' if item.default else 'off'}."
    if item.kind == "STRING":
        if "\n" in (item.default or ""):
            return "Default: an example that the demo voice can say."
            return "Default: two cues that the demo voice can say."
        return f"Default: `{item.default}`." if item.default else "Empty by default."
    if item.kind.startswith("COMBO"):
        if (node, item.id) in FILE_MENUS:
            return "One of your files."
        if len(item.options) < SMALL_MENU:
            words = ", ".join(f"`{word}`" for word in item.options)
            return f"One of {words}; default `{item.default or item.options[0]}`."
        return f"`{item.options[0]}` or one of {len(item.options) - 1} languages, default `{item.options[0]}`."
    return "Optional." if item.optional else "Required."


def number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


@pytest.mark.parametrize("node", IDS)
def test_names_links_and_files_exist(node: str, schemas: dict[str, SimpleNamespace]) -> None:
    text = page(node)
    titles = {schema.display_name for schema in schemas.values()}
    bold = re.findall(r"\*\*([^*]+)\*\*", text)
    assert {name for name in bold if "OmniVoice" in name} <= titles
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("https://") or (DOCS / link).is_file(), link
    for clip in re.findall(r'"(\w+\.wav)"', text):
        assert (ROOT / "workflows" / clip).is_file(), clip
    inputs = {item.id for schema in schemas.values() for item in schema.inputs}
    outputs = {item.display_name for schema in schemas.values() for item in schema.outputs}
    assert set(re.findall(r"inputs? `([^`]+)`", text)) <= inputs
    assert set(re.findall(r"outputs? `([^`]+)`", text)) <= outputs
    assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


# Prompts.


@pytest.mark.parametrize("node", IDS)
def test_prompt_is_valid(node: str, schemas: dict[str, SimpleNamespace]) -> None:
    (snippet,) = fenced(page(node), "json")
    body = json.loads(snippet)
    assert set(body) == {"prompt"}
    prompt = body["prompt"]
    assert node in {one["class_type"] for one in prompt.values()}
    assert any(is_output(one["class_type"], schemas) for one in prompt.values())  # ComfyUI refuses it otherwise
    for one in prompt.values():
        assert set(one) == {"class_type", "inputs"}
        kinds, needed = inputs_of(one["class_type"], schemas)
        assert needed <= set(one["inputs"]) <= set(kinds), one
        for key, value in one["inputs"].items():
            check_value(kinds[key], value, prompt, schemas)


def is_output(kind: str, schemas: dict[str, SimpleNamespace]) -> bool:
    return kind in ("SaveAudio", "SaveImage", "PreviewAny") or getattr(schemas.get(kind), "is_output_node", False)


def inputs_of(kind: str, schemas: dict[str, SimpleNamespace]) -> tuple[dict[str, object], set[str]]:
    """({input: its schema, or its type for a core node}, those that must be there)."""
    if kind in CORE:
        return dict(CORE[kind][0]), set(CORE[kind][0])
    inputs = schemas[kind].inputs
    grown = {f"{i.id}.{name}": i.template.socket for i in inputs if hasattr(i, "template") for name in i.template.names}
    return {i.id: i for i in inputs} | grown, {i.id for i in inputs if not i.optional}


def check_value(item: object, value: object, prompt: dict, schemas: dict[str, SimpleNamespace]) -> None:
    kind = item if isinstance(item, str) else item.kind
    if isinstance(value, list):
        source, slot = value
        made_by = prompt[source]["class_type"]
        made = CORE[made_by][1][slot] if made_by in CORE else schemas[made_by].outputs[slot].kind
        assert made in kind.split(",") or kind == "*"
    elif kind in ("INT", "FLOAT"):
        assert type(value) is (int if kind == "INT" else float) and item.min <= value <= item.max
    elif kind == "BOOLEAN":
        assert isinstance(value, bool)
    else:
        assert kind in ("STRING", "COMBO", "COMBO,STRING", "FILE") and isinstance(value, str)
        listed = [schemas[node].inputs for node, _ in FILE_MENUS]
        if kind == "COMBO" and not any(item in inputs and (n, item.id) in FILE_MENUS for inputs in listed for n in IDS):
            assert value in item.options


# Messages.


@cache
def spoken_by_code() -> tuple[str, ...]:
    """Every string of the product's code as one line each, with "\\0" for what is put in later."""
    found = []
    for folder in ("nodes", "omnivoice"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [v.value if isinstance(v, ast.Constant) else "\0" for v in node.values]
                    found.append("".join(parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return tuple(found)


def is_said(message: str) -> bool:
    """Whether the code can say `message`, in which ... stands for anything."""
    parts = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
    pattern = re.compile("(?s)" + ".*".join(parts))
    return any(pattern.search(text) for text in spoken_by_code())


@pytest.mark.parametrize("node", IDS)
def test_messages_are_the_programs(node: str, engine: Callable[[str], object]) -> None:
    rows = table(page(node), "message")
    assert len(rows) >= 3
    for message, advice in rows:
        assert advice.endswith(".")
        text = message.removeprefix("`").removesuffix("`")
        assert is_said(text) or text in exact_messages(engine), text


def exact_messages(engine: Callable[[str], object]) -> Iterator[str]:
    """Messages that pages quote with their values."""
    limits, errors = engine("intake.limits"), engine("errors")
    for call in (
        lambda: limits.check_number("guidance", 25),
        lambda: limits.check_number("strength", 11),
        lambda: limits.check_number("seconds", -1),
        lambda: limits.check_number("fps", 0),
        lambda: limits.check_number("duration", 700),
        lambda: limits.check_integer("video_frames", -1, shown_as="frames"),
        lambda: limits.check_text_length("a" * (limits.MAX_TEXT_CHARS + 1)),
        lambda: engine("text.pauses").split_pauses("a [pause 31s]"),
    ):
        with pytest.raises(errors.InputError) as told:
            call()
        yield str(told.value).split(": use several")[0]


def test_the_message_check_sees_a_wrong_one() -> None:
    assert is_said("no model found in models/omnivoice") and is_said("a voice named ... is in the library already")
    assert not is_said("no model found in models/omnivoices") and not is_said("is in the library already ... named")


# Examples.


def check_speakable(text: str, engine: Callable[[str], object]) -> None:
    """The engine plans it without a warning."""
    types = engine("types")
    plan = engine("generate.plan").make_plan(types.GenerationRequest(text, seed=0))
    assert plan.warnings == () and plan.chunks, text


def test_example_texts_are_spoken(engine: Callable[[str], object]) -> None:
    (lines,) = fenced(page("OmniVoiceSynthesize"), "text")
    for line in lines.splitlines():
        check_speakable(line, engine)
    for node in IDS:
        for one in json.loads(fenced(page(node), "json")[0])["prompt"].values():
            if one["class_type"] == "OmniVoiceSynthesize":
                check_speakable(one["inputs"]["text"], engine)
    said = [line for line in README_AND_DOCS.splitlines() if line.startswith('python -m omnivoice speak "')]
    assert len(said) > 3
    for line in said:
        check_speakable(re.search(r'speak "([^"]+)"', line)[1], engine)


def test_tags_are_those_of_the_model(engine: Callable[[str], object]) -> None:
    tags = engine("text.tags")
    for text in (page("OmniVoiceSynthesize"), README_AND_DOCS):
        (sounds,) = re.findall(r"(?:thirteen are known|knows 13 non-verbal sounds)[:\s]*([^.]+)\.", text)
        assert tuple(re.findall(r"`\[([a-z-]+)\]`", sounds)) == tags.nonverbal_tags()
    for alias in re.findall(r"`(\[\w+\])` (?:and|work)", page("OmniVoiceSynthesize")):
        assert tags.tag_warnings(alias) and tags.tag_warnings(tags.canonical_tags(alias)) == (), alias


def test_pauses_last_as_long_as_the_table_says(engine: Callable[[str], object]) -> None:
    split = engine("text.pauses").split_pauses
    rows = [row for row in table(page("OmniVoiceSynthesize"), "you write") if len(row) == 2]
    assert len(rows) == 5
    for mark, seconds in rows:
        assert split(f"One {mark.strip('`')} two")[1].pause_seconds == float(seconds)
    for mark in re.findall(r"`(\[pause[^\]]*\]|<break[^>]*>)`", README_AND_DOCS):
        assert len(split(f"One {mark} two")) == 2


def test_descriptions_are_understood_as_the_table_says(engine: Callable[[str], object]) -> None:
    free = engine("text.free_design").design_from_free_text
    rows = table(page("OmniVoiceVoiceDesignAttributes"), "you write")
    assert len(rows) >= 6
    for written, understood in rows:
        design, warnings = free(written.strip("`"))
        assert ", ".join(design.attributes) == understood, written
        assert bool(warnings) == ("calm" in written)


def test_designs_in_the_documentation_are_valid(engine: Callable[[str], object]) -> None:
    designs = re.findall(r'--design "([^"]+)"', README_AND_DOCS) + re.findall(r'design="([^"]+)"', README_AND_DOCS)
    descriptions = re.findall(r'--describe "([^"]+)"', README_AND_DOCS)
    assert designs and descriptions
    for text in designs:
        assert engine("text.design").parse_design(text).attributes
    for text in descriptions:
        assert engine("text.free_design").design_from_free_text(text) is not None


def test_numbers_in_the_pages_are_the_programs(
    engine: Callable[[str], object], pack: SimpleNamespace, schemas: dict[str, SimpleNamespace]
) -> None:
    limits, presets = engine("intake.limits"), engine("generate.presets")
    assert f"up to {limits.MAX_TEXT_CHARS} characters" in page("OmniVoiceSynthesize")
    assert f"at most {limits.MAX_VOICE_TEXT_CHARS} characters" in page("OmniVoiceReferenceAudio")
    assert f"A batch of up to {limits.MAX_REFERENCES} recordings" in page("OmniVoiceReferenceAudio")
    assert f"at most {engine('text.design').MAX_CHARS} characters" in page("OmniVoiceVoiceDesignAttributes")
    assert f"At most {limits.MAX_CONSENT_CHARS} characters" in page("OmniVoiceSaveVoice")
    assert f"up to {pack.host.transcribe.MAX_SECONDS // 3600} hours" in page("OmniVoiceTranscribe")
    rows = dict(table(page("OmniVoiceSynthesize"), "preset"))
    assert list(rows) == [f"`{name}`" for name in presets.PRESETS]
    for name in [*presets.PRESETS][1:]:
        assert rows[f"`{name}`"] == f"{presets.compared(name)}."
    assert rows["`quality`"].startswith(f"{presets.PRESETS['quality'].steps} steps.")
    train = engine("train.settings")
    assert (
        f"`voice` takes {train.STEPS_PER_SECOND:g} steps for each second of recordings, at least {train.MIN_STEPS} "
        f"and at most {train.MAX_STEPS}; `language` takes {train.language_preset(0).steps}"
    ) in page("OmniVoiceTrainLoRA")
    voice, language = train.voice_preset(0), train.language_preset(0)
    assert f"{voice.rank} for `voice`, {language.rank} for `language`" in page("OmniVoiceTrainLoRA")
    rates = f"{voice.learning_rate:g} for `voice`, {language.learning_rate:g} for `language`"
    assert rates in page("OmniVoiceTrainLoRA")
    for name in ("batch_size", "batch_tokens", "warmup"):
        values = f"{getattr(voice, name)} for `voice`, {getattr(language, name)} for `language`"
        assert re.search(rf"`{name}` \|.*{values}", page("OmniVoiceTrainingSettings")), name
    (size,) = (model.size for model in engine("weights.published").published_models().values())
    assert f"The download is {size / 1e9:.1f} GB" in page("OmniVoiceDownload")
    assert "at most 108 English letters or 36 Chinese characters" in page("OmniVoiceSaveVoice")
    for letter, count in (("a", 108), ("\u4e2d", 36)):
        assert pack.host.voices.check_voice_name(letter * count) == letter * count
        assert isinstance(pack.host.values.validate(pack.host.voices.check_voice_name, letter * (count + 1)), str)
