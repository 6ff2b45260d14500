"""Values that cross the node boundary: their types are checked on the way in, ComfyUI's form is made on the way out.

ComfyUI checks little of what reaches a node. A literal may arrive on any socket, a linked value skips ranges and menus,
and an exception that is not an `Exception` kills the worker thread; `guarded` turns such exceptions into errors.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import comfy.model_management as mm
import torch

from ...omnivoice.errors import AudioError, InputError
from ...omnivoice.intake.cancel import cancelled_by
from ...omnivoice.intake.limits import MAX_AUDIO_BYTES, MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, shown
from ...omnivoice.types import Waveform

_Result = TypeVar("_Result")
_Value = TypeVar("_Value")


def guarded(execute: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return `execute` with everything that would kill ComfyUI's worker thread (a Rust panic, SystemExit) turned into a
    RuntimeError.

    Cancel is heard wherever the engine asks for it (`intake.cancel`). The interrupt passes. It is an Exception before
    ComfyUI 0.20 and a BaseException since.
    """

    @functools.wraps(execute)
    def run(*args: object, **kwargs: object) -> _Result:
        try:
            with cancelled_by(mm.throw_exception_if_processing_interrupted):
                return execute(*args, **kwargs)
        except (Exception, mm.InterruptProcessingException):
            raise
        except BaseException as fault:
            raise RuntimeError(f"OmniVoice stopped on an internal fault: {type(fault).__name__}: {fault}") from fault

    return run


def checked(kind: type[_Value], value: object, name: str, source: str) -> _Value:
    """Return `value` if its type is exactly `kind`; raises InputError. A literal in a prompt can be anything."""
    if type(value) is not kind:
        raise InputError(f"{name} must come from {source}, got {shown(value)}: connect that node")
    return value


def validate(check: Callable[[object], object], value: object) -> bool | str:
    """Return True, or the message of the InputError that `check(value)` raises, as V3's `validate_inputs` does.

    A linked value arrives here as None, because ComfyUI does not know it yet, and passes.
    """
    try:
        if value is not None:
            check(value)
    except InputError as error:
        return str(error)
    return True


def validate_each(check: Callable[[object], object], given: object) -> bool | str:
    """As `validate`, for a node that takes lists: every item of the list that `validate_inputs` receives."""
    results = (validate(check, value) for value in (given if isinstance(given, (list, tuple)) else [given]))
    return next((result for result in results if result is not True), True)


@contextlib.contextmanager
def naming(label: str) -> Iterator[None]:
    """Put `label: ` in front of an InputError that is raised inside, unless `label` is empty."""
    try:
        yield
    except InputError as error:
        if not label:
            raise
        raise type(error)(f"{label}: {error}") from error


def only(values: Sequence[_Value], name: str) -> _Value:
    """Return the one value of a list input that must not vary; raises InputError."""
    if not values:
        raise InputError(f"{name} must be one value, got an empty list")
    if any(value is not values[0] and value != values[0] for value in values):
        raise InputError(f"{name} must be the same for every item, got a list of {len(values)} different ones")
    return values[0]


def waveforms_from(audio: object, *, any_length: bool = False) -> list[Waveform]:
    """Return ComfyUI's AUDIO, {"waveform": [B, C, N] float, "sample_rate": Hz}, as B Waveforms; raises AudioError.

    any_length: also accept recordings of more than `MAX_AUDIO_BYTES`, for nodes that compute block by block.
    """
    if not isinstance(audio, Mapping):
        raise AudioError(f"audio must be ComfyUI's AUDIO, got {shown(audio)}: connect Load Audio or Record Audio")
    samples, rate = audio.get("waveform"), audio.get("sample_rate")
    if not isinstance(samples, torch.Tensor) or not samples.is_floating_point() or samples.ndim != 3:
        got = f"{tuple(samples.shape)} {samples.dtype}" if isinstance(samples, torch.Tensor) else shown(samples)
        raise AudioError(f"audio must hold a float waveform [batch, channels, samples], got {got}")
    batch, channels, length = samples.shape
    if batch < 1:
        raise AudioError("audio must hold at least one recording, got an empty batch")
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioError(f"audio must have 1-{MAX_CHANNELS} channels, got {channels}")
    if channels * length * 4 > MAX_AUDIO_BYTES and not any_length:
        raise AudioError(f"audio is too long ({length} samples in {channels} channels): trim it to some seconds")
    if isinstance(rate, bool) or not isinstance(rate, int) or not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        allowed = f"{MIN_SAMPLE_RATE}-{MAX_SAMPLE_RATE}"
        raise AudioError(f"the audio's sample_rate must be a whole number of Hz, {allowed}, got {shown(rate)}")
    return [Waveform(recording, rate) for recording in samples]


def recordings_from(values: Sequence[object]) -> list[Waveform]:
    """Return every recording of a list of AUDIO, of any length.

    Raises AudioError for an item that is not AUDIO, or holds NaN or Inf; the message says which item it is.
    """
    if not values:
        raise AudioError("audio is an empty list: connect at least one audio")
    recordings: list[Waveform] = []
    for where, value in zip(labels("item", len(values)), values):
        with naming(where):
            found = waveforms_from(value, any_length=True)
            for label, recording in zip(labels("recording", len(found)), found):
                with naming(label):
                    _check_finite(recording.samples)
        recordings += found
    return recordings


def _check_finite(samples: torch.Tensor) -> None:
    """Raise AudioError if there is NaN or Inf among `samples`; needs no mask of their size."""
    if samples.numel() and not all(map(math.isfinite, torch.stack(torch.aminmax(samples)).tolist())):
        raise AudioError("audio holds NaN or Inf: load or generate it again")


def labels(kind: str, count: int) -> list[str]:
    """Return what messages call each of `count` things: "recording 2 of 3", or nothing for a single one."""
    return [f"{kind} {number} of {count}" if count > 1 else "" for number in range(1, count + 1)]


def audio_from(*waveforms: Waveform) -> dict[str, object]:
    """Return Waveforms [C, N] of one shape and rate as ComfyUI's AUDIO: float32 [number of them, C, N], contiguous, on
    the device for intermediates."""
    first = waveforms[0].samples[None]
    batch = first if len(waveforms) == 1 else torch.stack([one.samples for one in waveforms])
    samples = batch.to(device=mm.intermediate_device(), dtype=torch.float32).contiguous()
    return {"waveform": samples, "sample_rate": waveforms[0].sample_rate}
