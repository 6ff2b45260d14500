"""A fine-tune with tokens, a tag and a language of its own, from the command line: dataset, train, export, speak.

The prompts are read where they are made, so that what the model was given is known, not only that it spoke.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.__main__ import main
from omnivoice.generate import run as generate_run
from omnivoice.train import masking
from tests.fine_tune import (
    LANGUAGE,
    SAID,
    TOKENS,
    TRANSCRIPTS,
    make_fine_tune,
    prompt_by_hand,
    token_ids,
    write_llm_lora,
    write_recordings,
)
from tests.fine_tune import SETTINGS as TOLD

TEXT = "llm.embed_tokens.weight"
# Every clip is in the batch of each step, always with its text and language.
SETTINGS = {
    "steps": 3,
    "learning_rate": 1e-3,
    "warmup": 0,
    "weight_decay": 0,
    "save_every": 0,
    "validation": 0,
    "masking": {"drop_condition": 0.0, "language": 1.0},
}
OWN_LANGUAGE = "xx: not a language of OmniVoice; only a model that was trained with this id knows it"
NEVER = "this model never learnt [happy], <|dur_2|>, <|pit_3|>"
SPEAK = ("--language", f"id:{LANGUAGE}", "--steps", "4", "--seed", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fine-tune, `tuned`, and recordings, `clips`."""
    folder = tmp_path_factory.mktemp("fine tune")
    make_fine_tune(folder / "tuned", spare_rows=3)
    write_recordings(folder / "clips")
    return folder


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Every prompt that is made, in order."""
    seen: list[tuple[int, ...]] = []
    for module in (generate_run, masking):

        def noted(*arguments: object, made=module.build_prompt, **named: object) -> tuple[int, ...]:
            seen.append(made(*arguments, **named))
            return seen[-1]

        monkeypatch.setattr(module, "build_prompt", noted)
    return seen


def train(place: Path, name: str, model: str = "tuned", **changes: object) -> Path:
    order = {"data": "clips/list.jsonl", "output": name, "model": model, "settings": {**SETTINGS, **changes}}
    (place / f"{name}.json").write_text(json.dumps(order))
    assert main(["train", str(place / f"{name}.json")]) == 0
    return place / name


def embedding(model: Path) -> torch.Tensor:
    return load_file(model / "model.safetensors")[TEXT].float()


def test_the_dataset_keeps_tokens_tag_and_language(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Read twice, the second time from the code cache, with the same clips."""
    for _ in range(2):
        assert main(["dataset", str(place / "clips" / "list.jsonl"), "--model", str(place / "tuned")]) == 0
        first, *notes = capsys.readouterr().out.splitlines()
        assert first == "4 of 4 clips, 8.6 s, languages: xx (3), unspecified (1)"
        assert notes.count(OWN_LANGUAGE) == 1 and not any("removed" in note for note in notes)


def test_a_full_fine_tune_is_exported_and_speaks(place: Path, prompts: list, capsys: pytest.CaptureFixture) -> None:
    run = train(place, "full", method="full")
    tuned, trained = place / "tuned", run / "model-00000003"
    languages = [LANGUAGE, LANGUAGE, LANGUAGE, None]
    assert set(prompts) == {prompt_by_hand(tuned, *clip) for clip in zip(TRANSCRIPTS, languages)}
    before, after = embedding(tuned), embedding(trained)
    ids = token_ids(tuned)
    moved = (before != after).any(dim=1)
    assert moved[[ids[token] for token in TOKENS]].all(), "the rows of the added tokens learn"
    assert set(moved.nonzero().flatten().tolist()) == {token for prompt in prompts for token in prompt}
    assert len(after) == 1881 and token_ids(trained) == ids
    one, wav = place / "one.safetensors", place / "one.wav"
    assert main(["export", "--model", str(trained), "-o", str(one)]) == 0
    prompts.clear()
    capsys.readouterr()
    assert main(["speak", SAID, "--model", str(one), *SPEAK, "-o", str(wav)]) == 0
    said = capsys.readouterr()
    assert prompts == [prompt_by_hand(tuned, SAID, LANGUAGE)]
    assert said.out.startswith(f"{wav}: ") and "removed" not in said.err
    assert OWN_LANGUAGE not in said.err, "the trained model names the language that it learnt"
    assert json.loads((trained / "omnivoice_nodes.json").read_text()) == {"languages": [LANGUAGE]}
    assert main(["speak", SAID, "--model", str(trained), *SPEAK, "-o", str(place / "two.wav")]) == 0
    assert (place / "two.wav").read_bytes() == wav.read_bytes(), "the folder speaks as the single file"


