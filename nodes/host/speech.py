"""Encodes voices and speaks requests with a loaded model: asks for memory, shows progress, reacts to Cancel.

ComfyUI moves the weights; it is asked for room at the start of every execution.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import comfy.model_management as mm
import comfy.utils

from ...omnivoice.generate.plan import limited
from ...omnivoice.intake.limits import check_integer
from ...omnivoice.productions.cast import Cast
from ...omnivoice.productions.cues import Subtitles
from ...omnivoice.productions.subtitle_schedule import SubtitleOptions
from ...omnivoice.productions.subtitles import SpokenSubtitles, speak_subtitles
from ...omnivoice.productions.takes import run_with_retries
from ...omnivoice.train.trainer import clock
from ...omnivoice.types import GenerationPlan, GenerationRequest, OnStep, Speech, VoicePrompt, Waveform
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
    plans = [*limited(_planned(model, requests))]
    on_step = step_progress("chunk", sum(len(plan.chunks) for plan in plans), node_id)
    return dict(zip(requests, run_plans(model, plans, on_step=on_step)))


def _planned(model: LoadedModel, requests: Mapping[str, GenerationRequest]) -> Iterator[GenerationPlan]:
    """Yield the plan of each request; raises ComfyUI's interrupt after Cancel."""
    for label, request in requests.items():
        mm.throw_exception_if_processing_interrupted()
        with values.naming(label):
            (plan,) = model.engine.plan([request])
        yield plan


def runner(model: LoadedModel, node_id: object = None) -> Callable[[Sequence[GenerationPlan]], list[Speech]]:
    """Return a function that runs plans in one run and shows how far each run is."""

    def run(plans: Sequence[GenerationPlan], /) -> list[Speech]:
        on_step = step_progress("chunk", sum(len(plan.chunks) for plan in plans), node_id)
        return run_plans(model, plans, on_step=on_step)

    return run


def speak_cues(
    model: LoadedModel,
    subtitles: Subtitles,
    cast: Cast,
    options: SubtitleOptions,
    retries: object = 0,
    node_id: object = None,
) -> SpokenSubtitles:
    """Speak subtitles, and up to `retries` times again what has a fault. A cue that is wrong is refused by its name
    before any weights move."""
    count = check_integer("retries", retries)
    run = run_with_retries(partial(run_plans, model), count)
    on_step = step_progress("cue", len(subtitles.cues), node_id)
    return speak_subtitles(model.engine, subtitles, cast, options, run=run, on_step=on_step, retries=count)


def run_plans(model: LoadedModel, plans: Sequence[GenerationPlan], *, on_step: OnStep | None) -> list[Speech]:
    """Run plans on the model, which is brought to the device first."""
    free = working_memory(model)
    memory = model.engine.estimate_bytes(plans, free_bytes=free)
    mm.load_models_gpu([model.lm, model.decoder], memory_required=memory)
    with resident.in_place(model, plans, memory) as addresses:
        spoken = model.engine.generate_plans(plans, on_step=on_step, free_bytes=free, addresses=addresses)
    return [_without_note(one) for one in spoken] if model.loras else spoken


def _without_note(speech: Speech) -> Speech:
    """Return speech whose own voice does not say that it was designed: a LoRA may have made it a person's voice."""
    if speech.request is not None and speech.request.voice is not None:
        return speech
    return replace(speech, voice=replace(speech.voice, consent=""))


def step_progress(name: str, count: int, node_id: object) -> Callable[[int, int], None]:
    """Return a callback for (steps done, all steps), which shows them and raises ComfyUI's interrupt after Cancel.

    The text on the node counts the steps as `count` pieces called `name`.
    """
    text, start = progress.ProgressText(node_id), time.monotonic()
    bar: comfy.utils.ProgressBar | None = None

    def on_step(done: int, total: int) -> None:
        nonlocal bar
        mm.throw_exception_if_processing_interrupted()
        bar = bar or comfy.utils.ProgressBar(total)
        bar.update_absolute(done, total)
        place = min(1 + done * count // total, count)
        left = (time.monotonic() - start) * (total - done) / done
        text.update(f"{name} {place} of {count}, {clock(round(left))} left")

    return on_step


def working_memory(model: LoadedModel) -> int:
    """Return how many bytes a run may use: what is free once all weights are loaded, so that a larger batch does
    not evict them, and at least what ComfyUI frees for any run (minimum_inference_memory, since before 0.14)."""
    missing = sum(patcher.model_size() - patcher.loaded_size() for patcher in (model.lm, model.decoder))
    cleared = mm.minimum_inference_memory() - mm.extra_reserved_memory()
    return int(max(mm.get_free_memory(model.lm.load_device) - missing, cleared))
