"""The Transcribe node with a stand-in for transformers: what is listed, asked, refused, cut, joined and cancelled."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from safetensors.torch import save_file

FILES = ("config.json", "preprocessor_config.json", "tokenizer.json")


class Model(torch.nn.Module):
    """Says how many seconds it heard; asks the stopping criterion as generate() does, after each of two tokens."""

    def __init__(self, languages: tuple[str, ...] = ("en", "de")):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        known = {f"<|{language}|>": i for i, language in enumerate(languages)}
        self.generation_config = SimpleNamespace(is_multilingual=len(known) > 1, lang_to_id=known)
        self.config = SimpleNamespace(
            d_model=4,
            encoder_ffn_dim=8,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            decoder_layers=1,
            max_target_positions=9,
        )
        self.asked: list[dict] = []

    def generate(self, features: torch.Tensor, *, stopping_criteria: list, **options: object) -> torch.Tensor:
        assert not self.training and features.dtype == torch.float32
        self.asked.append(options)
        for _ in range(2):
            done = stopping_criteria[0](torch.zeros(1, 2), None)
            assert done.dtype == torch.bool and done.shape == (1,) and not done.any()
        return features[:, 0, :1].long()


class Extractor:
    def __call__(self, samples: numpy.ndarray, *, sampling_rate: int, return_tensors: str) -> dict[str, torch.Tensor]:
        assert sampling_rate == 16_000 and return_tensors == "pt" and samples.dtype == numpy.float32
        return {"input_features": torch.full((1, 80, 3000), float(len(samples)))}


class Tokenizer:
    def decode(self, ids: torch.Tensor, *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return f" {int(ids[0])}\N{ZERO WIDTH SPACE}\n"


@pytest.fixture
def library(host, nodes, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The stand-in library: which model it gives, and how it was asked for one."""
    fake = SimpleNamespace(model=Model(), calls=[], fault=None)

    def loads(kind: str, made):
        def from_pretrained(folder: str, **options: object) -> object:
            fake.calls.append((kind, Path(folder).name, options))
            if fake.fault:
                raise fake.fault
            return made()

        return SimpleNamespace(from_pretrained=from_pretrained)

    module = SimpleNamespace(
        WhisperForConditionalGeneration=loads("model", lambda: fake.model),
        WhisperFeatureExtractor=loads("extractor", Extractor),
        AutoTokenizer=loads("tokenizer", Tokenizer),
    )
    monkeypatch.setitem(sys.modules, "transformers", module)
    return fake


def snapshot(folder: Path, model_type: str = "whisper") -> Path:
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(json.dumps({"model_type": model_type}))
    save_file({"a": torch.zeros(1)}, folder / "model.safetensors")
    return folder


@pytest.fixture
def tiny(host, library) -> Path:
    return snapshot(host.folder.parent / "whisper" / "tiny")


def noise(seconds: float, rate: int = 16_000, batch: int = 1, channels: int = 1) -> dict[str, object]:
    shape = (batch, channels, int(seconds * rate))
    return {"waveform": 0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(1)), "sample_rate": rate}


def run(nodes, audio: object = None, model_name: object = "tiny", **inputs: object) -> list[str]:
    audio = noise(2.0) if audio is None else audio
    texts, _ = nodes["OmniVoiceTranscribe"].execute(audio=audio, model_name=model_name, **inputs).values
    return texts


def menu(nodes) -> list[str]:
    return nodes["OmniVoiceTranscribe"].define_schema().inputs[1].options


