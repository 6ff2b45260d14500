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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import comfy.model_management as mm
import comfy.model_patcher
import comfy.ops
import comfy.utils
import folder_paths
import torch
from server import PromptServer
from torch import nn

from ..omnivoice.engine import Engine
from ..omnivoice.errors import AudioError, InputError
from ..omnivoice.intake.limits import MAX_AUDIO_BYTES, MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, shown
from ..omnivoice.types import GenerationRequest, Speech, VoicePrompt, Waveform
from ..omnivoice.weights import is_checkpoint

FOLDER = "omnivoice"
NO_MODEL = "no model found in models/omnivoice"
HOW_TO_GET = (
    "put an OmniVoice snapshot folder (config.json, model.safetensors, tokenizer.json, audio_tokenizer/) into "
    "ComfyUI's models/omnivoice and press R, or run: python -m omnivoice download"
)
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
    default = os.path.join(folder_paths.models_dir, FOLDER)
    paths, extensions = folder_paths.folder_names_and_paths.get(FOLDER, ([], set()))
    listed = [*paths] if default in paths else [*paths, default]
    folder_paths.folder_names_and_paths[FOLDER] = (listed, extensions or folder_paths.supported_pt_extensions)


def model_folders() -> dict[str, Path]:
    """Name -> folder of every model found just now: the registered folders and what lies directly in them.

    The first folder of a name wins, as everywhere in ComfyUI. A place that cannot be read holds no model.
    """
    found: dict[str, Path] = {}
    for root in folder_paths.get_folder_paths(FOLDER):
        with contextlib.suppress(OSError), os.scandir(root) as entries:
            children = sorted(Path(entry.path) for entry in entries if entry.is_dir())
            for folder in (Path(root), *children):
                if folder.name not in found and is_checkpoint(folder):
                    found[folder.name] = folder
    return found


def model_names() -> list[str]:
    """The menu: names of the models found, or one entry that says that there are none."""
    return [*model_folders()] or [NO_MODEL]


def model_folder(name: object) -> Path:
    """The folder of a model in a fresh list; a name is never joined to a path. Raises InputError."""
    folders = model_folders()
    if isinstance(name, str) and name in folders:
        return folders[name]
    if not folders:
        raise InputError(f"{NO_MODEL}: {HOW_TO_GET}")
    raise InputError(f"model_name must be one of {', '.join(folders)}, got {shown(name)}: press R to refresh the list")


def model_fingerprint(name: object) -> str:
    """Changes when a file of the model does, so that ComfyUI loads it anew; empty for a name that is linked or gone."""
    folder = model_folders().get(name) if isinstance(name, str) else None
    if folder is None:
        return ""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".safetensors"))
    stats = [(str(path.relative_to(folder)), path.stat()) for path in files]
    return repr([(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats])


# Models.


def load_model(name: object, dtype: object) -> LoadedModel:
    """Load the named model for ComfyUI's device, with its weights parked on its offload device."""
    folder = model_folder(name)
    load_device, offload_device = mm.get_torch_device(), mm.unet_offload_device()
    engine = Engine.load(
        folder, offload_device, pick_dtype(dtype, load_device), ops=comfy.ops.manual_cast, compute_device=load_device
    )
    codec_device = torch.device("cpu") if mm.is_device_mps(load_device) else load_device  # as Engine.load does
    return LoadedModel(
        engine=engine,
        lm=_patcher(engine.lm, load_device, offload_device),
        decoder=_patcher(engine.decoder, codec_device, offload_device),
    )


def pick_dtype(choice: object, device: torch.device) -> torch.dtype:
    """auto: what ComfyUI would take, its flags included, but bf16 before fp16; float32 on CPUs and MPS."""
    if choice != "auto":
        if not isinstance(choice, str) or choice not in DTYPES:
            raise InputError(f"dtype must be one of auto, {', '.join(DTYPES)}, got {shown(choice)}")
        return DTYPES[choice]
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


def encode_voice(model: LoadedModel, waveform: Waveform, transcript: str) -> VoicePrompt:
    """A voice from a recording; the codec's encoder alone is brought to the device."""
    mm.load_models_gpu([model.encoder], memory_required=model.engine.estimate_encode_bytes(waveform))
    return model.engine.encode_voice(waveform, transcript)


def speak(model: LoadedModel, request: GenerationRequest) -> Speech:
    """One request spoken, with progress and cancel at every step. Refused before anything is moved if it is wrong."""
    plans = model.engine.plan([request])
    mm.load_models_gpu([model.lm, model.decoder], memory_required=model.engine.estimate_bytes(plans))
    bar: comfy.utils.ProgressBar | None = None

    def on_step(done: int, total: int) -> None:
        nonlocal bar
        mm.throw_exception_if_processing_interrupted()
        bar = bar or comfy.utils.ProgressBar(total)
        bar.update_absolute(done, total)

    return model.engine.generate_plans(plans, on_step=on_step)[0]


# Values.


def checked(kind: type[_Value], value: object, name: str, source: str) -> _Value:
    """`value` if it is exactly a `kind`: a literal on a socket is whatever a workflow's author wrote there."""
    if type(value) is not kind:
        raise InputError(f"{name} must come from {source}, got {shown(value)}: connect that node")
    return value


def waveform_from(audio: object) -> Waveform:
    """ComfyUI's AUDIO, {"waveform": [1, C, N] float, "sample_rate": Hz}, as a Waveform; raises AudioError."""
    if not isinstance(audio, Mapping):
        raise AudioError(f"audio must be ComfyUI's AUDIO, got {shown(audio)}: connect Load Audio or Record Audio")
    samples, rate = audio.get("waveform"), audio.get("sample_rate")
    if not isinstance(samples, torch.Tensor) or not samples.is_floating_point() or samples.ndim != 3:
        got = f"{tuple(samples.shape)} {samples.dtype}" if isinstance(samples, torch.Tensor) else shown(samples)
        raise AudioError(f"audio must hold a float waveform [batch, channels, samples], got {got}")
    batch, channels, length = samples.shape
    if batch != 1:
        raise AudioError(f"audio must be one recording, got a batch of {batch}: pick one of them first")
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioError(f"audio must have 1-{MAX_CHANNELS} channels, got {channels}")
    if channels * length * 4 > MAX_AUDIO_BYTES:
        raise AudioError(f"audio is too long ({length} samples in {channels} channels): trim it to some seconds")
    if isinstance(rate, bool) or not isinstance(rate, int) or not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
        allowed = f"{MIN_SAMPLE_RATE}-{MAX_SAMPLE_RATE}"
        raise AudioError(f"the audio's sample_rate must be a whole number of Hz, {allowed}, got {shown(rate)}")
    return Waveform(samples[0], rate)


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
