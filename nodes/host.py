"""The only bridge to ComfyUI: folders, devices, dtypes, patchers, memory, progress, cancel, audio.

What is unusual: ComfyUI checks little of what reaches a node (a literal may sit on any socket, a linked value
skips ranges and lists), and whatever is not an `Exception` kills its worker thread. So everything that comes
in is checked here by type, and `guarded` turns panics into errors. ComfyUI owns the memory: weights are moved
by its patchers alone, and asked for anew at the start of every execution. No caching, no downloading here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import comfy.model_management as mm
import comfy.model_patcher
import comfy.ops
import comfy.patcher_extension
import comfy.utils
import folder_paths
import torch
from comfy.cli_args import args as comfy_args
from server import PromptServer
from torch import nn

from ..omnivoice.engine import Engine, codec_device, fastest_dtype
from ..omnivoice.errors import AudioError, InputError
from ..omnivoice.generate.graphs import GRAPH_MODES
from ..omnivoice.intake.limits import MAX_AUDIO_BYTES, MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, shown
from ..omnivoice.types import ALL_SPEEDUPS, GenerationRequest, Speech, VoicePrompt, Waveform
from ..omnivoice.weights import demo, is_checkpoint
from . import host_folders

FOLDER = "omnivoice"
NO_MODEL = "no model found in models/omnivoice"
HOW_TO_GET = (
    "put an OmniVoice snapshot folder (config.json, model.safetensors, tokenizer.json, audio_tokenizer/) or a "
    "single-file model into ComfyUI's models/omnivoice and press R, or run: python -m omnivoice download"
)
FASTEST = "fastest"
DTYPES: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

_LOG = logging.getLogger("omnivoice_nodes")
_Result = TypeVar("_Result")
_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """What travels on an OMNIVOICE_MODEL socket: the engine, and ComfyUI's patcher for each of its models."""

    engine: Engine
    lm: comfy.model_patcher.ModelPatcher
    decoder: comfy.model_patcher.ModelPatcher

    @functools.cached_property
    def encoder(self) -> comfy.model_patcher.ModelPatcher:
        """Made, and its weights read, when a recording is first encoded."""
        return _patcher(self.engine.encoder, self.decoder.load_device, self.decoder.offload_device)


def guarded(execute: Callable[..., _Result]) -> Callable[..., _Result]:
    """`execute`, with whatever would kill ComfyUI's worker thread (a Rust panic, SystemExit) made a RuntimeError.

    An interrupt passes: it is an Exception before ComfyUI 0.20 and a BaseException since.
    """

    @functools.wraps(execute)
    def run(*args: object, **kwargs: object) -> _Result:
        try:
            return execute(*args, **kwargs)
        except (Exception, mm.InterruptProcessingException):
            raise
        except BaseException as fault:
            raise RuntimeError(f"OmniVoice stopped on an internal fault: {type(fault).__name__}: {fault}") from fault

    return run


# Folders.


def register_model_folder() -> None:
    """Make models/omnivoice known, after the places that extra_model_paths.yaml already gave for it."""
    host_folders.register_folder(FOLDER, folder_paths.supported_pt_extensions)


def model_folders() -> dict[str, Path]:
    """Name -> folder or single file of every model found just now: the registered folders and what lies in them.

    The first place of a name wins, as everywhere in ComfyUI. A place that cannot be read holds no model. Last comes the
    demo voice that lies in this pack.
    """
    found: dict[str, Path] = {}
    for root in folder_paths.get_folder_paths(FOLDER):
        with contextlib.suppress(OSError), os.scandir(root) as entries:
            children = sorted(Path(entry.path) for entry in entries)
            for folder in (Path(root), *children):
                if folder.name not in found and is_checkpoint(folder):
                    found[folder.name] = folder
    spare = demo.demo_model()
    return found if spare is None else {**found, demo.NAME: spare}


def model_names() -> list[str]:
    """The menu: names of the models found, or one entry that says that there are none."""
    return [*model_folders()] or [NO_MODEL]


def model_folder(name: object) -> Path:
    """The folder or file of a model in a fresh list; a name is never joined to a path. Raises InputError."""
    models = model_folders()
    if [*models] == [demo.NAME] and name != demo.NAME:
        raise InputError(f"{NO_MODEL} but the demo voice: {HOW_TO_GET}")
    return host_folders.chosen(models, name, missing=f"{NO_MODEL}: {HOW_TO_GET}")


def model_fingerprint(name: object) -> str:
    """Changes when a file of the model does, so that ComfyUI loads it anew; empty for a name that is linked or gone."""
    folder = model_folders().get(name) if isinstance(name, str) else None
    if folder is None:
        return ""
    files = sorted(path for path in (folder, *folder.rglob("*")) if path.suffix in (".json", ".safetensors"))
    stats = [(str(path.relative_to(folder)), path.stat()) for path in files]
    return repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats])


# Models.


