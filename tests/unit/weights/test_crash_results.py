"""Every crash while a LoRA or a model is written: the old or the new one is there, or none, and never a mixture."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from omnivoice.errors import OmniVoiceError
from omnivoice.weights import lora_write
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.files import locate_checkpoint
from omnivoice.weights.lora import LoRA, LowRank
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.lora_write import write_lora, write_peft
from tests.crash_replay import TEMPORARY, crashes, recorded

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no way to flush a folder")
MODULE = "llm.layers.0.self_attn.q_proj"
CHECKPOINT = Path(__file__).resolve().parents[2] / "assets" / "checkpoint"
FILES = locate_checkpoint(CHECKPOINT)


def lora(number: int) -> LoRA:
    """Two of them differ in the weights and in the scale, which PEFT keeps in another file."""
    return LoRA("x", {MODULE: LowRank(torch.full((2, 40), float(number)), torch.ones(96, 2), float(number))})


def told(path: Path) -> tuple[float, float]:
    pair = read_lora(path, FILES.lm_config).changes[MODULE]
    assert isinstance(pair, LowRank)
    return float(pair.down[0, 0]), pair.scale


WRITES: dict[str, tuple[str, Callable[[Path, int], object]]] = {
    "LoRA": ("a.safetensors", lambda path, number: write_lora(path, lora(number), overwrite=True)),
    "LoRA for PEFT": ("a", lambda path, number: write_peft(path, lora(number), overwrite=True)),
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("over", [True, False])
def test_a_lora_is_the_old_or_the_new_one(kind: str, over: bool, tmp_path: Path) -> None:
    (name, write), folder = WRITES[kind], tmp_path / "recorded"
    folder.mkdir()
    if over:
        write(folder / name, 1)
    with recorded(folder) as log:
        write(folder / name, 2)
        log.reached("written")
    found = set()
    for crash in crashes(log):
        place = crash.write(tmp_path / "crashed") / name
        try:
            found.add(told(place))
        except OmniVoiceError as error:
            assert "adapter_" in str(error) or not over, f"after change {crash.after} of {log.changes}"
            found.add((0.0, 0.0))
        assert not crash.reached or told(place) == (2.0, 2.0)
        write(place, 2)
        assert told(place) == (2.0, 2.0)
    assert {(2.0, 2.0)} <= found <= {(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)}


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken"), KeyboardInterrupt()])
def test_a_failure_keeps_the_old_adapter_or_leaves_the_new_one(
    error: BaseException, forever: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is at the n-th change of a file, once or from then on, until a run has no n-th change any more."""
    found = set()
    for n in itertools.count(1):
        place = tmp_path / str(n)
        write_peft(place, lora(1))
        calls: list[str] = []
        with monkeypatch.context() as patch:
            for name in ("open", "unlink", "replace"):
                patch.setattr(os, name, _failing(getattr(os, name), name, calls, n, error, forever))
            with contextlib.suppress(OmniVoiceError, KeyboardInterrupt):
                write_peft(place, lora(2), overwrite=True)
        if forever and "unlink" in calls[: n - 1] and len(calls) >= n:
            continue  # nothing can bring the settings back, on a disk that takes their removal and no rename after it
        found.add(told(place))
        if len(calls) < n:
            break
    assert found == {(1.0, 1.0), (2.0, 2.0)} and n > 5


def _failing(real, name: str, calls: list[str], n: int, error: BaseException, forever: bool):  # type: ignore[no-untyped-def]
    def call(*arguments, **options):  # type: ignore[no-untyped-def]
        if name != "open" or arguments[1] & os.O_CREAT:
            calls.append(name)
            if len(calls) == n or (forever and len(calls) > n):
                raise error
        return real(*arguments, **options)

    return call


def test_the_same_settings_are_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_peft(tmp_path / "a", lora(1))
    monkeypatch.setattr(lora_write, "remove_file", pytest.fail)
    other = LoRA("x", {MODULE: LowRank(torch.full((2, 40), 7.0), torch.ones(96, 2), 1.0)})
    write_peft(tmp_path / "a", other, overwrite=True)
    assert told(tmp_path / "a") == (7.0, 1.0)


def small_model(path: Path, number: int) -> None:
    strength = [(lora(number), 1.0)]
    if path.suffix:
        export_checkpoint(FILES, path, loras=strength, overwrite=True)
    elif not path.exists():
        export_folder(FILES, path, loras=strength)


@pytest.mark.parametrize("name", ["m.safetensors", "m"])
def test_a_merged_model_is_whole_or_not_there(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    if name != "m":
        small_model(folder / name, 1)
    with recorded(folder) as log:
        small_model(folder / name, 2)
        log.reached("written")

    def files(content: dict[str, bytes | None]) -> dict[str, bytes | None]:
        return {path: data for path, data in content.items() if TEMPORARY not in path}

    old = {path: data for path, (_, data) in log.start.items()}
    new = {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
    states = [(files(crash.content), crash.reached) for crash in crashes(log)]
    assert all(state == new or (state == old and not reached) for state, reached in states)
    assert any(state == new for state, _ in states) and log.prefixes > (6 if name != "m" else 40)
    locate_checkpoint(folder / name)
