"""Pronunciation Dictionary and Preview Text as nodes: what comes out, and that a preview is what Synthesize speaks."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def model(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    return loaded_pack.host.models.load_model("OmniVoice", "auto", "auto")


def words(nodes, entries: str, *before) -> object:
    return nodes["OmniVoiceDictionary"].execute(entries, *before).values[0]


def preview(nodes, text: str, **inputs) -> tuple[str, float, str]:
    return nodes["OmniVoicePreviewText"].execute(text=text, **inputs).values


def speak(nodes, model, *texts: str, **inputs) -> list[str]:
    """The reports of Synthesize."""
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=1, **inputs.pop("expert", {})).values
    given = {name: [value] for name, value in {"settings": settings, "seed": 1, **inputs}.items()}
    return nodes["OmniVoiceSynthesize"].execute(model=[model], text=[*texts], **given).values[3]


def test_a_dictionary_adds_to_another(nodes, host) -> None:
    first, report = nodes["OmniVoiceDictionary"].execute("a = b\nc = d").values
    assert report == "2 entries"
    both, report = nodes["OmniVoiceDictionary"].execute("a = x", first).values
    assert report == "2 entries, replaced here: a"
    assert [(one.word, one.replacement) for one in both.entries] == [("c", "d"), ("a", "x")]
    assert nodes["OmniVoiceDictionary"].execute("c = y", both).values[1] == "2 entries, replaced here: c"


@pytest.mark.parametrize(
    ("entries", "message"),
    [("nonsense", "entries, line 1: 'nonsense' is no entry"), (5, "entries must be a string, got 5"), (None, True)],
)
def test_entries_are_checked_before_a_run(nodes, host, entries, message) -> None:
    found = nodes["OmniVoiceDictionary"].validate_inputs(entries=entries)
    assert found is True if message is True else found.startswith(message)


@pytest.mark.parametrize(
    "node", ["OmniVoiceSynthesize", "OmniVoiceDialogue", "OmniVoiceSubtitles", "OmniVoicePreviewText"]
)
def test_a_literal_is_no_dictionary(nodes, host, loaded_pack, model, node) -> None:
    texts = {
        "OmniVoiceDialogue": {"script": "A: a", "names": "A"},
        "OmniVoiceSubtitles": {"subtitles": "1\n00:00:00,500 --> 00:00:02,500\nHello."},
    }.get(node, {"text": "a"})
    given = {**texts, "model": model, "dictionary": {"a": "b"}}
    if node == "OmniVoiceSynthesize":
        given = {name: [value] for name, value in given.items()}
    with pytest.raises(Exception, match="dictionary must come from OmniVoice Pronunciation Dictionary, got dict"):
        nodes[node].execute(**given)


def test_reports_name_what_was_replaced_and_once_what_was_not(nodes, model, host) -> None:
    given = words(nodes, "tea = tee\nnginx = engine x\nnever = x")
    first, last = speak(nodes, model, "A cup of tea.", "Ask nginx.", dictionary=given)
    assert "dictionary: “tea” → “tee”" in first and "A cup of tee." in first
    assert "dictionary: “nginx” → “engine x”" in last
    unused = "dictionary: not in the text are 1 of 3 entries: never"
    assert unused not in first and last.endswith(unused)


def test_dialogue_and_subtitles_use_it(nodes, model, host) -> None:
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=1).values
    given = {"model": model, "dictionary": words(nodes, "tea = tee\nnever = x"), "settings": settings, "seed": 1}
    script = "Ann: This is a cup of tea for you.\nAnn: And more tea."
    report = nodes["OmniVoiceDialogue"].execute(script=script, names="Ann", **given).values[4]
    assert "dictionary: “tea” → “tee”" in report
    assert report.count("dictionary: not in the text are 1 of 2 entries: never") == 1
    cues = "1\n00:00:00,500 --> 00:00:02,500\nSome tea.\n\n2\n00:00:03,000 --> 00:00:05,000\nNone.\n"
    report = nodes["OmniVoiceSubtitles"].execute(subtitles=cues, **given).values[2]
    assert "dictionary: “tea” → “tee”" in report
    assert report.count("dictionary: not in the text are 1 of 2 entries: never") == 1


TEXTS = [
    "Good morning.",
    "One. [pause 1.5s] Two, three [laughter] four! <break time='300ms'/> Five.",
    "He paid $5 to nginx\non 12/31/2024.\n* * *\nThe end.",
    "我有3个苹果，重复一遍。",
    " ".join(f"This is sentence number {number}, which is here to be long." for number in range(4)),
    "<b>Bold</b> text &amp; more | noise [pause]",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("expert", [{}, {"normalise": True, "chunk_seconds": 5.0, "chunk_threshold_seconds": 5.0}])
def test_a_preview_has_the_chunks_of_synthesize(nodes, model, host, text, expert) -> None:
    given = {"dictionary": words(nodes, "nginx = engine x\n重 = CHONG2"), "speed": 1.2}
    (report,) = speak(nodes, model, text, expert=expert, **given)
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=1, **expert).values
    _, seconds, shown = preview(nodes, text, settings=settings, **given)
    assert preview(nodes, text, settings=settings, **given, model=model)[1:] == (seconds, shown)
    said = [line.split(maxsplit=1) for line in report.splitlines()[3:] if line.startswith("  ")]
    seen = [line.split(" s  ") for line in shown.splitlines()[2:] if " s  " in line]
    assert [chunk for _, chunk in said] == [chunk for _, chunk in seen]
    assert [f"{int(frames) / 25:.2f}" for frames, _ in said] == [length.strip() for length, _ in seen]
    assert shown.startswith(f"about {seconds:.2f} s in {len(said)} chunk")
    notes = [line for line in report.splitlines() if line.startswith("warning: ")]
    assert set(notes) >= {line for line in shown.splitlines() if line.startswith("warning: ")}


def test_what_a_preview_says(nodes, host) -> None:
    (settings,) = nodes["OmniVoiceSettings"].execute(normalise=True).values
    text = "Ask nginx.\nIt costs $5 [laughter] [pause 1.5s] 打ZHE2出 [B EY1 S] [odd]"
    spoken, seconds, report = preview(
        nodes, text, settings=settings, dictionary=words(nodes, "nginx = engine x\nx = y"), language="en"
    )
    assert spoken == "Ask engine x. It costs five dollars [laughter] [pause 1.5s] 打ZHE2出 [B EY1 S] [odd]"
    for line in (
        "  line 1, column 5: “nginx” → “engine x” (dictionary)",
        "  line 2, column 10: “$5” → “five dollars” (normalised)",
        "         pause 1.5 s",
        "tags: [laughter]",
        "phonemes: [B EY1 S]",
        "pinyin: ZHE2",
        "pauses: 1, 1.5 s in all",
        "dictionary: not in the text are 1 of 2 entries: x",
    ):
        assert line in report.splitlines(), report
    assert any(line.startswith("warning: [odd] is not a tag") for line in report.splitlines())
    again, same, _ = preview(nodes, spoken, language="en")
    assert again == spoken and same == pytest.approx(seconds, abs=0.2)


def test_an_exact_length_is_shown_as_such(nodes, host) -> None:
    (settings,) = nodes["OmniVoiceSettings"].execute(pad_seconds=0.5).values
    _, seconds, report = preview(nodes, "Hello there.", duration=3.0, settings=settings)
    assert seconds == 4.0 and report.startswith("about 4.00 s in 1 chunk, language auto")


@pytest.mark.parametrize(("text", "message"), [("...", "nothing to speak"), ("a [pause soon]", "cannot be read")])
def test_a_wrong_text_is_refused_before_a_run(nodes, host, text, message) -> None:
    assert message in nodes["OmniVoicePreviewText"].validate_inputs(text=text)
    assert nodes["OmniVoicePreviewText"].validate_inputs(text=None) is True
