"""Encodes voices and speaks requests with a loaded model: asks for memory, shows progress, reacts to Cancel.

ComfyUI moves the weights; it is asked for room at the start of every execution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import comfy.model_management as mm
import comfy.utils

from ...omnivoice.train.trainer import clock
from ...omnivoice.types import GenerationPlan, GenerationRequest, Speech, VoicePrompt, Waveform
from . import progress, resident, values
from .models import LoadedModel


def encode_voices(model: LoadedModel, waveforms: Sequence[Waveform], transcripts: Sequence[str]) -> list[VoicePrompt]:
    """Return a voice for each recording. Only the codec's encoder is brought to the device."""
    memory = max(model.engine.estimate_encode_bytes(*pair) for pair in zip(waveforms, transcripts))
    mm.load_models_gpu([model.encoder], memory_required=memory)
    voices = []
    for label, waveform, transcript in zip(values.labels("recording", len(waveforms)), waveforms, transcripts):
        mm.throw_exception_if_processing_interrupted()
        with values.naming(label):
            voices.append(model.engine.encode_voice(waveform, transcript))
    return voices


def speak(model: LoadedModel, requests: Mapping[str, GenerationRequest], node_id: object = None) -> dict[str, Speech]:
    """Speak {label: request}; return {label: speech}.

    A request that is wrong is refused by its label before any weights move. Progress and Cancel work at
    every step.
    """
    plans = list[GenerationPlan]()
    for label, request in requests.items():
        with values.naming(label):
            plans += model.engine.plan([request])
    free = working_memory(model)
    memory = model.engine.estimate_bytes(plans, free_bytes=free)
    mm.load_models_gpu([model.lm, model.decoder], memory_required=memory)
    on_step = _progress(sum(len(plan.chunks) for plan in plans), node_id)
    with resident.in_place(model, plans, memory) as addresses:
        spoken = model.engine.generate_plans(plans, on_step=on_step, free_bytes=free, addresses=addresses)
    return dict(zip(requests, spoken))


def _progress(chunks: int, node_id: object) -> Callable[[int, int], None]:
    """Return a callback for (steps done, all steps), which shows them and raises ComfyUI's interrupt after Cancel."""
    text, start = progress.ProgressText(node_id), time.monotonic()
    bar: comfy.utils.ProgressBar | None = None

    def on_step(done: int, total: int) -> None:
        nonlocal bar
        mm.throw_exception_if_processing_interrupted()
        bar = bar or comfy.utils.ProgressBar(total)
        bar.update_absolute(done, total)
        chunk = min(1 + done * chunks // total, chunks)
        left = (time.monotonic() - start) * (total - done) / done
        text.update(f"chunk {chunk} of {chunks}, {clock(round(left))} left")

    return on_step


def working_memory(model: LoadedModel) -> int:
    """Return how many bytes a run may use: what is free once all weights are loaded, so that a larger batch does
    not evict them, and at least what ComfyUI frees for any run (minimum_inference_memory, since before 0.14)."""
    missing = sum(patcher.model_size() - patcher.loaded_size() for patcher in (model.lm, model.decoder))
    cleared = mm.minimum_inference_memory() - mm.extra_reserved_memory()
    return int(max(mm.get_free_memory(model.lm.load_device) - missing, cleared))
