"""The language model in training: examples in, loss out.

A batch is the packed row of documents that generation uses (`lm.layout`), without padding. The layers of the caller's
unfused model are replaced by those of `layers`: trained weights are copied, frozen ones are shared.
The loss is upstream's (models/omnivoice.py:543-565), a weighted sum of each codebook's mean cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..lm import OmniVoiceLM, PackedLayout, TextEmbedding
from ..weights.load import TEXT_EMBEDDING
from .layers import LowRankEmbedding, LowRankLinear, PlainEmbedding, PlainLinear
from .masking import IGNORED, Example
from .settings import AUDIO, TrainSettings


class TrainingModel(nn.Module):
    """An unfused language model with the training layers that `settings` ask for.

    lm: changed in place; frozen weights keep their dtype. text: its text embedding. device: to compute on. generator:
    for the initial values of the LoRA. Raises InputError if config.json has a wrong number of codebook weights.
    """

    def __init__(
        self,
        lm: OmniVoiceLM,
        text: TextEmbedding,
        settings: TrainSettings,
        *,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        weights = lm.config.codebook_weights
        if len(weights) != lm.config.codebooks:
            raise InputError(
                f"config.json must have {lm.config.codebooks} audio_codebook_weights, one per codebook, got "
                f"{len(weights)}: correct it"
            )
        self.config, self.device, self.lm, self.text = lm.config, device, lm, text
        self.codebook_weights = tuple(weight / sum(weights) for weight in weights)
        self.text_weight: nn.Parameter | None = None
        if settings.method == "full":
            self.text_weight = nn.Parameter(_own(text.weight, device))
            self.text = TextEmbedding(self.text_weight)
        self._replace_layers(settings, generator)
        if settings.gradient_checkpointing:
            lm.llm.layers = nn.ModuleList([_Checkpointed(layer) for layer in lm.llm.layers])

    def _replace_layers(self, settings: TrainSettings, generator: torch.Generator) -> None:
        """Replace every linear and embedding by its training layer; with method full, train the norms in float32."""
        full = settings.method == "full"
        self._layers: dict[str, nn.Module] = {}
        self._base: dict[str, Tensor] = {}  # initial values of full modules; a plain dict, so never moved
        for name, module in list(self.lm.named_modules()):
            weight, part = getattr(module, "weight", None), name.rpartition(".")[2]
            if not isinstance(weight, Tensor):
                continue
            trained = full or part in settings.full_parts
            if trained and not full:
                self._base[name] = weight.detach()
            if trained:
                weight = _own(weight, self.device)
            if not part.endswith(("_proj", *AUDIO)):  # a norm takes kilobytes and stays on the device
                module.weight = nn.Parameter(weight.to(self.device), requires_grad=trained)
                continue
            weight = weight if settings.offloading else weight.to(self.device)
            layer = self._layer(part, weight.detach(), settings, generator, trained=trained)
            self.lm.get_submodule(name.rpartition(".")[0]).register_module(part, layer)
            self._layers[name] = layer

    def _layer(
        self, part: str, weight: Tensor, settings: TrainSettings, generator: torch.Generator, *, trained: bool
    ) -> nn.Module:
        low_rank, dtype = part in settings.lora_parts, self.lm.get_dtype()
        if part == "audio_embeddings":
            if low_rank:
                return LowRankEmbedding(weight, settings, generator, self.device, dtype)
            return PlainEmbedding(weight, trained=trained, dtype=dtype)
        if low_rank:
            return LowRankLinear(weight, settings, generator, self.device)
        return PlainLinear(weight, trained=trained)

    def trained(self) -> dict[str, nn.Parameter]:
        """Return every trained parameter by the checkpoint's names, in a fixed order.

        A fully trained module has `MODULE.weight`, a LoRA has `MODULE.down` and `MODULE.up`.
        """
        named = self.lm.named_parameters()
        found = {name.replace("._layer.", "."): p for name, p in named if p.requires_grad}
        return found if self.text_weight is None else {TEXT_EMBEDDING: self.text_weight, **found}

    def full_modules(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Return (weight, initial weight) of the modules that are fully trained in addition to the LoRA."""
        return {name: (self._layers[name].get_parameter("weight"), base) for name, base in self._base.items()}

    def lora_layers(self) -> dict[str, LowRankLinear | LowRankEmbedding]:
        """Return the modules that have a LoRA, by the checkpoint's names."""
        kinds = (LowRankLinear, LowRankEmbedding)
        return {name: layer for name, layer in self._layers.items() if isinstance(layer, kinds)}

    def forward(self, examples: Sequence[Example], counts: Tensor) -> Tensor:
        """Return the loss of the examples, a scalar.

        Each codebook's sum of losses is divided by `counts` [K], the labels of the whole step, and the codebooks are
        weighted, so the losses of the batches of a step add up to the loss of the step.
        """
        rows, layout = self._pack(examples)
        logits = self.lm(rows, layout)  # [R, K, V] float32
        labels = torch.cat([one.labels[:, one.prompt_frames :] for one in examples], dim=1).T.to(self.device)  # [R, K]
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=IGNORED)
        means = losses.view_as(labels).sum(dim=0) / counts.to(self.device)  # [K]
        return (means * torch.tensor(self.codebook_weights, device=self.device)).sum()

    def _pack(self, examples: Sequence[Example]) -> tuple[Tensor, PackedLayout]:
        """Return the embedded documents [S, E], end to end, and their layout."""
        offsets, dtype = self.lm.audio_offsets(self.device), self.lm.rows_dtype
        # One lookup for all, of at least one id: every process must use every trained weight in each step.
        ids = [token for one in examples for token in one.prompt_ids]
        text = self.text.rows(ids or [0], dtype=dtype, device=self.device)[: len(ids)]
        audio = self.lm.embed_audio(torch.cat([one.codes for one in examples], dim=1).to(self.device), offsets)
        texts = text.split([len(one.prompt_ids) for one in examples])
        audios = audio.split([one.codes.shape[1] for one in examples])
        layout = PackedLayout.build(
            [one.length for one in examples],
            [one.targets for one in examples],
            head_dim=self.config.head_dim,
            theta=self.config.rope_theta,
            device=self.device,
        )
        return torch.cat([part for pair in zip(texts, audios) for part in pair]), layout


class _Checkpointed(nn.Module):
    """A layer with gradient checkpointing: its activations are computed again in the backward pass."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = layer

    def forward(self, x: Tensor, layout: PackedLayout, **options: object) -> Tensor:
        """Compute what the layer computes."""
        if not torch.is_grad_enabled():
            return self._layer(x, layout, **options)
        run: Callable[..., Tensor] = checkpoint
        return run(self._layer, x, layout, use_reentrant=False, **options)


def _own(weight: Tensor, device: torch.device) -> Tensor:
    """Return a float32 copy on the device."""
    return weight.detach().to(device=device, dtype=torch.float32, copy=True)
