"""Voices encoded and requests spoken with a loaded model: memory asked for, progress shown, cancel heard.

ComfyUI moves the weights; it is asked for room at the start of every execution.
"""

from __future__ import annotations

from collections.abc import Sequence

import comfy.model_management as mm
import comfy.utils

from ...omnivoice.types import GenerationRequest, Speech, VoicePrompt, Waveform
from . import values
from .models import LoadedModel


def encode_voices(model: LoadedModel, waveforms: Sequence[Waveform], transcripts: Sequence[str]) -> list[VoicePrompt]:
    """A voice from each recording; the codec's encoder alone is brought to the device."""
    memory = max(model.engine.estimate_encode_bytes(*pair) for pair in zip(waveforms, transcripts))
    mm.load_models_gpu([model.encoder], memory_required=memory)
    voices = []
    for label, waveform, transcript in zip(values.recording_labels(len(waveforms)), waveforms, transcripts):
        mm.throw_exception_if_processing_interrupted()
        with values.naming(label):
            voices.append(model.engine.encode_voice(waveform, transcript))
    return voices


def speak(model: LoadedModel, requests: Sequence[GenerationRequest]) -> list[Speech]:
    """Requests spoken, with progress and cancel at every step. Refused before anything is moved if one is wrong."""
    plans = model.engine.plan(requests)
    free = working_memory(model)
    memory = model.engine.estimate_bytes(plans, free_bytes=free)
    mm.load_models_gpu([model.lm, model.decoder], memory_required=memory)
    bar: comfy.utils.ProgressBar | None = None

    def on_step(done: int, total: int) -> None:
        nonlocal bar
        mm.throw_exception_if_processing_interrupted()
        bar = bar or comfy.utils.ProgressBar(total)
        bar.update_absolute(done, total)

    return model.engine.generate_plans(plans, on_step=on_step, free_bytes=free)


def working_memory(model: LoadedModel) -> int:
    """Bytes that a run may work with: what will be free once all weights are there, so that nothing has to make way
    for a larger batch; and at least what ComfyUI clears for any run (minimum_inference_memory, since before 0.14)."""
    missing = sum(patcher.model_size() - patcher.loaded_size() for patcher in (model.lm, model.decoder))
    cleared = mm.minimum_inference_memory() - mm.extra_reserved_memory()
    return int(max(mm.get_free_memory(model.lm.load_device) - missing, cleared))
