"""Dataset against a stand-in for ComfyUI: the menu, folders and lists of recordings, progress, cancel, refusals."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

NONE = "none (use the audio input)"
TEXT = "Good morning everyone."


@pytest.fixture(scope="module")
def write(loaded_pack: SimpleNamespace) -> Callable[[Path, int], Path]:
    """Makes a folder with that many clips."""
    engine = loaded_pack.package.__name__ + ".omnivoice."
    write_wav = importlib.import_module(engine + "intake.audio_files").write_wav
    waveform = importlib.import_module(engine + "types").Waveform

    def make(folder: Path, count: int = 2) -> Path:
        folder.mkdir(parents=True)
        for i in range(count):
            write_wav(folder / f"{i}.wav", waveform(sound(i)[0], 24_000))
            (folder / f"{i}.txt").write_text(TEXT)
        return folder

    return make


@pytest.fixture
def top(host) -> Path:
    """The folder that holds input/, user/ and models/."""
    folder = host.folder.parents[1]
    (folder / "input").mkdir()
    (folder / "user").mkdir()
    return folder


@pytest.fixture
def make(nodes: dict[str, type], loaded: object, top: Path):
    def run(folder: object = NONE, **given: list) -> tuple:
        inputs = {"language": ["auto"], "instruct": [""], "text": [""], **given}
        return nodes["OmniVoiceDataset"].execute(model=[loaded], folder=[folder], **inputs).values

    return run


def sound(seed: int, seconds: float = 1.5, batch: int = 1) -> torch.Tensor:
    return 0.1 * torch.randn(batch, 1, round(seconds * 24_000), generator=torch.Generator().manual_seed(seed))


def audio(samples: torch.Tensor) -> dict[str, object]:
    return {"waveform": samples, "sample_rate": 24_000}


def menu(nodes: dict[str, type]) -> list[str]:
    return next(i for i in nodes["OmniVoiceDataset"].define_schema().inputs if i.id == "folder").options


def test_schema(nodes: dict[str, type], top: Path) -> None:
    schema = nodes["OmniVoiceDataset"].define_schema()
    assert [(i.id, i.kind, i.optional) for i in schema.inputs] == [
        ("model", "OMNIVOICE_MODEL", False),
        ("folder", "COMBO", False),
        ("language", "COMBO,STRING", True),
        ("instruct", "STRING", True),
        ("audio", "AUDIO", True),
        ("text", "STRING", True),
    ]
    assert [o.kind for o in schema.outputs] == ["OMNIVOICE_DATASET", "STRING", "INT", "FLOAT"]
    assert schema.is_input_list


def test_menu_is_fresh_and_stays_inside(nodes: dict[str, type], host, top: Path, write) -> None:
    assert menu(nodes) == [NONE]
    write(top / "input" / "ann" / "wavs", 1)
    (top / "input" / ".hidden" / "x").mkdir(parents=True)
    (top / "elsewhere").mkdir()
    (top / "input" / "link").symlink_to(top / "elsewhere")
    (top / "input" / "file.wav").touch()
    assert menu(nodes) == [NONE, "ann", "ann/wavs"]
    write(top / "sets" / "big", 1)
    (top / "sets" / "linked").symlink_to(top / "elsewhere")  # an admin's folder: links are the admin's own
    assert menu(nodes) == [NONE, "ann", "ann/wavs"]
    host.table["datasets"] = ([str(top / "sets")], set())
    assert menu(nodes) == [NONE, "ann", "ann/wavs", "datasets/big", "datasets/linked"]
    shutil.rmtree(top / "input")
    assert menu(nodes) == [NONE, "datasets/big", "datasets/linked"]


@pytest.mark.parametrize("place", ["input", "datasets"])
def test_a_folder(make, host, top: Path, write, loaded: object, place: str) -> None:
    folder = write(top / place / "ann", 3)
    (folder / "2.txt").unlink()
    host.table["datasets"] = ([str(top / "datasets")], set())
    name = "ann" if place == "input" else "datasets/ann"
    dataset, report, clips, seconds = make(name, language=["English"], instruct=["Female"])
    assert type(dataset).__name__ == "Dataset" and (clips, seconds) == (2, 74 / 25)
    assert {(clip.language, clip.instruct) for clip in dataset.clips} == {("en", "female")}
    assert report.splitlines()[0] == "2 of 3 clips, 3.0 s, languages: en (2)"
    assert host.progress == [(1, 2), (2, 2)]
    ((models, memory),) = host.loads
    assert models == [loaded.encoder] and memory > 10**6
    reason = "2.wav: it has no transcript: write its words into 2.txt"
    assert host.texts == [(f"1 of 3 clips are not used; the report names them. The first is {reason}", "7")]
    assert len(list((top / "user" / "omnivoice_codes").rglob("*.safetensors"))) == 2
    assert not (folder / ".omnivoice_codes").exists()


def test_lists_and_batches_of_recordings(make) -> None:
    dataset, _, clips, _ = make(
        audio=[audio(sound(1)), audio(sound(2, batch=2))], text=[TEXT, TEXT, "Good night, all."]
    )
    assert clips == 3 and [clip.text for clip in dataset.clips] == [TEXT, TEXT, "Good night, all."]
    lines, *_ = make(
        audio=[audio(sound(1)), audio(sound(2, batch=2))], text=[f"{TEXT}\n\n{TEXT}\r\nGood night, all.\n"]
    )
    assert lines.fingerprint() == dataset.fingerprint()
    one, *_ = make(audio=[audio(sound(1))], text=["Good morning,\neveryone."])
    assert one.clips[0].text == "Good morning, everyone."


def test_a_bad_recording_is_told_and_the_others_used(make, host) -> None:
    _, report, clips, _ = make(audio=[audio(sound(1)), audio(torch.zeros(1, 1, 48_000))], text=[TEXT, TEXT])
    assert (
        clips == 1
        and report.endswith("\nrejected clip 2: it is silent\n2 rows = 1 used + 1 not used")
        and len(host.texts) == 1
    )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (audio(torch.zeros(0, 1, 99)), "audio must hold at least one recording, got an empty batch"),
        (audio(torch.zeros(1, 0, 99)), "audio must have 1-"),
        (audio(torch.zeros(1, 1, 0)), "it must be at least 0.5 s long"),
        (audio(torch.full((1, 1, 36_000), torch.nan)), "it holds samples that are NaN"),
        (audio(torch.zeros(1, 1, 36_000, dtype=torch.int16)), "audio must hold a float waveform"),
        ({"waveform": sound(1), "sample_rate": 0}, "the audio's sample_rate must be a whole number of Hz"),
        ({"waveform": None, "sample_rate": 24_000}, "audio must hold a float waveform"),
        ({}, "audio must hold a float waveform"),
    ],
)
def test_a_recording_that_cannot_be_used_is_named_and_keeps_its_text(make, host, bad: dict, reason: str) -> None:
    dataset, report, clips, _ = make(
        audio=[audio(sound(1)), bad, audio(sound(2))], text=[TEXT, "Lost.", "Good night, all."]
    )
    assert clips == 2 and [clip.text for clip in dataset.clips] == [TEXT, "Good night, all."]
    assert f"\nrejected clip 2: {reason}" in report and len(host.texts) == 1


def test_cancel_and_again(make, host, top: Path, write, interrupt: type[BaseException]) -> None:
    write(top / "input" / "ann", 4)
    host.interrupt_after = 2
    with pytest.raises(interrupt):
        make("ann")
    kept = list((top / "user").rglob("*.safetensors"))
    host.interrupt_after = None
    assert len(kept) == 2 and make("ann")[2] == 4


def test_in_inference_mode_as_comfyui_runs_it(make) -> None:
    with torch.inference_mode():
        dataset, *_ = make(audio=[audio(sound(1))], text=[TEXT])
    assert not dataset.clips[0].codes.is_inference()


def test_none_on_an_optional_input_means_not_connected(make, top: Path, write) -> None:
    write(top / "input" / "ann", 1)
    plain = make("ann")[0].fingerprint()
    assert make("ann", instruct=[None], audio=[None], text=[None])[0].fingerprint() == plain
    assert make("ann", instruct=[], audio=[], text=[])[0].fingerprint() == plain


@pytest.mark.parametrize("value", [None, [], {"a": 1}, "x", 3])
def test_a_model_that_is_none(nodes: dict[str, type], top: Path, value: object) -> None:
    with pytest.raises(ValueError, match=r"^model must come from Load OmniVoice, got "):
        nodes["OmniVoiceDataset"].execute(model=[value], folder=[NONE], language=["auto"])


def test_the_same_text_twice_is_one_value(make, top: Path, write) -> None:
    """Lists of equal strings, which other nodes make, are not always the same object."""
    write(top / "input" / "ann", 1)
    words = ["".join(["Eng", "lish"]) for _ in range(2)]
    assert make("ann", language=words)[0].clips[0].language == "en"


@pytest.mark.parametrize("language", ["English", "english", "en", "EN", "en-US", "en_GB"])
def test_languages_by_name_id_and_tag(make, top: Path, write, language: str) -> None:
    write(top / "input" / "ann", 1)
    assert make("ann", language=[language])[0].clips[0].language == "en"


def test_a_language_of_ones_own(make, top: Path, write) -> None:
    write(top / "input" / "ann", 2)
    dataset, report, *_ = make("ann", language=["id:la"])
    assert {clip.language for clip in dataset.clips} == {"la"}
    assert report.count("la: not a language of OmniVoice") == 1


@pytest.mark.parametrize("name", ["Voix d'Ame\u0301lie/wavs", "voix d'am\u00e9lie\\WAVS", "Voix d'Am\u00e9lie/wavs"])
def test_folders_match_by_form_case_and_slash(make, nodes: dict[str, type], top: Path, write, name: str) -> None:
    write(top / "input" / "Voix d'Ame\u0301lie" / "wavs", 1)
    assert nodes["OmniVoiceDataset"].validate_inputs(folder=name) is True
    assert make(name)[2] == 1 and nodes["OmniVoiceDataset"].fingerprint_inputs(folder=[name])


def test_a_name_of_two_folders_is_refused(make, top: Path, write) -> None:
    write(top / "input" / "Ann", 1), write(top / "input" / "ann", 2)
    assert make("Ann")[2] == 1 and make("ann")[2] == 2
    with pytest.raises(ValueError, match="could be any of"):
        make("ANN")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no recordings given: choose a folder, or connect the audio input"),
        ({"audio": [None]}, "no recordings given"),
        ({"folder": "ann", "audio": [audio(sound(1))]}, "two sources given: disconnect the audio input"),
        ({"folder": "ann", "text": ["a\nb"]}, "text belongs to the audio input, got 2 lines"),
        ({"audio": [audio(sound(1))] * 3, "text": ["a", "b"]}, "one text for each recording, got 2 for 3"),
        ({"audio": [audio(sound(1))] * 3, "text": ["a\nb"]}, "one text for each recording, got 2 for 3"),
        ({"audio": [audio(sound(1))] * 2}, "one text for each recording, got 0 for 2"),
        ({"audio": [audio(sound(1))], "text": [3]}, "text must be a string, got 3"),
        ({"audio": [3], "text": ["a"]}, "clip 1: audio must be ComfyUI's AUDIO, got 3"),
        ({"audio": [audio(sound(1, batch=2)), None], "text": ["a"]}, "clip 3: audio must be ComfyUI's AUDIO, got None"),
        ({"audio": [audio(sound(1))] * 2, "text": ["a", None]}, "text must be a string, got None"),
        ({"language": [3], "folder": "ann"}, "language must be a string, got 3"),
        ({"language": [], "folder": "ann"}, "language must be one value, got an empty list"),
        ({"language": ["en", "de"], "folder": "ann"}, "language must be the same for every item"),
        ({"instruct": ["a", "b"], "folder": "ann"}, "instruct must be the same for every item"),
        ({"folder": "ann", "language": ["Klingon"]}, "language 'Klingon' is not known"),
        ({"folder": "ann", "instruct": [5]}, "instruct must be a string, got 5"),
        ({"folder": "empty"}, "empty contains no dataset: a dataset is a folder"),
    ],
)
def test_refusals(make, pack: SimpleNamespace, top: Path, write, given: dict, message: str) -> None:
    write(top / "input" / "ann", 1)
    (top / "input" / "empty").mkdir()
    with pytest.raises(Exception, match=message) as told:
        make(**given)
    assert isinstance(told.value, importlib.import_module(pack.package.__name__ + ".omnivoice.errors").OmniVoiceError)


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../models",
        "/etc",
        "ann/..",
        "ann/../../models",
        "link",
        ".",
        "",
        "input",
        "C:\\x",
        "\\\\h\\s",
        3,
        None,
        {},
    ],
)
def test_names_that_are_not_listed(make, nodes: dict[str, type], top: Path, write, name: object) -> None:
    write(top / "input" / "ann", 1)
    (top / "input" / "link").symlink_to("/etc")
    with pytest.raises(Exception, match=r"folder must be one of none \(use the audio input\), ann, got") as told:
        make(name)
    assert "press R" in str(told.value)
    check = nodes["OmniVoiceDataset"].validate_inputs
    assert name is None or check(folder=name) == check(folder=[name]) == str(told.value)
    assert check(folder="ann") is True and check(folder=[NONE]) is True and check() is True


def test_lists_in_a_folder_reach_nothing_outside(make, top: Path, write) -> None:
    folder = write(top / "input" / "ann", 1)
    write(top / "input" / "bob", 1)
    (folder / "metadata.csv").write_text(f"0|{TEXT}\n../bob/0|{TEXT}\n{top}/input/bob/0.wav|{TEXT}\n")
    _, report, clips, _ = make("ann")
    assert clips == 1 and report.count("it is outside the dataset folder") == 2


def test_fingerprint_follows_the_files(nodes: dict[str, type], top: Path, write) -> None:
    fingerprint = nodes["OmniVoiceDataset"].fingerprint_inputs
    folder = write(top / "input" / "ann", 1)
    before = fingerprint(model=None, folder=["ann"], language=["auto"])
    assert before and before == fingerprint(folder="ann")
    (folder / "0.txt").write_text("Something else.")
    assert fingerprint(folder=["ann"]) != before
    assert fingerprint(folder=["gone"]) == fingerprint(folder=[NONE]) == fingerprint() == ""


@pytest.mark.parametrize("file", ["0.wav", "0.txt"])
def test_fingerprint_notices_a_file_replaced_with_equal_size_and_time(
    nodes: dict[str, type], top: Path, write, file: str
) -> None:
    folder = write(top / "input" / "ann", 1)
    fingerprint, path = nodes["OmniVoiceDataset"].fingerprint_inputs, folder / file
    before, status, data = fingerprint(folder=["ann"]), path.stat(), path.read_bytes()
    (folder / "new").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(folder / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (folder / "new").replace(path)
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert fingerprint(folder=["ann"]) != before
