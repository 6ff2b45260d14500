"""A training state that somebody truncates while it is read: an error, or the state, and never a dead process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from omnivoice.errors import FileError
from omnivoice.intake.tensors import TensorFile, read_own_tensors, write_tensors
from omnivoice.train import state_files
from omnivoice.train.state_files import read_state, write_state
from tests import warm_children

# Uploads overwrite files in place, so the file loses its bytes while somebody has it open.
CHILD = """
import os, sys
from pathlib import Path
from omnivoice.train import state_files

real = state_files._digest
state_files.MAX_TENSORS_BYTES = 0  # so that no state counts as small
for path in map(Path, sys.argv[1:]):
    def truncate_first(*given):
        os.truncate(path, int(path.name))
        return real(*given)

    state_files._digest = truncate_first
    tensors, numbers = state_files.read_state(path)
    print(sum(float(tensor.sum()) for tensor in tensors.values()), numbers, flush=True)
"""


def state() -> dict[str, torch.Tensor]:
    return {
        "a": torch.arange(300_000, dtype=torch.float32),
        "b": torch.ones(3, 5, dtype=torch.bfloat16),
        "c": torch.tensor(7),
        "d": torch.zeros(0, 4),
    }


def test_a_truncated_state_does_not_end_the_process(tmp_path: Path) -> None:
    paths = [tmp_path / str(left) for left in (0, 100, 4_096, 600_000)]
    for path in paths:
        write_state(path, state(), {"step": 3})
    code, output, errors = warm_children.run(CHILD, *paths)
    assert code == 0, f"signal {-code}: {errors[-500:]}"
    expected = sum(float(tensor.sum()) for tensor in state().values())
    assert output.splitlines() == [f"{expected} {{'step': 3}}"] * 4
    for path in paths:
        with pytest.raises(FileError, match=rf"^{path.name} "):
            read_state(path)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_state_truncated_between_two_tensors(tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, {f"t{i}": torch.full((50_000,), i) for i in range(3)}, {})
    calls: list[str] = []
    real = TensorFile.read

    def truncate(self: TensorFile, name: str) -> torch.Tensor:
        calls.append(name)
        if len(calls) == call:
            os.truncate(path, 4_096)
        return real(self, name)

    monkeypatch.setattr(TensorFile, "read", truncate)
    with pytest.raises(FileError, match=r"^state\.safetensors changed while it was read: try again$"):
        read_own_tensors(path)
    assert len(calls) == call


def test_a_state_is_what_was_written(tmp_path: Path) -> None:
    write_state(tmp_path / "s", state(), {"step": 3})
    tensors, numbers = read_state(tmp_path / "s")
    assert numbers == {"step": 3} and tensors.keys() == state().keys()
    for name, tensor in state().items():
        assert tensors[name].dtype == tensor.dtype and tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name], tensor)


def test_a_state_is_in_memory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path / "s", state(), {})
    made: list[int] = []
    real = torch.empty

    def empty(*args: object, **kwargs: object) -> torch.Tensor:
        tensor = real(*args, **kwargs)
        made.append(tensor.nbytes)
        return tensor

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(state_files, "MAX_TENSORS_BYTES", 0, raising=False)
    read_state(tmp_path / "s")
    assert sum(made) == sum(tensor.nbytes for tensor in state().values())
