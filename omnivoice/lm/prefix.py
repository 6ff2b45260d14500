"""Keys and values of the first rows of documents, kept from one forward pass for later ones.

Unusual: attention runs both ways, so what is kept was computed from the targets of that pass. Later passes, over the
other rows alone, are exact as long as the targets are those; after that they are an approximation, and how stale it
may get is the caller's business (`generate/experimental.py`). The exact path makes none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Documents = Sequence[Tensor]  # one [1, Hkv, L, D] for each document
Sees = Callable[[Documents, Documents], tuple[Documents, Documents]]  # keys, values of a pass -> those to attend to


class LayerPrefix:
    """Of one layer: normed and rotated keys, and values, of the first rows[i] rows of document i."""

    def __init__(self, rows: Sequence[int]):
        self._rows, self._keys, self._values = tuple(rows), tuple[Tensor, ...](), tuple[Tensor, ...]()

    def keep(self, keys: Documents, values: Documents) -> tuple[Documents, Documents]:
        """For a pass over whole documents: remembers their first rows, and leaves what they see as it is."""
        self._keys, self._values = self._first(keys), self._first(values)
        return keys, values

    def join(self, keys: Documents, values: Documents) -> tuple[Documents, Documents]:
        """For a pass without those rows: what was kept, then the rows of the pass. Documents beyond are whole."""
        return _joined(self._keys, keys), _joined(self._values, values)

    def _first(self, documents: Documents) -> tuple[Tensor, ...]:
        return tuple(document[:, :, :rows].clone() for rows, document in zip(self._rows, documents))


def _joined(kept: Documents, documents: Documents) -> Documents:
    joined = [torch.cat(pair, dim=2) for pair in zip(kept, documents)]
    return [*joined, *documents[len(joined) :]]


class PrefixCache:
    """The prefixes of every layer: `keep` refreshes them in a pass, `join` uses them; both go to `OmniVoiceLM`.

    rows: of the first documents of a pass, how many rows each to keep. Holds 2 * layers * sum(rows) * Hkv * D numbers.
    """

    def __init__(self, layers: int, rows: Sequence[int]):
        prefixes = [LayerPrefix(rows) for _ in range(layers)]
        self.keep: Sequence[Sees] = [prefix.keep for prefix in prefixes]
        self.join: Sequence[Sees] = [prefix.join for prefix in prefixes]
