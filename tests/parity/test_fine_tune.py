"""A fine-tune with tokens of its own says what upstream says with it, token for token (record_fine_tune.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, safe_open

from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.text.prompt import build_prompt
from tests.fine_tune import make_fine_tune

RECORDED = Path(__file__).parents[1] / "assets" / "fine_tune" / "recorded.safetensors"
with safe_open(RECORDED, framework="pt") as file:
    ABOUT = json.loads(file.metadata()["about"])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(make_fine_tune(tmp_path_factory.mktemp("fine-tune") / "tuned"))


@pytest.mark.parametrize("number", range(len(ABOUT["cases"])))
def test_prompt_and_codes_are_upstreams(engine: Engine, number: int) -> None:
    text, language = ABOUT["cases"][number]
    expected = load_file(RECORDED)
    assert list(build_prompt(engine.tokenizer, text=text, language=language)) == expected[f"{number}/ids"].tolist()
    request = GenerationRequest(
        text, language=language, seed=ABOUT["seed"], duration=ABOUT["seconds"], sampling=Sampling(steps=ABOUT["steps"])
    )
    assert torch.equal(engine.generate([request])[0].codes[0], expected[f"{number}/codes"].long())
