"""The prefix cache: keys and values of the first rows of each document, kept for later forward passes.

Attention is bidirectional, so the cached values depend on the targets of the pass that computed them. A later pass
over the other rows only is exact while the targets stay the same, and an approximation after they change. How old the
cache may become is decided by `generate/approximate.py`. Exact generation does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Documents = Sequence[Tensor]  # one [1, Hkv, L, D] tensor for each document
KeyValueHook = Callable[[Documents, Documents], tuple[Documents, Documents]]  # own keys, values -> those attended to


class LayerPrefix:
    """One layer's cache: normed and rotated keys, and values, of the first rows[i] rows of document i."""

    def __init__(self, rows: Sequence[int]):
        self._rows, self._keys, self._values = tuple(rows), tuple[Tensor, ...](), tuple[Tensor, ...]()

    def refresh(self, keys: Documents, values: Documents) -> tuple[Documents, Documents]:
        """In a pass over complete documents: store their first rows and return keys and values unchanged."""
        self._keys, self._values = self._first(keys), self._first(values)
        return keys, values

    def reuse(self, keys: Documents, values: Documents) -> tuple[Documents, Documents]:
        """In a pass without those rows: return the cached rows followed by the rows of this pass.

        Documents after the cached ones have no prefix and are returned unchanged.
        """
        return _prepended(self._keys, keys), _prepended(self._values, values)

    def _first(self, documents: Documents) -> tuple[Tensor, ...]:
        return tuple(document[:, :, :rows].clone() for rows, document in zip(self._rows, documents))


def _prepended(cached: Documents, documents: Documents) -> Documents:
    joined = [torch.cat(pair, dim=2) for pair in zip(cached, documents)]
    return [*joined, *documents[len(joined) :]]


class PrefixCache:
    """The caches of every layer. `refresh` and `reuse` are given to `OmniVoiceLM` as `kv`.

    rows: how many rows to cache of each of the first documents. Holds 2 * layers * sum(rows) * Hkv * D numbers.
    """

    def __init__(self, layers: int, rows: Sequence[int]):
        prefixes = [LayerPrefix(rows) for _ in range(layers)]
        self.refresh: Sequence[KeyValueHook] = [prefix.refresh for prefix in prefixes]
        self.reuse: Sequence[KeyValueHook] = [prefix.reuse for prefix in prefixes]
