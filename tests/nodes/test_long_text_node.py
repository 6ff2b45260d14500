"""Long Text as a node: what comes out, what a stop keeps, what is told to the browser, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

TEXT = (
    "# Morning\nThe weather is beautiful today, and everyone is here.\n[pause 1s]\nWe waited for the old train.\n"
    "# Evening\nIt was late when the last of them came home again."
)
FILES = ("Morning", "The weather", "We waited", "Evening", "It was late")


@pytest.fixture
def speak(nodes, loaded, host):
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=2).values

    def run(text: str = TEXT, name: str = "book", model: object = loaded, **inputs: object) -> SimpleNamespace:
        given = {"settings": settings, "seed": 3, **inputs}
        output = nodes["OmniVoiceLongText"].execute(model=model, text=text, name=name, **given)
        audio, timings, subtitles, report = output.values
        return SimpleNamespace(
            samples=audio["waveform"],
            rate=audio["sample_rate"],
            times=json.loads(timings),
            subtitles=subtitles,
            report=report,
            heard=output.ui,
        )

    return run


@pytest.fixture
def kept(host) -> Path:
    """Where the parts of the text `book` are."""
    return host.folder.parents[1] / "output" / "omnivoice" / "long" / "book"


def test_the_recording_its_times_chapters_and_report(speak, kept: Path) -> None:
    book = speak()
    assert book.samples.dtype == torch.float32 and book.samples.shape[:2] == (1, 1) and book.rate == 24_000
    assert book.samples.shape[2] == round(book.times["seconds"] * 24_000)
    assert [chapter["title"] for chapter in book.times["chapters"]] == ["Morning", "Evening"]
    assert [line["text"].startswith(text) for line, text in zip(book.times["lines"], FILES)] == [True] * 5
    for before, after in zip(book.times["lines"], book.times["lines"][1:]):
        assert not book.samples[..., round(before["end"] * 24_000) : round(after["start"] * 24_000)].any()
    assert book.times["lines"][2]["start"] - book.times["lines"][1]["end"] == pytest.approx(1.0)
    assert book.subtitles.count("-->") == 5
    assert book.report.startswith(f"0:{round(book.times['seconds']):02d} of speech, 5 parts, 0 of them from an earlier")
    assert "the parts are kept in output/omnivoice/long/book" in book.report
    assert "chapter 0:00  Morning" in book.report and "  Evening" in book.report
    assert len(list(kept.iterdir())) == 5


def test_the_parts_that_the_browser_plays_are_marked(speak, host) -> None:
    speak()
    played = [path for path in host.folder.parents[1].rglob("*.wav") if path.is_file()]
    assert played and all(b"AI-generated speech (OmniVoice)" in path.read_bytes() for path in played)


def test_the_parts_are_told_to_the_browser_as_they_come(speak, host) -> None:
    book = speak()
    assert {
        (event, client, data["node"], data["display_node"], data["prompt_id"]) for event, data, client in host.messages
    } == {("executed", "browser", "7", "7", "prompt 1")}
    outputs = [data["output"] for _, data, _ in host.messages]
    assert [output["omnivoice_long_first"] for output in outputs] == [[0], [1], [2], [3], [4]]
    names = [name for output in outputs for name in output["omnivoice_long"]]
    assert book.heard == {"omnivoice_long": names, "omnivoice_long_first": [0]}
    played = [read_samples(host.folder.parents[1] / "temp" / "omnivoice_long" / name) for name in names]
    assert torch.equal(torch.cat(played), (book.samples[0, 0] * 32768).to(torch.int16))


def read_samples(path: Path) -> torch.Tensor:
    import wave

    with wave.open(str(path)) as file:
        return torch.frombuffer(bytearray(file.readframes(file.getnframes())), dtype=torch.int16)


def test_without_a_browser_nothing_is_sent(speak, loaded_pack, monkeypatch: pytest.MonkeyPatch, host) -> None:
    monkeypatch.setattr(loaded_pack.host.long_text.PromptServer.instance, "client_id", None)
    speak()
    assert host.messages == []


@pytest.mark.parametrize("after", [1, 5, 9])  # reports of progress
def test_a_cancelled_run_goes_on_where_it_was(speak, host, kept: Path, interrupt, after: int) -> None:
    whole = speak(name="whole").samples
    host.progress.clear()
    host.interrupt_after = after
    with pytest.raises(interrupt):
        speak()
    made = len(list(kept.iterdir())) if kept.exists() else 0
    assert made < 5
    host.interrupt_after = None
    again = speak()
    assert torch.equal(again.samples, whole)
    assert f"5 parts, {made} of them from an earlier run" in again.report


def test_progress_counts_parts(speak, host) -> None:
    speak()
    assert host.progress[-1] == (500, 500)
    assert [value for value, _ in host.progress] == sorted(value for value, _ in host.progress)
    assert any(text.startswith(("0 of 5 parts", "1 of 5 parts")) for text, _ in host.texts)


def earlier(report: str) -> int:
    return int(report.split(" parts, ")[1].split()[0])


def test_a_part_is_used_again_only_for_the_same_model_and_settings(
    speak, nodes, loaded, loaded_pack, stand_in, host, checkpoint: Path, root: Path
) -> None:
    """Also after a restart: a model that is loaded anew from the same files is the same one."""
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    load = loaded_pack.host.models.load_model
    text = "It was late. [pause 1s] We waited."
    speak(text, model=load("OmniVoice", "fp32", "off"))
    assert earlier(speak(text, model=load("OmniVoice", "fp32", "auto")).report) == 2
    model = load("OmniVoice", "fp32", "off")
    assert earlier(speak(text, model=model, seed=4).report) == 0
    assert earlier(speak(text, model=model, preset="draft", settings=None).report) == 0
    assert earlier(speak(text, model=load("OmniVoice", "bf16", "off")).report) == 0
    weights = host.folder / "OmniVoice" / "config.json"
    weights.write_text(weights.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert earlier(speak(text, model=load("OmniVoice", "fp32", "off")).report) == 0


def test_a_lora_its_strength_and_its_content_are_part_of_the_model(loaded_pack, loaded, root: Path, host) -> None:
    loras = host.folder.parent / "loras"
    loras.mkdir(parents=True)
    source = root / "tests" / "assets" / "lora" / "llm_only"
    shutil.copytree(source, loras / "mine")
    host.table["loras"] = ([str(loras)], {".safetensors"})
    apply = loaded_pack.host.lora.apply_lora
    one = apply(loaded, "mine", None, 1.0).model
    assert one.identity != loaded.identity
    assert apply(loaded, "mine", None, 1.0).model.identity == one.identity
    assert apply(loaded, "mine", None, 0.5).model.identity not in (one.identity, loaded.identity)
    assert apply(one, "mine", None, 1.0).model.identity != one.identity
    assert apply(loaded, "mine", None, 0.0).model.identity == loaded.identity
    shutil.copytree(loras / "mine", loras / "copy")
    assert apply(loaded, "copy", None, 1.0).model.identity == one.identity


def test_old_parts_are_named_and_kept(speak, kept: Path) -> None:
    voice = {"voice": None}
    speak(**voice)
    (kept / "notes.txt").write_text("mine", encoding="utf-8")
    (kept / "other.safetensors").write_bytes(b"mine too")
    report = speak(TEXT.replace("came home again", "left"), **voice).report
    assert earlier(report) == 4
    assert "1 parts of another text, voice or setting are kept there too (" in report
    assert "delete the folder" in report
    assert len(list(kept.iterdir())) == 8


def test_a_damaged_part_is_made_again(speak, kept: Path) -> None:
    whole = speak().samples
    damaged = sorted(kept.iterdir())[2]
    damaged.write_bytes(damaged.read_bytes()[:100])
    again = speak()
    assert torch.equal(again.samples, whole) and earlier(again.report) == 4


@pytest.mark.parametrize(
    "name",
    ["", "..", ".", "a/b", "a\\b", "/etc", "C:\\x", "con", "nul.txt", "a\0b", " a", "a.", "x" * 200, 5, None, ["a"]],
)
def test_bad_names_are_refused_before_anything_is_written(nodes, speak, host, name: object) -> None:
    validated = nodes["OmniVoiceLongText"].validate_inputs(name=name)
    if name is None:  # linked, or not given: the default
        assert validated is True
        return
    assert isinstance(validated, str) and validated.startswith("name is the name of a folder in output/omnivoice/long")
    with pytest.raises(Exception, match="name is the name of a folder"):
        speak(name=name)
    assert not (host.folder.parents[1] / "output").exists()


def test_a_folder_that_is_a_link_out_of_output_is_refused(speak, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    kept.parent.mkdir(parents=True)
    kept.symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ValueError, match=r"^name 'book' leads out of its folder through a link: choose another name"):
        speak()
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"text": ""}, "nothing to speak"),
        ({"text": "# One\n***"}, "line 1: the heading, or the text below it, cannot be spoken"),
        ({"text": "word " * 50_000}, "text"),
        ({"speed": 9.0}, "speed must be 0.25-4"),
        ({"seed": -1}, "seed"),
        ({"voice": "x"}, "voice must come from"),
        ({"model": 5}, "model must come from Load OmniVoice"),
    ],
)
def test_what_cannot_be_spoken_is_refused(speak, host, inputs: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message):
        speak(**inputs)
    assert not (host.folder.parents[1] / "output").exists()


def test_retries_are_in_the_report_and_parts_with_other_retries_are_not_used(speak) -> None:
    first, again = speak(), speak(retries=1)
    assert "0 of them from an earlier" in again.report
    assert "is used" not in first.report and "was rejected" in again.report  # with two steps speech has faults
    resumed = speak(retries=1)
    assert "5 of them from an earlier" in resumed.report and torch.equal(resumed.samples, again.samples)


def test_retries_out_of_range_are_refused(speak) -> None:
    with pytest.raises(ValueError, match="retries must be"):
        speak(retries=-1)