def test_schema_without_transformers(nodes, host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    schema = nodes["OmniVoiceTranscribe"].define_schema()
    assert [i.id for i in schema.inputs] == ["audio", "model_name", "language", "word_times"]
    assert schema.outputs[0].is_output_list
    languages = schema.inputs[2].options
    assert languages[0] == "auto" and len(languages) == 101 and "Cantonese" in languages


def test_menu_lists_whisper_models_and_nothing_else(nodes, host, library, tmp_path: Path) -> None:
    models = host.folder.parent
    assert menu(nodes) == ["no Whisper model found in models/whisper"]
    snapshot(models / "whisper" / "b")
    snapshot(models / "whisper" / "not_whisper", model_type="wav2vec2")
    for missing in (*FILES, "model.safetensors"):
        (snapshot(models / "whisper" / f"without_{missing}") / missing).unlink()
    (snapshot(models / "whisper" / "bad_json") / "config.json").write_text("{")
    pickled = snapshot(models / "whisper" / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (models / "whisper" / "file.safetensors").write_bytes(b"x")
    snapshot(models / "audio_encoders" / "a")
    snapshot(models / "transcribe" / "c")
    snapshot(models / "transcribe" / "b")
    host.table["whisper"] = ([str(tmp_path / "extra")], set())
    snapshot(tmp_path / "extra" / "d")
    assert menu(nodes) == ["d", "b", "c", "a"]
    assert library.calls == []


def test_text_of_a_recording(nodes, tiny: Path, library, host) -> None:
    audio = noise(2.0, rate=8_000, channels=2)
    before = audio["waveform"].clone()
    assert run(nodes, audio) == ["32000"] and torch.equal(audio["waveform"], before)
    assert [(kind, name) for kind, name, _ in library.calls] == [
        ("model", "tiny"),
        ("extractor", "tiny"),
        ("tokenizer", "tiny"),
    ]
    assert all(options["local_files_only"] is True for _, _, options in library.calls)
    options = library.calls[0][2]
    assert (options["use_safetensors"], options["trust_remote_code"]) == (True, False)
    ((patcher,), memory), full = host.loads[0], host.full_loads
    assert patcher.model.whisper is library.model and full == 1 and memory > 1_000_000
    assert patcher.model.get_dtype() == torch.float32 and not hasattr(patcher.model, "device")
    assert host.progress == [(1, 1)]
    (asked,) = library.model.asked
    assert (asked["task"], asked["language"], asked["num_beams"]) == ("transcribe", None, 1)


def test_language(nodes, tiny: Path, library, pack) -> None:
    run(nodes, language="German")
    assert library.model.asked[0]["language"] == "de"
    with pytest.raises(ValueError, match="the Whisper model tiny does not know the language yue"):
        run(nodes, language="Cantonese")
    for language, asked in (("de", "de"), ("DE_at", "de"), ("english", "en"), (None, None)):
        run(nodes, language=language)
        assert library.model.asked[-1]["language"] == asked
    library.model = Model(languages=())
    run(nodes, language="English")
    run(nodes)
    assert all("language" not in asked for asked in library.model.asked)
    with pytest.raises(ValueError, match="the Whisper model tiny knows only English, got language de"):
        run(nodes, language="German")


def test_long_recordings_go_in_windows_and_are_joined(nodes, tiny: Path, library, host) -> None:
    (text,) = run(nodes, noise(70.0))
    lengths = [int(part) for part in text.split()]
    assert sum(lengths) == 70 * 16_000 and len(lengths) == 3
    assert all(25 * 16_000 <= length <= 30 * 16_000 for length in lengths[:-1])
    assert host.progress == [(1, 3), (2, 3), (3, 3)] and len(host.loads) == 1


def test_a_batch_gives_a_list_in_order(nodes, tiny: Path, library, host) -> None:
    audio = noise(1.0, batch=3)
    audio["waveform"][1] = 0
    assert run(nodes, audio) == ["16000", "", "16000"]
    assert len(host.loads) == 1 and len(library.model.asked) == 2
    assert host.texts == [("recording 2 of 3 is silent, so its transcript is empty", "7")]


def test_a_bad_recording_of_a_batch_is_named(nodes, tiny: Path, library) -> None:
    audio = noise(1.0, batch=3)
    audio["waveform"][1, 0, 5] = torch.inf
    with pytest.raises(ValueError, match="recording 2 of 3: audio holds NaN or Inf"):
        run(nodes, audio)
    assert library.calls == []


def test_a_recording_may_be_long(nodes, tiny: Path, pack) -> None:
    """Up to four hours, although other nodes take 256 MiB of samples at most."""
    long = torch.zeros(1).expand(1, 8, 9_000_000)
    assert run(nodes, {"waveform": long, "sample_rate": 16_000}) == [""]
    with pytest.raises(ValueError, match="audio must be at most 4 hours long"):
        run(nodes, {"waveform": torch.zeros(1).expand(1, 1, 4 * 3600 * 4000 + 1), "sample_rate": 4000})


def test_a_replaced_model_runs_again(nodes, tiny: Path) -> None:
    stamp = nodes["OmniVoiceTranscribe"].fingerprint_inputs
    before = stamp(audio=None, model_name="tiny", language="auto")
    save_file({"a": torch.ones(1)}, tiny / "model.safetensors")
    assert "" != before != stamp(model_name="TINY")
    assert stamp() == stamp(model_name="gone") == ""


def test_silence_asks_no_model(nodes, tiny: Path, library, host) -> None:
    assert run(nodes, {"waveform": torch.zeros(2, 1, 16_000), "sample_rate": 16_000}) == ["", ""]
    assert library.calls == [] and host.loads == []


@pytest.mark.parametrize("at", [{0: 1.0, 1: -1.0}, {2: 1.0}, {3: 1.0}])
def test_a_voice_is_heard_in_whichever_channels_it_is(nodes, tiny: Path, library, at: dict[int, float]) -> None:
    audio = noise(1.0, channels=2 if 1 in at else 6)
    said = audio["waveform"][:, :1].clone()
    audio["waveform"].zero_()
    for channel, gain in at.items():
        audio["waveform"][:, channel : channel + 1] = gain * said
    assert run(nodes, audio) == ["16000"]


def test_a_constant_is_silence(nodes, tiny: Path, library) -> None:
    assert run(nodes, {"waveform": torch.full((1, 1, 16_000), 0.25), "sample_rate": 16_000}) == [""]
    assert library.calls == []


def test_cancel_stops_at_the_next_token(nodes, tiny, library, host, pack, interrupt: type[BaseException]) -> None:
    host.interrupt_after = 1
    with pytest.raises(interrupt):
        run(nodes, noise(70.0))
    assert len(library.model.asked) == 1
    host.interrupt_after, host.progress[:] = None, []
    assert run(nodes) == ["32000"]


def test_no_model(nodes, host, library) -> None:
    with pytest.raises(ValueError, match=r"no Whisper model found in models/whisper: put a folder") as told:
        run(nodes, model_name="no Whisper model found in models/whisper")
    for part in ("openai/whisper-large-v3-turbo", "ComfyUI/models/whisper", "any other speech recognition node"):
        assert part in str(told.value)


@pytest.mark.parametrize("name", ["../tiny", "/etc", "", "a\0b", None, 3, ["tiny"], {"a": 1}], ids=repr)
def test_only_a_listed_name_is_loaded(nodes, tiny: Path, library, name: object) -> None:
    with pytest.raises(ValueError, match="model_name must be one of tiny, got"):
        run(nodes, model_name=name)
    assert library.calls == []


def test_missing_transformers(nodes, tiny: Path, pack, monkeypatch: pytest.MonkeyPatch) -> None:
    for broken in (None, SimpleNamespace()):
        monkeypatch.setitem(sys.modules, "transformers", broken)
        with pytest.raises(
            pack.engine.CheckpointError, match=r"needs the Python package transformers, 4\.50 or newer"
        ) as t:
            run(nodes)
        assert "pip install" in str(t.value) and "any other speech recognition node" in str(t.value)


@pytest.mark.parametrize("fault", [OSError("no file\nat all"), ValueError("bad"), KeyError("x"), RuntimeError("shape")])
def test_a_model_that_cannot_be_read(nodes, tiny: Path, library, pack, host, fault: Exception) -> None:
    library.fault = fault
    with pytest.raises(pack.engine.CheckpointError, match="the Whisper model tiny could not be read") as told:
        run(nodes)
    assert str(tiny) not in str(told.value) and host.loads == []


def test_damaged_weights_and_adapters_never_reach_transformers(nodes, tiny: Path, library, pack) -> None:
    (tiny / "adapter_config.json").write_text("{}")
    with pytest.raises(pack.engine.CheckpointError, match="tiny holds a PEFT adapter"):
        run(nodes)
    (tiny / "adapter_config.json").unlink()
    (tiny / "model.safetensors").write_bytes(b"\x80\x02junk")
    with pytest.raises(pack.engine.FileError, match=r"model\.safetensors"):
        run(nodes)
    assert library.calls == []


BAD = [
    ({"language": "Klingon"}, "language 'Klingon' is not known"),
    ({"language": 3}, "language must be a string, got 3"),
    ({"language": ["English"]}, "language must be a string, got list"),
    ({"audio": {"waveform": [[[0.0]]], "sample_rate": 16_000}}, "audio must hold a float waveform"),
    ({"audio": "x.wav"}, "audio must be ComfyUI's AUDIO"),
    ({"audio": {"waveform": torch.zeros(1, 1, 0), "sample_rate": 16_000}}, "audio is empty"),
    ({"audio": {"waveform": torch.full((2, 1, 99), torch.nan), "sample_rate": 16_000}}, "audio holds NaN or Inf"),
    ({"audio": {"waveform": torch.zeros(1, 1, 99), "sample_rate": 10**9}}, "sample_rate must be a whole number"),
    ({"audio": {"waveform": torch.zeros(0, 1, 99), "sample_rate": 16_000}}, "audio must hold at least one recording"),
]


@pytest.mark.parametrize("inputs, message", BAD, ids=lambda v: repr(v)[:30])
def test_bad_values(nodes, tiny: Path, library, inputs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(nodes, **inputs)
    assert library.calls == []


class TimedModel(Model):
    """Says "Hi there." in three tokens that end at 0.5, 0.75 and 1 s of each window."""

    def __init__(self) -> None:
        super().__init__()
        self.generation_config.alignment_heads = [[0, 0]]
        self.masks: list[torch.Tensor] = []

    def generate(self, features: torch.Tensor, *, stopping_criteria: list, **options: object) -> object:
        self.masks.append(options["attention_mask"])
        super().generate(features, stopping_criteria=stopping_criteria, **options)
        ids = torch.tensor([[0, 1, 2, 3, 4]])
        if not options.get("return_token_timestamps"):
            return ids
        frames = self.masks[-1].sum(dim=-1)[0]
        assert len(range(3000)[: frames // 2])  # as transformers does: a float would raise
        return {"sequences": ids, "token_timestamps": torch.tensor([[0.25, 0.5, 0.5, 0.75, 1.0]])}


class PieceTokenizer:
    """Token 2 is the first half of a character, token 3 its second half with more letters."""

    def decode(self, ids: object, *, skip_special_tokens: bool) -> str:
        pieces = ["", " Hi", b" th\xc3", b"\xa9re", "."]
        raw = b"".join(p if isinstance(p, bytes) else p.encode() for p in (pieces[int(i)] for i in ids))
        return raw.decode(errors="replace")


@pytest.fixture
def timed(library, monkeypatch: pytest.MonkeyPatch) -> TimedModel:
    library.model = TimedModel()
    monkeypatch.setattr(
        sys.modules["transformers"], "AutoTokenizer", SimpleNamespace(from_pretrained=lambda *_, **__: PieceTokenizer())
    )
    return library.model


def times(nodes, **inputs: object) -> list[dict]:
    audio = inputs.pop("audio", None) or noise(2.0)
    values = nodes["OmniVoiceTranscribe"].execute(audio=audio, model_name="tiny", **inputs).values
    return [json.loads(text) for text in values[1]]


def test_words_have_the_times_of_whisper(nodes, tiny: Path, timed: TimedModel, host) -> None:
    (table,) = times(nodes, word_times=True)
    (line,) = table["lines"]
    assert table["seconds"] == 2.0
    assert (line["text"], line["start"], line["end"], line["words_are"]) == ("Hi thére.", 0.0, 2.0, "recognised")
    words = [(word["word"], word["start"], word["end"]) for word in line["words"]]
    assert [word for word, _, _ in words] == ["Hi", "thére."]
    assert words[0][1:] == (pytest.approx(0.25 + 0.25 / 3, abs=1e-3), 0.5)
    assert words[1][2] == 1.0 and 0.5 < words[1][1] < 0.6
    assert timed.asked[0]["return_token_timestamps"] and int(timed.masks[0].sum()) == 200


def test_times_of_a_long_recording_go_on_from_window_to_window(nodes, tiny: Path, timed: TimedModel) -> None:
    (table,) = times(nodes, audio=noise(70.0), word_times=True)
    assert table["lines"][0]["start"] == 0.0 and len(table["lines"]) == 3
    for before, after in zip(table["lines"], table["lines"][1:]):
        assert before["end"] == after["start"]
    for line in table["lines"]:
        assert line["words"][0]["end"] == pytest.approx(line["start"] + 0.5, abs=2e-4)
    (srt,) = nodes["OmniVoiceTimings"].execute(timings=json.dumps(table), format="subtitles of words").values
    assert srt.count("-->") == 6 and "Hi" in srt


def test_without_word_times_the_times_are_estimates(nodes, tiny: Path, timed: TimedModel, host) -> None:
    (table,) = times(nodes)
    assert table["lines"][0]["words_are"] == "estimated" and table["lines"][0]["words"][0]["word"] == "Hi"
    assert "return_token_timestamps" not in timed.asked[0] and int(timed.masks[0].sum()) == 3000
    assert host.texts == []
    timed.generation_config.alignment_heads = None
    (table,) = times(nodes, word_times=True)
    assert table["lines"][0]["words_are"] == "estimated"
    assert host.texts == [("the Whisper model tiny cannot time words, so their times are estimates", "7")]


def test_silence_has_no_times(nodes, tiny: Path, timed: TimedModel) -> None:
    audio = {"waveform": torch.zeros(1, 1, 16_000), "sample_rate": 16_000}
    assert times(nodes, audio=audio, word_times=True) == [{"seconds": 1.0, "lines": []}]


@pytest.mark.parametrize("value", ["yes", 1, 0.0])
def test_word_times_is_a_switch(nodes, tiny: Path, timed: TimedModel, value: object) -> None:
    with pytest.raises(ValueError, match="word_times must be"):
        times(nodes, word_times=value)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([], []),
        ([(" One", 0.0, 0.4), (" two", 0.4, 0.8), (".", 0.8, 0.9)], [("One", 0.1, 0.4), ("two.", 0.5, 0.9)]),
        ([(" un", 0.0, 0.3), ("til", 0.3, 0.6)], [("until", 0.1, 0.6)]),
        (
            [("今天", 0.0, 0.4), ("好", 0.4, 0.5), ("。", 0.5, 0.7)],
            [("今", 0.0, 0.2), ("天", 0.2, 0.4), ("好。", 0.4, 0.7)],
        ),
        ([("a a", 0.0, 0.3), (" a", 0.5, 0.7)], [("a", 0.0, 0.1), ("a", 0.2, 0.3), ("a", 0.6, 0.7)]),
        ([(" [noise]", 0.0, 0.5), (" yes", 0.5, 0.9)], [("yes", 0.6, 0.9)]),
        ([("  ", 0.0, 0.5)], []),
    ],
)
def test_words_of_tokens(nodes, tokens: list, words: list) -> None:
    """Spaces and parts of words are shared out; characters of Chinese are words, and their punctuation stays."""
    package = nodes["OmniVoiceTranscribe"].__module__.rpartition(".")[0]
    found = sys.modules[f"{package}.host.whisper_words"].timed_words(iter(tokens), 10.0)
    assert [word.word for word in found] == [word for word, _, _ in words]
    for one, (_, start, end) in zip(found, words):
        assert (one.start, one.end) == (pytest.approx(10 + start), pytest.approx(10 + end))