def load_model(name: object, dtype: object, graphs: object) -> LoadedModel:
    """Load the named model for ComfyUI's device, with its weights parked on its offload device."""
    folder = model_folder(name)
    if graphs not in GRAPH_MODES:
        raise InputError(f"graphs must be one of {', '.join(GRAPH_MODES)}, got {shown(graphs)}")
    load_device, offload_device = mm.get_torch_device(), mm.unet_offload_device()
    use_graphs = graphs == "auto" and not getattr(comfy_args, "disable_cuda_graphs", False)
    engine = Engine.load(
        folder,
        offload_device,
        pick_dtype(dtype, load_device),
        ops=comfy.ops.manual_cast,
        compute_device=load_device,
        speedups=replace(ALL_SPEEDUPS, graphs=use_graphs),
    )
    lm = _patcher(engine.lm, load_device, offload_device)
    lm.add_callback(comfy.patcher_extension.CallbacksMP.ON_DETACH, functools.partial(_drop_graphs, engine))
    return LoadedModel(
        engine=engine, lm=lm, decoder=_patcher(engine.decoder, codec_device(load_device), offload_device)
    )


def _drop_graphs(engine: Engine, patcher: object, unpatch_all: bool) -> None:
    """When ComfyUI takes the weights off the device; it also detaches for a moment, without unpatching, in passing."""
    if unpatch_all:
        engine.sampler.graphs.clear("the model was unloaded")


def pick_dtype(choice: object, device: torch.device) -> torch.dtype:
    """auto: what ComfyUI would take, its flags included, but bf16 before fp16; float32 on CPUs and MPS. fastest: the
    same, but bf16 on CPUs that are quicker in it."""
    if choice != "auto":
        if not isinstance(choice, str) or choice not in (*DTYPES, FASTEST):
            raise InputError(f"dtype must be one of auto, {', '.join(DTYPES)}, {FASTEST}, got {shown(choice)}")
        if choice != FASTEST:
            return DTYPES[choice]
        if mm.is_device_cpu(device):
            return fastest_dtype(device)
    if mm.is_device_cpu(device) or mm.is_device_mps(device):
        return torch.float32
    dtype = mm.unet_dtype(device, supported_dtypes=[torch.bfloat16, torch.float16, torch.float32])
    return dtype if dtype in DTYPES.values() else torch.float32


def _patcher(
    module: nn.Module, load_device: torch.device, offload_device: torch.device
) -> comfy.model_patcher.ModelPatcher:
    """CoreModelPatcher is looked up now: ComfyUI replaces it at start when dynamic memory is on."""
    patcher = comfy.model_patcher.CoreModelPatcher(module, load_device=load_device, offload_device=offload_device)
    mm.archive_model_dtypes(module)
    return patcher


def encode_voices(model: LoadedModel, waveforms: Sequence[Waveform], transcripts: Sequence[str]) -> list[VoicePrompt]:
    """A voice from each recording; the codec's encoder alone is brought to the device."""
    memory = max(model.engine.estimate_encode_bytes(*pair) for pair in zip(waveforms, transcripts))
    mm.load_models_gpu([model.encoder], memory_required=memory)
    voices = []
    for waveform, transcript in zip(waveforms, transcripts):
        mm.throw_exception_if_processing_interrupted()
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


# Values.


def checked(kind: type[_Value], value: object, name: str, source: str) -> _Value:
    """`value` if it is exactly a `kind`: a literal on a socket is whatever a workflow's author wrote there."""
    if type(value) is not kind:
        raise InputError(f"{name} must come from {source}, got {shown(value)}: connect that node")
    return value


def only(values: Sequence[_Value], name: str) -> _Value:
    """The one value of a list input that must not vary; raises InputError."""
    if any(value is not values[0] for value in values):
        raise InputError(f"{name} must be the same for every item, got a list of {len(values)} different ones")
    return values[0]


def waveforms_from(audio: object) -> list[Waveform]:
    """ComfyUI's AUDIO, {"waveform": [B, C, N] float, "sample_rate": Hz}, as B Waveforms; raises AudioError."""
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
    if channels * length * 4 > MAX_AUDIO_BYTES:
        raise AudioError(f"audio is too long ({length} samples in {channels} channels): trim it to some seconds")
    if isinstance(rate, bool) or not isinstance(rate, int) or not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        allowed = f"{MIN_SAMPLE_RATE}-{MAX_SAMPLE_RATE}"
        raise AudioError(f"the audio's sample_rate must be a whole number of Hz, {allowed}, got {shown(rate)}")
    return [Waveform(recording, rate) for recording in samples]


def audio_from(waveform: Waveform) -> dict[str, object]:
    """A Waveform [C, N] as ComfyUI's AUDIO: float32 [1, C, N], contiguous, where intermediates belong."""
    samples = waveform.samples[None].to(device=mm.intermediate_device(), dtype=torch.float32).contiguous()
    return {"waveform": samples, "sample_rate": waveform.sample_rate}


def tell(warnings: tuple[str, ...], node_id: object) -> None:
    """Warnings into the log, and onto the node where there is a window to show it."""
    for warning in warnings:
        _LOG.warning("%s", warning)
    server = getattr(PromptServer, "instance", None)
    if warnings and node_id is not None and server is not None:
        server.send_progress_text("\n".join(warnings), str(node_id))
