"""Which order of the codebooks suits a model, asked of the model itself: a loss, without generating anything.

A few frames inside a recording are opened, about a word, and the model predicts their first codebook twice: shown only
the first codebook of the other frames, as in the order `codebooks`, and shown all of their codebooks, as in the order
`together`. A model whose codebooks were masked independently of each other in training does both equally well, and
either order suits it. A model that was trained with masks in the order of decoding has never seen a higher codebook
beside a first one that was masked: its loss is far higher when it is shown them, and only `codebooks` suits it.
`train.dataset.build_dataset` makes the clips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import LMConfig
from ..constants import FRAME_RATE
from ..engine import Engine
from ..errors import InputError
from ..generate.filling import CODEBOOKS, TOGETHER
from ..generate.filling_loss import OpenedSpeech
from ..intake.limits import shown
from ..text.prompt import build_prompt
from ..train.clips import Clip
from ..train.rows import some_names
from ..types import OnStep

SPAN = 8  # frames that are opened, a third of a second
SIDE = 4  # frames that stay known on either side, at least
APART = 24  # frames of a recording for each span
MOST_SPANS = 8  # in one recording
AT_ONCE = 16  # clips whose spans are laid out together, which bounds the memory of a long list
MARGIN = 0.5  # nats that the loss may rise when the sides are fully shown
LEAST_SPANS = 20
EITHER = "either"


@dataclass(frozen=True)
class OrderLoss:
    """The losses of the first codebook in opened frames, in nats a token.

    first_only: the other frames shown in their first codebook only. fully_shown: in all of them. spans: opened, each
    in a pass of its own. cells: the tokens that both losses are the mean of. clips: recordings used. too_short: the
    names of those that were left out.
    """

    first_only: float
    fully_shown: float
    spans: int
    cells: int
    clips: int
    too_short: tuple[str, ...] = ()

    @property
    def order(self) -> str | None:
        """The order that suits the model, "codebooks" or "either"; None if there are too few spans to tell."""
        if self.spans < LEAST_SPANS:
            return None
        return EITHER if self.fully_shown <= self.first_only + MARGIN else CODEBOOKS

    def report(self) -> str:
        """Return the losses and the verdict in whole sentences, one per line."""
        left = f"left out, shorter than {shortest_seconds():g} s: {some_names(self.too_short)}"
        return "\n".join(
            [
                *([left] if self.too_short else []),
                f"loss of the first codebook in {self.spans} spans of {SPAN} frames, {self.cells} tokens in "
                f"{self.clips} clips:",
                f"  the rest shown in its first codebook only: {self.first_only:.2f} nats a token",
                f"  the rest fully shown:                      {self.fully_shown:.2f} nats a token",
                self._verdict(),
            ]
        )

    def _verdict(self) -> str:
        if self.order is None:
            return (
                f"There are too few spans for a verdict: at least {LEAST_SPANS} are needed, give more clips. Until "
                f"then choose the order {CODEBOOKS}, the default, which works with every model."
            )
        rise = self.fully_shown - self.first_only
        if self.order == EITHER:
            return (
                f"Either order suits this model: fully shown sides cost it {max(rise, 0):.2f} nats, at most {MARGIN} "
                f"are allowed. Keep {CODEBOOKS}, the default and the quicker one, or choose {TOGETHER}."
            )
        return (
            f"Only the order {CODEBOOKS}, the default, suits this model: fully shown sides cost it {rise:.2f} nats, "
            f"more than {MARGIN}. Do not choose {TOGETHER}."
        )


def order_loss(
    engine: Engine, clips: Sequence[Clip], *, on_step: OnStep | None = None, free_bytes: int | None = None
) -> OrderLoss:
    """Return how well the model predicts opened spans of these clips in both ways; the spans are always the same.

    clips: encoded with the engine's codec. on_step(done, total) counts passes and may raise to cancel. free_bytes: as
    in `Engine.generate_plans`. Raises InputError if there are no clips, if all are too short, or if their codes are
    another model's.
    """
    used = [clip for clip in clips if _spans(clip.codes.shape[1])]
    if not used:
        found = f"got {len(clips)}, all shorter" if clips else "got none"
        raise InputError(f"the test needs clips of at least {shortest_seconds():g} s with their transcripts, {found}")
    for clip in used:
        _check(clip, engine.lm.config)
    passes, losses = 2 * sum(len(_spans(clip.codes.shape[1])) for clip in used), list[Tensor]()
    for start in range(0, len(used), AT_ONCE):
        opened = [one for clip in used[start : start + AT_ONCE] for pair in _opened(engine, clip) for one in pair]
        counted = None if on_step is None else _counted(on_step, len(losses), passes)
        losses += engine.opened_losses(opened, on_step=counted, free_bytes=free_bytes)
    first_only, fully_shown = (torch.cat(losses[way::2]).double() for way in (0, 1))
    return OrderLoss(
        first_only=float(first_only.mean()),
        fully_shown=float(fully_shown.mean()),
        spans=passes // 2,
        cells=len(first_only),
        clips=len(used),
        too_short=tuple(clip.name for clip in clips if not _spans(clip.codes.shape[1])),
    )


def shortest_seconds() -> float:
    """Return the length of the shortest clip that a span can be opened in."""
    return (SPAN + 2 * SIDE) / FRAME_RATE


def _spans(frames: int) -> list[int]:
    """Return the first frames of the spans to open in a recording, evenly spread; none if it is too short."""
    if frames < SPAN + 2 * SIDE:
        return []
    count = max(1, min(MOST_SPANS, frames // APART))
    return [frames * i // (count + 1) - SPAN // 2 for i in range(1, count + 1)]


def _check(clip: Clip, config: LMConfig) -> None:
    codes, K, mask_id = clip.codes, config.codebooks, config.audio_mask_id
    if codes.ndim != 2 or codes.shape[0] != K or not 0 <= int(codes.min()) <= int(codes.max()) < mask_id:
        raise InputError(
            f"the codes of {shown(clip.name)} are {list(codes.shape)} of {int(codes.min())}-{int(codes.max())}, the "
            f"model's [{K}, T] of 0-{mask_id - 1}: encode the clip with this model"
        )


def _counted(on_step: OnStep, before: int, total: int) -> OnStep:
    """Return what counts the passes of one group of clips as those of all."""

    def step(done: int, _: int, /) -> None:
        on_step(before + done, total)

    return step


def _opened(engine: Engine, clip: Clip) -> Iterator[tuple[OpenedSpeech, OpenedSpeech]]:
    """Yield each span of a clip, the rest shown in its first codebook only, and fully shown."""
    codes, mask_id = clip.codes.to(torch.int64), engine.lm.config.audio_mask_id
    prompt = build_prompt(engine.tokenizer, text=clip.text, language=clip.language, instruct=clip.instruct)
    for start in _spans(codes.shape[1]):
        full = _masked(codes, slice(start, start + SPAN), 0, mask_id)
        first_only = _masked(full, slice(None), 1, mask_id)
        yield OpenedSpeech(prompt, first_only, codes[0]), OpenedSpeech(prompt, full, codes[0])


def _masked(codes: Tensor, frames: slice, book: int, mask_id: int) -> Tensor:
    """Return the codes with the mask in these frames of codebook `book` and all higher ones."""
    masked = codes.clone()
    masked[book:, frames] = mask_id
    return masked
