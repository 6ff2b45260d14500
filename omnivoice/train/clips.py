"""Training data in memory: clips of codes with their transcripts, and the rejected rows with their reasons.

Every row of the source is either a clip or a rejected row. Nothing here reads a file or encodes; `dataset` does.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..constants import FRAME_RATE
from ..text.languages import language_label


@dataclass(frozen=True, eq=False)
class Clip:
    """One recording with its transcript.

    name: for messages, without folders. codes: [K, T] int16 on the CPU. text: the cleaned transcript. language: an id,
    or None. instruct: a description of the voice as it is written into the prompt, or None. pinyin: another spelling of
    the text, or None. clean_start: the frame at which clean speech starts, if the part before it was made noisy on
    purpose (upstream's `clean_start_token_idx`), or None.
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
        """Length of the audio."""
        return self.codes.shape[1] / FRAME_RATE


class Rejected(NamedTuple):
    """A row that is not used. reason: what is wrong with it, and what to do."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """Clips in the order of their rows, the rejected rows, and notes on anything else worth knowing."""

    clips: tuple[Clip, ...]
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows in the source."""
        return len(self.clips) + len(self.rejected)

    @property
    def seconds(self) -> float:
        """Total length of the clips."""
        return sum(clip.seconds for clip in self.clips)

    @property
    def language(self) -> str | None:
        """The language of most clips, as `language_id` takes it; None if most have none."""
        ((language, _),) = Counter(clip.language for clip in self.clips).most_common(1)
        return None if language is None else language_label(language)

    def split(self, share: float, seed: int) -> tuple[tuple[Clip, ...], tuple[Clip, ...]]:
        """Return (training, validation) clips, both in the order of the rows.

        Validation gets `share` of the clips, rounded and drawn by `seed`. At least one clip is left for training; with
        ten clips or more, any share above 0 gives at least one clip for validation.
        """
        least = 1 if share > 0 and len(self.clips) >= 10 else 0
        count = max(0, min(max(least, round(share * len(self.clips))), len(self.clips) - 1))
        drawn = set(random.Random(seed).sample(range(len(self.clips)), count))  # noqa: S311 # nosec B311 # no secret
        training = tuple(clip for i, clip in enumerate(self.clips) if i not in drawn)
        return training, tuple(clip for i, clip in enumerate(self.clips) if i in drawn)

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything that training reads, which excludes names."""
        digest = hashlib.sha256()
        for clip in self.clips:
            labels = (clip.text, clip.language, clip.instruct, clip.pinyin, clip.clean_start, tuple(clip.codes.shape))
            digest.update(repr(labels).encode("utf-8", "surrogatepass"))
            digest.update(clip.codes.to(torch.int16).contiguous().numpy().tobytes())
        return digest.hexdigest()

    def summary(self) -> str:
        """Return clips, hours and languages in one line, without names."""
        counts = Counter(clip.language or "unspecified" for clip in self.clips)
        languages = ", ".join(f"{language} ({count})" for language, count in counts.most_common(10))
        more = f" and {len(counts) - 10} more" if len(counts) > 10 else ""
        length = f"{self.seconds / 3600:.2f} h" if self.seconds >= 600 else f"{self.seconds:.1f} s"
        return f"{len(self.clips)} of {self.rows} clips, {length}, languages: {languages or 'none'}{more}"

    def report(self) -> str:
        """Return the summary, the notes, every rejected row with its reason, and the counts, one per line."""
        rejected = [f"rejected {row.name}: {row.reason}" for row in self.rejected]
        counts = f"{self.rows} rows = {len(self.clips)} used + {len(rejected)} not used"
        return "\n".join([self.summary(), *self.notes, *rejected, counts])