def test_samples_are_spoken_in_the_language_of_the_clips(place: Path, prompts: list) -> None:
    """As the training node speaks them: most clips are in a language of one's own, so the samples are too."""
    folder = train(place, "samples", steps=1, sample_every=1, sample_text=SAID, rank=2, alpha=4)
    assert [path.name for path in (folder / "samples").iterdir()] == ["step-00000001.wav"]
    assert prompts[-1] == prompt_by_hand(place / "tuned", SAID, LANGUAGE)


def test_a_lora_leaves_the_text_embedding(place: Path, prompts: list, capsys: pytest.CaptureFixture) -> None:
    """`merge` copies it, and `speak --lora` says what the merged model says."""
    run = train(place, "lora", rank=4, alpha=8, rslora=True)
    tuned, merged = place / "tuned", place / "merged"
    assert {token_ids(tuned)[token] for token in TOKENS} <= {token for prompt in prompts for token in prompt}
    lora = str(run / "lora.safetensors")
    assert main(["merge", "--model", str(tuned), "--lora", lora, "--dtype", "fp32", "-o", str(merged)]) == 0
    assert torch.equal(embedding(merged), embedding(tuned)) and token_ids(merged) == token_ids(tuned)
    spoken = {}
    for name, options in {"plain": [], "lora": ["--lora", lora], "adapter": ["--lora", str(run / "adapter")]}.items():
        assert main(["speak", SAID, "--model", str(tuned), *SPEAK, *options, "-o", str(place / f"{name}.wav")]) == 0
        spoken[name] = (place / f"{name}.wav").read_bytes()
    assert main(["speak", SAID, "--model", str(merged), *SPEAK, "-o", str(place / "merged.wav")]) == 0
    assert (place / "merged.wav").read_bytes() == spoken["lora"] == spoken["adapter"] != spoken["plain"]
    assert set(prompts[-4:]) == {prompt_by_hand(tuned, SAID, LANGUAGE)}
    said = capsys.readouterr().err
    assert "removed" not in said and said.count(OWN_LANGUAGE) == 4


def test_settings_go_with_the_model(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a model says about itself is trained on, exported and merged with it: nothing is warned about any more.

    Its tokens start with rows of zeros, and have learnt something after one step.
    """
    make_fine_tune(place / "told", settings=TOLD, from_zero=True)
    assert main(["speak", SAID, "--model", str(place / "told"), *SPEAK, "-o", str(place / "told.wav")]) == 0
    assert capsys.readouterr().err.startswith(f"warning: {NEVER}: the rows of its text embedding are zero")
    assert main(["dataset", str(place / "clips" / "list.jsonl"), "--model", str(place / "told")]) == 0
    run = train(place, "knows", model="told", method="full", steps=1)
    lora = str(write_llm_lora(place / "of the llm", place / "told"))
    out = {name: str(place / f"knows {name}") for name in ("one.safetensors", "two.safetensors", "folder")}
    trained = str(run / "model-00000001")
    assert main(["export", "--model", trained, "-o", out["one.safetensors"]]) == 0
    assert main(["merge", "--model", out["one.safetensors"], "--lora", lora, "-o", out["folder"]]) == 0
    assert main(["merge", "--model", out["folder"], "--lora", lora, "-o", out["two.safetensors"]]) == 0
    assert OWN_LANGUAGE not in capsys.readouterr().out
    for model in (trained, *out.values()):
        assert main(["speak", SAID, "--model", model, *SPEAK, "-o", str(place / "told.wav")]) == 0
        assert capsys.readouterr().err == "", model


def test_each_token_changes_the_speech(place: Path) -> None:
    """The row of each token reaches the language model: with another row in its place the speech is another."""
    changed = shutil.copytree(place / "tuned", place / "changed")
    engine, other = Engine.load(place / "tuned"), Engine.load(changed)
    weight = other.sampler.text.weight
    request = GenerationRequest(SAID, seed=1, language="id:xx", duration=1.0, sampling=Sampling(steps=2))
    expected = engine.generate([request])[0].codes[0]
    for token in TOKENS:
        row = weight[token_ids(changed)[token]]
        kept = row.clone()
        row.copy_(-20 * kept)
        assert not torch.equal(other.generate([request])[0].codes[0], expected), token
        row.copy_(kept)
    assert torch.equal(other.generate([request])[0].codes[0], expected)
