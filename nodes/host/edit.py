"""Fills opened frames of recordings with a loaded model: asks for memory, shows progress, reacts to Cancel."""

from __future__ import annotations

from collections.abc import Sequence

import comfy.model_management as mm
from torch import Tensor

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.productions.edit import EditTools
from ...omnivoice.types import GenerationPlan, Waveform
from . import resident, speech
from .models import LoadedModel


def edit_tools(model: LoadedModel, node_id: object = None) -> EditTools:
    """Return what runs the model for an edit. Each module is brought to the device right before it is needed.

    The node shows how far the filling is; Cancel works at every step, and before each piece is encoded or decoded.
    """
    engine = model.engine

    def encode(samples: Tensor, /) -> Tensor:
        mm.throw_exception_if_processing_interrupted()
        memory = engine.estimate_encode_bytes(Waveform(samples, SAMPLE_RATE), "as it is")
        mm.load_models_gpu([model.encoder], memory_required=memory)
        return engine.codec.encode(samples)

    def fill(plans: Sequence[GenerationPlan], codes: Sequence[Tensor], /) -> list[Tensor]:
        free = speech.working_memory(model)
        memory = engine.estimate_bytes(plans, free_bytes=free)
        mm.load_models_gpu([model.lm, model.decoder], memory_required=memory)
        on_step = speech.step_progress("piece", len(plans), node_id)
        with resident.in_place(model, plans, memory) as addresses:
            return engine.fill(plans, codes, on_step=on_step, free_bytes=free, addresses=addresses)

    def decode(codes: Tensor, /) -> Tensor:
        mm.throw_exception_if_processing_interrupted()
        mm.load_models_gpu([model.decoder], memory_required=engine.estimate_frames_bytes(codes.shape[1]))
        return engine.codec.decode(codes)

    return EditTools(encode, fill, decode)
