"""The prefix cache: the keys and values of a complete pass, kept for later passes over the target rows only.

Attention is bidirectional, so the keys and values of the first rows of a document depend on the targets of the pass
that computed them. A later pass over the targets only is exact while the targets stay the same, and an approximation
after they change. How old the cache may become is decided by `generate/approximate.py`. Exact generation does not use
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

# Keys and values of a pass's own rows, each [rows, Hkv, D] -> those attended to
KeyValueHook = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class LayerPrefix:
    """One layer's cache: normed and rotated keys, and values, of every row of the complete documents."""

    def __init__(self, target_rows: Tensor):
        self._target_rows = target_rows
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def refresh(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """In a pass over complete documents: store keys and values [S, Hkv, D], and return them unchanged."""
        self._keys, self._values = keys.clone(), values.clone()
        return keys, values

    def reuse(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """In a pass over the first R target rows: write its keys and values [R, Hkv, D] over the stored ones, and
        return all stored ones [S, Hkv, D]."""
        assert self._keys is not None and self._values is not None, "refresh comes first"
        rows = self._target_rows[: len(keys)]
        return self._keys.index_copy_(0, rows, keys), self._values.index_copy_(0, rows, values)


class PrefixCache:
    """The caches of every layer. `refresh` and `reuse` are given to `OmniVoiceLM` as `kv`.

    target_rows: see `PackedLayout`. Holds 2 * layers * S * Hkv * D numbers.
    """

    def __init__(self, layers: int, target_rows: Tensor):
        prefixes = [LayerPrefix(target_rows) for _ in range(layers)]
        self.refresh: Sequence[KeyValueHook] = [prefix.refresh for prefix in prefixes]
        self.reuse: Sequence[KeyValueHook] = [prefix.reuse for prefix in prefixes]
