"""What is trained on: clips of codes with their transcripts, and what became of every row that was offered.

Unusual: rows that cannot be used are kept by name and reason, so that rows in = clips + rejected, always. Nothing here
reads a file or encodes; `dataset` does.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from ..constants import FRAME_RATE


@dataclass(frozen=True, eq=False)
class Clip:
    """One recording and what it says.

    name: what to call it in messages, without folders. codes: [K, T] int16 on the CPU. text: the transcript, clean.
    language: an id, or None. instruct: a description of the voice as the prompt receives it, or None. pinyin: another
    spelling of the text, or None. clean_start: the frame at which the clean speech begins, if what is before it was
    made noisy on purpose (upstream's `clean_start_token_idx`), or None.
    """

    name: str
    codes: Tensor
    text: str
    language: str | None = None
    instruct: str | None = None
    pinyin: str | None = None
    clean_start: int | None = None

    @property
    def seconds(self) -> float:
        """Length of the sound."""
        return self.codes.shape[1] / FRAME_RATE


@dataclass(frozen=True)
class Rejected:
    """A row that is not used. reason: what is wrong with it, in words that say what to do."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Clips in the order of their rows, the rows that were refused, and notes on what else was odd."""

    clips: tuple[Clip, ...]
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that went in."""
        return len(self.clips) + len(self.rejected)

    @property
    def seconds(self) -> float:
        """Length of all clips."""
        return sum(clip.seconds for clip in self.clips)

    def split(self, share: float, seed: int) -> tuple[tuple[Clip, ...], tuple[Clip, ...]]:
        """(training, validation): `share` of the clips, rounded, drawn by `seed`; each keeps the order of the rows.

        At least one clip is left for training; from ten clips on, a share above 0 is one clip at least.
        """
        least = 1 if share > 0 and len(self.clips) >= 10 else 0
        count = max(0, min(max(least, round(share * len(self.clips))), len(self.clips) - 1))
        drawn = set(random.Random(seed).sample(range(len(self.clips)), count))  # noqa: S311 - not for secrets
        training = tuple(clip for i, clip in enumerate(self.clips) if i not in drawn)
        return training, tuple(clip for i, clip in enumerate(self.clips) if i in drawn)

    def fingerprint(self) -> str:
        """SHA-256 over everything that training reads; names do not count."""
        digest = hashlib.sha256()
        for clip in self.clips:
            labels = (clip.text, clip.language, clip.instruct, clip.pinyin, clip.clean_start, tuple(clip.codes.shape))
            digest.update(repr(labels).encode("utf-8", "surrogatepass"))
            digest.update(clip.codes.to(torch.int16).contiguous().numpy().tobytes())
        return digest.hexdigest()

    def summary(self) -> str:
        """Clips, hours and languages in one line; no names."""
        counts = Counter(clip.language or "not given" for clip in self.clips)
        languages = ", ".join(f"{language} ({count})" for language, count in counts.most_common(10))
        more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
        length = f"{self.seconds / 3600:.2f} h" if self.seconds >= 600 else f"{self.seconds:.1f} s"
        return f"{len(self.clips)} of {self.rows} clips, {length}, languages: {languages or 'none'}{more}"

    def report(self) -> str:
        """The summary, then notes and every rejected row with its reason, one a line."""
        refused = [f"rejected {row.name}: {row.reason}" for row in self.rejected]
        return "\n".join([self.summary(), *self.notes, *refused])
