"""NaN and Inf in any tensor of a model are found while it is loaded, and the error names the tensor."""

from __future__ import annotations

import math
import shutil
import struct
from itertools import cycle
from pathlib import Path

import pytest
import torch

from omnivoice.codec.keys import is_training_only
from omnivoice.errors import CheckpointError
from omnivoice.intake.tensors import check_header
from omnivoice.ops import TORCH_OPS
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.load import LM_UNUSED, lm_tensors, load_lm
from omnivoice.weights.load_codec import codec_tensors, load_codec_decoder, load_codec_encoder
from omnivoice.weights.read import read_tensors

CPU = torch.device("cpu")


@pytest.mark.parametrize("part", ["lm", "codec"])
def test_every_tensor_is_looked_at_and_named(checkpoint: Path, tmp_path: Path, part: str) -> None:
    """The last value of each tensor is spoilt in turn, so a check of samples would miss it."""
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    files = locate_checkpoint(folder)
    paths = files.lm_weights if part == "lm" else files.codec_weights
    found = lm_tensors(files.lm_config, paths) if part == "lm" else codec_tensors(files.codec_config, paths)[0]
    header, start = check_header(paths[0]), data_start(paths[0])
    assert len(found) > 20
    values = cycle([math.nan, math.inf, -math.inf])
    for value, (name, place) in zip(values, found.items()):
        info = header.info[place.stored]
        spoilt = torch.tensor(value, dtype={"F32": torch.float32, "F16": torch.float16}[info.dtype])
        with paths[0].open("r+b") as file:
            at = start + info.end - spoilt.element_size()
            file.seek(at)
            before = file.read(spoilt.element_size())
            file.seek(at)
            file.write(spoilt.numpy().tobytes())
        with pytest.raises(
            CheckpointError, match=rf"^model\.safetensors: {name} holds NaN or Inf: the file is damaged"
        ):
            read_tensors({name: place}, device=CPU, dtype=torch.float32)
        with paths[0].open("r+b") as file:
            file.seek(at)
            file.write(before)


def test_no_tensor_of_a_model_is_left_out(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the loaders read, and thus check, is everything that the files hold but what only training uses."""
    files = locate_checkpoint(checkpoint)
    read: set[str] = set()

    def noted(found, **named):
        read.update(found)
        return read_tensors(found, **named)

    monkeypatch.setattr("omnivoice.weights.load.read_tensors", noted)
    monkeypatch.setattr("omnivoice.weights.load_codec.read_tensors", noted)
    used = TextTokenizer.from_json(files.tokenizer_json()).used_ids
    load_lm(files.lm_config, files.lm_weights, ops=TORCH_OPS, device=CPU, dtype=torch.float32, used_ids=used)
    load_codec_encoder(files.codec_config, files.codec_weights, ops=TORCH_OPS, device=CPU)
    load_codec_decoder(files.codec_config, files.codec_weights, ops=TORCH_OPS, device=CPU)
    stored = {name for path in (*files.lm_weights, *files.codec_weights) for name in check_header(path).info}
    wanted = {
        *lm_tensors(files.lm_config, files.lm_weights),
        *codec_tensors(files.codec_config, files.codec_weights)[0],
    }
    assert read == wanted
    assert all(name in LM_UNUSED or is_training_only(name) for name in stored - read), stored - read


def data_start(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + struct.unpack("<Q", file.read(8))[0]
