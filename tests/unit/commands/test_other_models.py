"""Models that say something about themselves, on the command line: speak, info, dataset, export."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from omnivoice.__main__ import main
from omnivoice.commands import speak
from omnivoice.commands.dataset import load_dataset
from omnivoice.engine import Engine
from omnivoice.intake.audio_files import write_wav
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.train.masking import generators, make_example
from omnivoice.train.settings import Masking
from omnivoice.types import GenerationRequest, Waveform

TOKENS = ["<|dur_3|>", "[chuckle]", "<b>"]
ABOUT = {"tags": ["happy"], "languages": ["la"], "recommended": {"denoise": False, "steps": 3, "guidance": 1}}
OWN_WARNING = "not a language of OmniVoice; only a model that was trained with this id knows it"


@pytest.fixture(scope="module")
def tuned(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tuned"
    shutil.copytree(checkpoint, folder)
    table = json.loads((folder / "tokenizer.json").read_text())
    table["added_tokens"] += [{"id": 430 + i, "content": text} for i, text in enumerate(TOKENS)]
    (folder / "tokenizer.json").write_text(json.dumps(table))
    (folder / "omnivoice_nodes.json").write_text(json.dumps(ABOUT))
    return folder


@pytest.fixture
def requests(tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[GenerationRequest]:
    """The requests as they were spoken by `speak`."""
    spoken: list[GenerationRequest] = []
    monkeypatch.setenv("OMNIVOICE_MODEL", str(tuned))
    monkeypatch.chdir(tmp_path)

    def load(options: object) -> Engine:
        engine = Engine.load(tuned)
        generate = engine.generate_plans

        def keep(*args: object, **given: object) -> object:
            speeches = generate(*args, **given)  # type: ignore[arg-type]
            spoken.extend(speech.request for speech in speeches if speech.request)
            return speeches

        engine.generate_plans = keep  # type: ignore[method-assign,assignment]
        return engine

    monkeypatch.setattr(speak, "load_engine", load)
    return spoken


@pytest.mark.parametrize(
    ("options", "steps", "guidance", "denoise", "note"),
    [
        ([], 3, 1.0, False, "denoise off, steps 3, guidance 1"),
        (["--steps", "32"], 32, 1.0, False, "denoise off, guidance 1"),
        (["--guidance", "2"], 3, 2.0, False, "denoise off, steps 3"),
        (["--denoise"], 3, 1.0, True, "steps 3, guidance 1"),
        (["--no-denoise"], 3, 1.0, False, "steps 3, guidance 1"),
        (["--preset", "draft"], 8, 1.0, False, "denoise off, guidance 1"),
    ],
)
def test_recommended_settings(requests, capsys, options, steps, guidance, denoise, note) -> None:
    assert main(["speak", "Hello there.", "--seed", "1", *options]) == 0
    (request,) = requests
    assert (request.sampling.steps, request.sampling.guidance, request.denoise) == (steps, guidance, denoise)
    assert f"recommended by the model: {note}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "written", "removed"),
    [([], None, True), (["--as-written"], True, False), (["--no-as-written"], False, True)],
)
def test_text_as_written(requests, capsys, options, written, removed) -> None:
    assert main(["speak", "So {65:24} it <is>, as always.", *options]) == 0
    assert requests[0].text_as_written is written
    assert ("symbols that are not spoken were removed from the text: {, }, <, >" in capsys.readouterr().err) is removed


@pytest.mark.parametrize(("language", "warnings"), [("la", 0), ("id:la", 0), ("id:qq", 1), ("en", 0)])
def test_languages(requests, capsys, language, warnings) -> None:
    assert main(["speak", "Hello there, my friends.", "--language", language]) == 0
    assert capsys.readouterr().err.count("warning: ") == warnings


def test_info_says_what_the_model_says(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--model", str(tuned)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "the model says: tags [happy]; languages la; recommended denoise off, steps 3, guidance 1" in lines


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for i, text in enumerate(["So <|dur_3|>it <i>is</i>.", "[chuckle]", "It is <b>so</b>, [happy] isn't it?"]):
        samples = 0.1 * torch.randn(1, 36_000, generator=torch.Generator().manual_seed(i))
        write_wav(tmp_path / f"{i}.wav", Waveform(samples, 24_000))
        (tmp_path / f"{i}.txt").write_text(text)
    return tmp_path


@pytest.mark.parametrize(("language", "kept", "warned"), [("la", "la", 0), ("id:la", "la", 0), ("id:qq", "qq", 1)])
def test_tokens_and_languages_reach_the_examples_of_training(
    tuned: Path, source: Path, language: str, kept: str, warned: int
) -> None:
    data = load_dataset(source, device=torch.device("cpu"), model=tuned, language=language)
    assert [clip.text for clip in data.clips] == ["So <|dur_3|>it is.", "[chuckle]", "It is <b>so, [happy] isn't it?"]
    assert {clip.language for clip in data.clips} == {kept}
    assert "\n".join(data.notes).count(OWN_WARNING) == warned
    assert "markup was removed from the texts: <i>, <b>" in data.notes
    tokenizer = TextTokenizer.from_json((tuned / "tokenizer.json").read_bytes())
    always = Masking(drop_condition=0.0, language=1.0)
    for clip, wanted in zip(data.clips, ([430], [431], [432])):
        example = make_example(clip, tokenizer, always, 1024, *generators(1, 0, 0))
        assert [one for one in example.prompt_ids if one >= 430] == wanted
        start = example.prompt_ids.index(tokenizer.special("lang_start"))
        assert list(example.prompt_ids[start + 1 : start + 1 + len(tokenizer.encode(kept))]) == tokenizer.encode(kept)


@pytest.mark.parametrize("command", ["export", "merge"])
def test_an_exported_model_speaks_the_same(tuned: Path, root: Path, tmp_path: Path, command: str) -> None:
    place = tmp_path / {"export": "one.safetensors", "merge": "folder"}[command]
    lora = ["--lora", str(root / "tests/assets/lora/llm_only"), "--strength", "0"]
    assert main([command, "--model", str(tuned), "-o", str(place), *(lora if command == "merge" else [])]) == 0
    request = GenerationRequest("So [chuckle] it <|dur_3|>is.", seed=1)
    first, second = (Engine.load(one).generate([request])[0] for one in (tuned, place))
    assert torch.equal(first.codes[0], second.codes[0])
    assert first.notes == second.notes != ()
    plain = GenerationRequest("So  it is.", seed=1)
    without = Engine.load(tuned).generate([plain])[0]
    assert without.codes[0].shape == first.codes[0].shape  # tokens take no time
    assert not torch.equal(first.codes[0], without.codes[0])  # but the model reads them
