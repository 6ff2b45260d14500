"""The bridge to ComfyUI: folders, names, dtypes, the guard, audio in and out."""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections import UserDict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

HOSTILE = [
    "../OmniVoice",
    "/etc/passwd",
    "C:\\x",
    "OmniVoice/../..",
    "",
    "a\0b",
    None,
    3,
    ["OmniVoice"],
    {"a": 1},
    "omnivoic",
]


@pytest.fixture
def model(host, checkpoint: Path) -> Path:
    return Path(shutil.copytree(checkpoint, host.folder / "OmniVoice"))


def test_registering_keeps_what_extra_model_paths_gave(pack: SimpleNamespace, host, tmp_path: Path) -> None:
    table = pack.host.models.folder_paths.folder_names_and_paths
    table["omnivoice"] = ([str(tmp_path / "extra")], set())
    pack.host.models.register_model_folder()
    pack.host.models.register_model_folder()
    assert table["omnivoice"] == ([str(tmp_path / "extra"), str(host.folder)], {".safetensors"})


def test_menu_says_when_there_is_no_model(pack: SimpleNamespace) -> None:
    assert pack.host.models.model_names() == ["no model found in models/omnivoice"]
    with pytest.raises(
        ValueError, match=r"no model found in models/omnivoice: .*ComfyUI/models/omnivoice/OmniVoice/config.json"
    ):
        pack.host.models.model_folder("no model found in models/omnivoice")


