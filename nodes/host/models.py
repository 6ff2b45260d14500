"""Models in models/omnivoice: listing, choosing and loading them, and wrapping them in ComfyUI's patchers.

ComfyUI owns the memory: only its patchers move weights. This module keeps no cache and downloads nothing.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import comfy.model_management as mm
import comfy.model_patcher
import comfy.ops
import comfy.patcher_extension
import folder_paths
import torch
from comfy.cli_args import args as comfy_args
from torch import nn

from ...omnivoice.devices import AUTO, DTYPES, FASTEST, codec_device, fastest_dtype
from ...omnivoice.engine import Engine
from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import check_choice
from ...omnivoice.intake.paths import match_name
from ...omnivoice.types import ALL_SPEEDUPS
from ...omnivoice.weights import demo, is_checkpoint
from . import folders, values

FOLDER = "omnivoice"
GRAPH_MODES = ("auto", "off")
# A choice of this node only, because the engine's own layers do not cast their weights.
FP8, STORED_IN_8_BITS = "fp8", torch.float8_e4m3fn
NO_MODEL = "no model found in models/omnivoice"
HOW_TO_GET = (
    "run the node OmniVoice Download once, or put a model folder (config.json, model.safetensors, tokenizer.json, "
    "audio_tokenizer/) or a single-file model into ComfyUI/models/omnivoice, e.g. "
    "ComfyUI/models/omnivoice/OmniVoice/config.json; then press R and choose it"
)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """The value of an OMNIVOICE_MODEL socket: the engine, and a patcher of ComfyUI for each of its modules.

    origin: which files it was loaded from, for which device and in which precision. loras: (digest, strength) of each
    LoRA in `lm`.
    """

    engine: Engine
    lm: comfy.model_patcher.ModelPatcher
    decoder: comfy.model_patcher.ModelPatcher
    origin: str
    loras: tuple[tuple[str, float], ...] = ()

    @functools.cached_property
    def encoder(self) -> comfy.model_patcher.ModelPatcher:
        """The patcher of the codec's encoder, whose weights are read when a recording is first encoded."""
        return patcher_of(self.engine.codec.encoder, self.decoder.load_device, self.decoder.offload_device)

    @property
    def identity(self) -> str:
        """A hash that is the same after a restart, and another one for other files, LoRAs, precision or device."""
        return hashlib.sha256(repr((self.origin, self.loras)).encode()).hexdigest()


def register_model_folder() -> None:
    """Make models/omnivoice known to ComfyUI, after the places that extra_model_paths.yaml gives for it."""
    folders.register_folder(FOLDER, folder_paths.supported_pt_extensions)


def model_folders() -> dict[str, Path]:
    """Return {name: folder or single file} of every model: the registered folders themselves and their entries.

    The first place of a name wins, as everywhere in ComfyUI. Places that cannot be read count as empty. The demo voice
    of this pack comes last.
    """
    found, spare = folders.entries(is_checkpoint, FOLDER, places=True), demo.demo_model()
    return found if spare is None else {**found, demo.NAME: spare}


def model_names() -> list[str]:
    """Return the menu: the names of all models, or one entry that says that none was found."""
    return [*model_folders()] or [NO_MODEL]


def model_folder(name: object) -> Path:
    """Return the folder or file of a model in a fresh list; raises InputError for any other name."""
    models = model_folders()
    if [*models] == [demo.NAME] and match_name(name, models) is None:
        raise InputError(f"{NO_MODEL} except the demo voice: {HOW_TO_GET}")
    return models[folders.chosen("model_name", name, models, missing=f"{NO_MODEL}: {HOW_TO_GET}")]


def load_model(name: object, dtype: object, graphs: object) -> LoadedModel:
    """Load the named model for ComfyUI's device; its weights wait on the offload device until they are needed."""
    folder = model_folder(name)
    check_choice("graphs", graphs, GRAPH_MODES)
    load_device, offload_device = mm.get_torch_device(), mm.unet_offload_device()
    files = folders.stamp(folder)  # before loading: if they change meanwhile, the next model has another one
    use_graphs = graphs == "auto" and not getattr(comfy_args, "disable_cuda_graphs", False)
    engine = Engine.load(
        folder,
        offload_device,
        pick_dtype(dtype, load_device),
        ops=comfy.ops.manual_cast,
        compute_device=load_device,
        body_dtype=STORED_IN_8_BITS if dtype == FP8 else None,
        speedups=replace(ALL_SPEEDUPS, graphs=use_graphs),
    )
    lm = patcher_of(engine.lm, load_device, offload_device)
    lm.add_callback(comfy.patcher_extension.CallbacksMP.ON_DETACH, functools.partial(_drop_graphs, engine))
    return LoadedModel(
        engine=engine,
        lm=lm,
        decoder=patcher_of(engine.codec.decoder, codec_device(load_device), offload_device),
        origin=repr((files, load_device.type, str(engine.lm.get_dtype()), dtype == FP8)),
    )


def loaded(value: object, name: str = "model") -> LoadedModel:
    """Return the model that arrived on a socket; raises InputError for anything else."""
    return values.checked(LoadedModel, value, name, "Load OmniVoice")


def _drop_graphs(engine: Engine, patcher: object, unpatch_all: bool) -> None:
    """Drop the CUDA graphs when ComfyUI unloads the weights. It also detaches briefly without unpatching them."""
    if unpatch_all:
        engine.sampler.graphs.clear("the model was unloaded")


def dtype_choices() -> list[str]:
    """Return the menu of dtypes."""
    return [AUTO, *DTYPES, FASTEST, FP8]


def has_8_bit_weights(model: LoadedModel) -> bool:
    """Whether the model was loaded with dtype fp8."""
    return any(weight.dtype == STORED_IN_8_BITS for weight in model.engine.lm.parameters())


def pick_dtype(choice: object, device: torch.device) -> torch.dtype:
    """Return the dtype for a choice of the menu; raises InputError for anything else, and for fp8 where it is useless.

    auto: ComfyUI's own choice, including its flags, with fp16 preferred to bf16; float32 on CPUs and MPS. fastest: the
    same, except bf16 on CPUs that are faster with it. fp8 says how weights are stored, and computes as auto does.
    """
    choice = check_choice("dtype", choice, dtype_choices())
    if choice == FP8 and device.type != "cuda":
        raise InputError(f"dtype fp8 saves the memory of NVIDIA and AMD GPUs, and this is {device.type}: choose auto")
    if choice in DTYPES:
        return DTYPES[choice]
    if choice == FASTEST and mm.is_device_cpu(device):
        return fastest_dtype(device)
    return comfy_dtype(device, torch.float16, torch.bfloat16, torch.float32)


def comfy_dtype(device: torch.device, *supported: torch.dtype) -> torch.dtype:
    """Return ComfyUI's choice among `supported`, its flags included; float32 on CPUs and MPS.

    Flags that ask for fewer than 16 bits get the first one; float64 is answered with float32.
    """
    if mm.is_device_cpu(device) or mm.is_device_mps(device):
        return torch.float32
    dtype = mm.unet_dtype(device, supported_dtypes=[*supported])
    if dtype in supported:
        return dtype
    return supported[0] if dtype.itemsize == 1 else torch.float32


def patcher_of(
    module: nn.Module, load_device: torch.device, offload_device: torch.device
) -> comfy.model_patcher.ModelPatcher:
    """Wrap a module. CoreModelPatcher is looked up at call time, because ComfyUI may replace it at startup."""
    patcher = comfy.model_patcher.CoreModelPatcher(module, load_device=load_device, offload_device=offload_device)
    mm.archive_model_dtypes(module)
    return patcher