def test_the_demo_voice_is_last_in_the_menu(
    pack: SimpleNamespace, host, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.export import export_checkpoint

    file = export_checkpoint(locate_checkpoint(model), tmp_path / "demo.safetensors", words=["hello"])
    monkeypatch.setattr(pack.host.models.demo, "demo_model", lambda: file)
    name = "demo voice (speaks a small vocabulary)"
    assert pack.host.models.model_names() == ["OmniVoice", name]
    assert pack.host.models.model_folder(name) == file and pack.load.LoadOmniVoice.fingerprint_inputs(name)
    assert pack.host.models.load_model(name, "auto", "off").engine.words == {"hello"}
    shutil.rmtree(model)
    assert pack.host.models.model_names() == [name]
    with pytest.raises(
        ValueError, match=r"no model found in models/omnivoice except the demo voice: .*OmniVoice Download"
    ):
        pack.host.models.model_folder("OmniVoice")


def test_menu_lists_models_and_nothing_else(pack: SimpleNamespace, host, model: Path, checkpoint: Path) -> None:
    (host.folder / "notes").mkdir()
    (host.folder / "notes" / "config.json").write_text("{}")
    (host.folder / "a_file.safetensors").write_bytes(b"x")
    assert pack.host.models.model_names() == ["OmniVoice"]
    shutil.copytree(model, host.folder / "my fine-tune")  # without a restart
    assert pack.host.models.model_names() == ["OmniVoice", "my fine-tune"]
    assert pack.host.models.model_folder("my fine-tune") == host.folder / "my fine-tune"


def test_first_folder_of_a_name_wins_and_a_root_may_be_a_model(
    pack: SimpleNamespace, host, model: Path, checkpoint: Path, tmp_path: Path
) -> None:
    extra = tmp_path / "extra"
    shutil.copytree(checkpoint, extra / "OmniVoice")
    shutil.copytree(checkpoint, extra, dirs_exist_ok=True)
    pack.host.models.folder_paths.folder_names_and_paths["omnivoice"][0].insert(0, str(extra))
    assert pack.host.models.model_folders() == {"extra": extra, "OmniVoice": extra / "OmniVoice"}


def test_menu_survives_places_that_are_no_folders(pack: SimpleNamespace, host, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    places = pack.host.models.folder_paths.folder_names_and_paths["omnivoice"][0]
    places[:0] = [str(tmp_path / "absent"), str(tmp_path / "file")]
    (host.folder / "dangling").symlink_to(tmp_path / "absent")
    assert pack.host.models.model_names() == ["OmniVoice"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_only_a_listed_name_is_resolved(pack: SimpleNamespace, model: Path, name: object) -> None:
    with pytest.raises(ValueError, match="model_name must be one of OmniVoice, got"):
        pack.host.models.model_folder(name)
    assert pack.load.LoadOmniVoice.fingerprint_inputs(name) == ""


def test_fingerprint_follows_the_files(pack: SimpleNamespace, model: Path) -> None:
    before = pack.load.LoadOmniVoice.fingerprint_inputs("OmniVoice")
    assert before == pack.load.LoadOmniVoice.fingerprint_inputs("OmniVoice") != ""
    with (model / "config.json").open("a") as file:
        file.write("\n")
    assert pack.load.LoadOmniVoice.fingerprint_inputs("OmniVoice") != before


def test_a_file_that_was_replaced_by_one_of_equal_size_and_time_changes_the_fingerprint(
    pack: SimpleNamespace, model: Path
) -> None:
    before = pack.load.LoadOmniVoice.fingerprint_inputs("OmniVoice")
    for name in ("config.json", "audio_tokenizer/model.safetensors"):
        file = model / name
        status, data = file.stat(), bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        after = pack.load.LoadOmniVoice.fingerprint_inputs("OmniVoice")
        assert after != before
        before = after


def test_a_model_is_found_in_any_unicode_form_and_case(pack: SimpleNamespace, host, checkpoint: Path) -> None:
    stored = unicodedata.normalize("NFD", "Café Models")
    shutil.copytree(checkpoint, host.folder / stored)
    for name in (stored, unicodedata.normalize("NFC", stored), "CAFÉ MODELS"):
        assert pack.host.models.model_folder(name) == host.folder / stored
        assert pack.load.LoadOmniVoice.fingerprint_inputs(name)


def test_dtype_auto(pack: SimpleNamespace) -> None:
    pick = pack.host.models.pick_dtype
    assert pick("auto", torch.device("cpu")) is torch.float32
    assert pick("auto", torch.device("mps")) is torch.float32
    assert pick("auto", torch.device("cuda")) is torch.float16
    assert pick("fp16", torch.device("cuda")) is pick("fp16", torch.device("mps")) is torch.float16
    for bad in ("int4", None, 16, ["bf16"]):
        with pytest.raises(ValueError, match="dtype must be one of auto, bf16, fp16, fp32, fastest, fp8, got"):
            pick(bad, torch.device("cpu"))
    for device in ("cpu", "mps", "xpu"):
        with pytest.raises(
            ValueError, match=f"dtype fp8 saves the memory of .* GPUs, and this is {device}: choose auto"
        ):
            pick("fp8", torch.device(device))
    assert pick("fp8", torch.device("cuda")) is torch.float16


@pytest.mark.parametrize(
    "flag, wanted",
    [
        (torch.float8_e4m3fn, torch.float16),
        (torch.float8_e5m2, torch.float16),
        (torch.bfloat16, torch.bfloat16),
        (torch.float32, torch.float32),
        (torch.float64, torch.float32),
    ],
)
def test_dtype_auto_follows_comfyuis_flags(pack, monkeypatch, flag, wanted) -> None:
    monkeypatch.setattr(pack.host.models.mm, "unet_dtype", lambda device, supported_dtypes: flag)
    assert pack.host.models.pick_dtype("auto", torch.device("cuda")) is wanted


@pytest.mark.parametrize(
    "fault", [SystemExit(3), GeneratorExit(), type("PanicException", (BaseException,), {})("boom")]
)
def test_guard_turns_worker_killers_into_errors(pack: SimpleNamespace, fault: BaseException) -> None:
    def execute() -> None:
        raise fault

    with pytest.raises(RuntimeError, match=f"OmniVoice stopped on an internal fault: {type(fault).__name__}"):
        pack.host.values.guarded(execute)()


def test_guard_lets_errors_and_interrupts_pass(pack: SimpleNamespace, interrupt: type[BaseException]) -> None:
    for passed in (ValueError("x"), interrupt()):

        def execute(fault: BaseException = passed) -> None:
            raise fault

        with pytest.raises(type(passed)):
            pack.host.values.guarded(execute)()


NOISE = torch.randn(1, 2, 48_000)
BAD_AUDIO = [
    (None, "audio must be ComfyUI's AUDIO, got None: connect"),
    ([[0.0]], "audio must be ComfyUI's AUDIO, got list"),
    ("x.wav", "audio must be ComfyUI's AUDIO, got 'x.wav'"),
    ({}, r"must hold a float waveform \[batch, channels, samples\], got None"),
    ({"waveform": [[[0.0]]], "sample_rate": 24_000}, "got list"),
    ({"waveform": NOISE[0], "sample_rate": 24_000}, r"got \(2, 48000\) torch.float32"),
    ({"waveform": torch.zeros(1, 1, 9, dtype=torch.int16), "sample_rate": 24_000}, "torch.int16"),
    ({"waveform": NOISE[:0], "sample_rate": 24_000}, "at least one recording, got an empty batch"),
    ({"waveform": torch.zeros(1, 0, 9), "sample_rate": 24_000}, "must have 1-8 channels, got 0"),
    ({"waveform": torch.zeros(1, 9, 9), "sample_rate": 24_000}, "must have 1-8 channels, got 9"),
    ({"waveform": torch.zeros(1).expand(1, 8, 10**9), "sample_rate": 24_000}, "audio is too long"),
    (
        {"waveform": NOISE, "sample_rate": 24_000.0},
        "sample_rate must be a whole number of Hz, 4000-384000, got 24000.0",
    ),
    ({"waveform": NOISE, "sample_rate": True}, "got True"),
    ({"waveform": NOISE, "sample_rate": "24000"}, "got '24000'"),
    ({"waveform": NOISE, "sample_rate": 10**9}, "got 1000000000"),
    ({"waveform": NOISE}, "got None"),
]


@pytest.mark.parametrize("audio, message", BAD_AUDIO)
def test_forged_audio_is_refused(pack: SimpleNamespace, audio: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack.host.values.waveforms_from(audio)


def test_audio_comes_in_and_goes_out(pack: SimpleNamespace) -> None:
    given = NOISE.clone()
    for audio in ({"waveform": given, "sample_rate": 48_000}, UserDict(waveform=given, sample_rate=48_000)):
        (waveform,) = pack.host.values.waveforms_from(audio)
        assert (waveform.samples.shape, waveform.sample_rate) == ((2, 48_000), 48_000)
        assert torch.equal(given, NOISE)
    out = pack.host.values.audio_from(pack.engine.Waveform(torch.randn(2, 10)[:, ::2], 24_000))
    assert out["waveform"].shape == (1, 2, 5) and out["waveform"].is_contiguous() and out["sample_rate"] == 24_000


def test_warnings_reach_log_and_node(pack: SimpleNamespace, host, caplog: pytest.LogCaptureFixture) -> None:
    pack.host.progress.warn((), "7")
    pack.host.progress.warn(("first", "second"), "7")
    assert host.texts == [("first\nsecond", "7")]
    assert caplog.messages == ["first", "second"]


@pytest.mark.parametrize("fault", [RuntimeError("Event loop is closed"), ConnectionResetError("gone")])
def test_a_server_that_cannot_show_a_line_stops_nothing(pack: SimpleNamespace, monkeypatch, fault: Exception) -> None:
    def send(text: str, node_id: str) -> None:
        raise fault

    monkeypatch.setattr(pack.host.progress.PromptServer.instance, "send_progress_text", send)
    pack.host.progress.warn(("first",), "7")
    pack.host.progress.ProgressText("7").update("step 1")


def test_validate_gives_true_or_the_message(pack: SimpleNamespace) -> None:
    def check(value: object) -> int:
        if value == "bad":
            raise pack.engine.InputError("name must be good, got 'bad'")
        return 0

    validate = pack.host.values.validate
    assert validate(check, "good") is True and validate(check, None) is True  # None: a link, not known yet
    assert validate(check, "bad") == "name must be good, got 'bad'"


def test_progress_text_is_not_sent_more_often_than_it_can_be_read(pack: SimpleNamespace, host, monkeypatch) -> None:
    now = 100.0
    monkeypatch.setattr(pack.host.progress.time, "monotonic", lambda: now)
    text = pack.host.progress.ProgressText("7")
    for seconds, line in ((0, "first"), (0.4, "too soon"), (0.2, "second"), (0.1, "too soon")):
        now += seconds
        text.update(line)
    text.update("last", now=True)
    text.update("too soon")
    assert host.texts == [("first", "7"), ("second", "7"), ("last", "7")]
    pack.host.progress.ProgressText(None).update("nobody to show it to")
    assert len(host.texts) == 3


def test_every_item_of_a_list_is_validated(pack: SimpleNamespace) -> None:
    def check(value: object) -> None:
        if value != "good":
            raise pack.engine.InputError(f"must be good, got {value!r}")

    validate_each = pack.host.values.validate_each
    assert [validate_each(check, given) for given in ("good", [], ["good", "good"], ("good", None))] == [True] * 4
    assert validate_each(check, "bad") == "must be good, got 'bad'"
    assert validate_each(check, ["good", "bad", "worse"]) == "must be good, got 'bad'"


@pytest.mark.parametrize(("values", "result"), [([3], 3), (["a", "a"], "a"), ([None, None], None), ([0.5] * 4, 0.5)])
def test_an_input_that_must_not_vary(pack: SimpleNamespace, values: list[object], result: object) -> None:
    assert pack.host.values.only(values, "mode") == result


def test_an_input_that_varies_is_refused(pack: SimpleNamespace) -> None:
    only = pack.host.values.only
    with pytest.raises(ValueError, match=r"^mode must be one value, got an empty list$"):
        only([], "mode")
    with pytest.raises(ValueError, match=r"^mode must be the same for every item, got a list of 3 different ones$"):
        only(["a", "b", "a"], "mode")


def test_recordings_of_a_list_are_found_and_named(pack: SimpleNamespace) -> None:
    recordings_from, good = pack.host.values.recordings_from, {"waveform": NOISE, "sample_rate": 48_000}
    batch = {"waveform": torch.stack([NOISE[0], torch.full_like(NOISE[0], float("nan"))]), "sample_rate": 48_000}
    empty = {"waveform": torch.zeros(1, 1, 0), "sample_rate": 48_000}
    assert [one.samples.shape[1] for one in recordings_from([good, empty, good])] == [48_000, 0, 48_000]
    for given, message in (
        ([], r"^audio is an empty list: connect at least one audio$"),
        ([None], r"^audio must be ComfyUI's AUDIO, got None"),
        ([good, 3], r"^item 2 of 2: audio must be ComfyUI's AUDIO, got 3"),
        ([batch], r"^recording 2 of 2: audio holds NaN or Inf: load or generate it again$"),
        ([good, good, batch], r"^item 3 of 3: recording 2 of 2: audio holds NaN or Inf"),
    ):
        with pytest.raises(ValueError, match=message):
            recordings_from(given)
