"""The text tokenizer: byte-level BPE from tokenizer.json, with Hugging Face's `tokenizers`.

Only the vocabulary and the merges are taken from the file. The splitting rules are those of OmniVoice's tokenizer
(Qwen2), and a file with other rules is refused. Added tokens are not in the encoder. Those of the layout are reached by
name only, so that no text can produce one: "<|text_end|>" typed by a user is encoded as ordinary characters. Those that
a fine-tune added (`own_tokens`) may be written in a text. The library can panic (a BaseException) on hostile files;
that becomes a CheckpointError. There is no decoding and no padding.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, cast

from ..errors import CheckpointError, FileError, TextError
from ..intake.cancel import cancellable, hear_cancel
from ..intake.strict_json import parse_json
from .characters import is_stand_in
from .own_tokens import CONTROL_TOKENS, OwnToken, OwnTokens, split_stand_ins
from .own_tokens import LAYOUT_TOKENS as LAYOUT_TOKENS
from .tags import is_tag

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# transformers 5.3.0, models/qwen2/tokenization_qwen2.py:32
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UNUSED = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")
_SWITCHES = ("lstrip", "rstrip", "single_word")
_MAX_ID = 2**31 - 1
MAX_ADDED_TOKENS = 65_536  # the published one has 33


class TextTokenizer:
    """Turns text into ids, and names of special tokens into theirs. `from_json` makes it; it is immutable.

    own: the tokens that a fine-tune added. special_ids: the ids of all added tokens. used_ids: the ids that a prompt
    can contain. Qwen's control tokens, such as <|im_start|>, never occur in a prompt, and their embedding rows may be
    anything. mark_ids: those of `own` that are no words, so that a text has them only if somebody writes them.
    """

    def __init__(self, encoder: Tokenizer, vocab: Collection[int], added: Mapping[str, OwnToken]) -> None:
        self._encoder = encoder
        self._added = {text: token.id for text, token in added.items()}
        self.own = own_of(added)
        self.mark_ids: frozenset[int] = frozenset(token.id for token in self.own.tokens if not token.is_word)
        self.special_ids: frozenset[int] = frozenset(self._added.values())
        self._control_ids = frozenset(token.id for text, token in added.items() if text in CONTROL_TOKENS)
        layout = [self._added[f"<|{name}|>"] for name in LAYOUT_TOKENS]
        others = [token.id for text, token in added.items() if text not in CONTROL_TOKENS]
        self.used_ids: frozenset[int] = frozenset(vocab).difference(self.special_ids).union(layout, others)

    @classmethod
    def from_json(cls, data: bytes) -> TextTokenizer:
        """Return the tokenizer in the content of a tokenizer.json; raises CheckpointError for any other."""
        with _garbage_collection_paused():
            hear_cancel()
            table = _table(data)
            hear_cancel()
            vocab, merges = _bpe(table)
            hear_cancel()
            added = _added_tokens(table, vocab)
            _check_splitting(table)
            hear_cancel()
            return cls(_encoder(vocab, merges), vocab.values(), added)

    def special(self, name: str) -> int:
        """Return the id of the added token `<|name|>`, e.g. for "text_start"."""
        return self._added[f"<|{name}|>"]

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, never that of a control token, even where the vocabulary and the merges have it.

        An added token that is also an ordinary one of the vocabulary keeps its id. Raises TextError for half of a
        surrogate pair.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise TextError("the text contains half of a surrogate pair, which is not a character: remove it") from None
        hear_cancel()
        ids: list[int] = self._encoder.encode(text, add_special_tokens=False).ids
        return [token for token in ids if token not in self._control_ids]

    def encode_shielded(self, text: str) -> list[int]:
        """Return the ids of a text that `own.shielded` made: one for each stand-in, `encode`'s for the rest."""
        pieces = split_stand_ins(self.own.with_words(text))
        for place, piece in enumerate(pieces):
            if is_stand_in(piece[:1] or " "):
                token = self.own.token(piece)
                if token.lstrip and place:
                    pieces[place - 1] = pieces[place - 1].rstrip()
                if token.rstrip and pieces[place + 1 :]:
                    pieces[place + 1] = pieces[place + 1].lstrip()
        ids: list[int] = []
        for piece in filter(None, pieces):
            ids += [self.own.token(piece).id] if is_stand_in(piece[0]) else self.encode(piece)
        return ids

    def encode_tag(self, tag: str) -> list[int]:
        """Return the ids of a non-verbal tag with its brackets: one id if a fine-tuned model added it as a token."""
        return [self._added[tag]] if tag in self._added else self.encode_shielded(tag)


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause Python's garbage collection. Making 150,000 merges triggers it again and again, and although it finds
    nothing, it takes a third of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _not_ours(reason: str) -> CheckpointError:
    return CheckpointError(
        f"tokenizer.json is not an OmniVoice tokenizer: {reason}; use the one published with the model"
    )


def _bpe(table: dict[str, object]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary and the merges, checked for type and range."""
    model = table.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise _not_ours("its model is not BPE")
    odd = [name for name in _UNUSED if model.get(name) not in (None, False, "", 0)]
    if odd:
        raise _not_ours(f"it sets {', '.join(odd)}, which this engine does not implement")
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise _not_ours("it has no vocabulary or no merges")
    ids = vocab.values()  # checked by functions of the interpreter: there are 150,000 ids and as many merges
    if set(map(type, ids)) - {int} or len(set(ids)) != len(vocab) or (ids and not 0 <= min(ids) <= max(ids) <= _MAX_ID):
        raise _not_ours("its ids are not whole numbers from 0, each used once")
    if len(merges) > 2 * max(
        len(vocab), 256
    ):  # a merge makes a token of the vocabulary, and few tokens are made in two ways
        raise _not_ours(f"it has {len(merges)} merges for {len(vocab)} tokens")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if (
        set(map(type, pairs)) - {list}
        or set(map(len, pairs)) - {2}
        or set(map(type, chain.from_iterable(pairs))) - {str}
    ):
        raise _not_ours("its merges are not pairs of tokens")
    merged = list(map(tuple, pairs))
    if len(set(merged)) != len(merged):
        raise _not_ours("a merge stands in it twice")
    return cast("dict[str, int]", vocab), merged


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_ID


def own_of(added: Mapping[str, OwnToken]) -> OwnTokens:
    """Return the tokens that a text may contain: all but control tokens and OmniVoice's tags, which `prompt` splits."""
    return OwnTokens(tuple(t for text, t in added.items() if text not in CONTROL_TOKENS and not is_tag(text)))


def own_tokens(data: bytes) -> OwnTokens:
    """Return the own tokens in the content of a tokenizer.json, without building the tokenizer."""
    with _garbage_collection_paused():
        table = _table(data)
        return own_of(_added_tokens(table, _bpe(table)[0]))


def _table(data: bytes) -> dict[str, object]:
    try:
        table = parse_json(data, "tokenizer.json")
    except FileError as error:
        raise CheckpointError(str(error)) from None
    if not isinstance(table, dict):
        raise _not_ours("it is not a JSON object")
    return table


def _added_tokens(table: dict[str, object], vocab: Mapping[str, int]) -> dict[str, OwnToken]:
    """Return the added tokens by their texts, with the seven of the layout and without an ordinary token's id."""
    entries = table.get("added_tokens")
    if isinstance(entries, list) and len(entries) > MAX_ADDED_TOKENS:
        raise _not_ours(f"it has {len(entries)} added tokens, at most {MAX_ADDED_TOKENS} are allowed")
    found: dict[str, OwnToken] = {}
    for entry in cancellable(entries if isinstance(entries, list) else (), 1_024):
        content, token = (entry.get("content"), entry.get("id")) if isinstance(entry, dict) else (None, None)
        if not isinstance(content, str) or not content or not isinstance(token, int) or not _is_id(token):
            raise _not_ours("an added token has no text or no id")
        found[content] = OwnToken(content, token, *(entry.get(switch) is True for switch in _SWITCHES))
    added = {text: token.id for text, token in found.items()}
    missing = [f"<|{name}|>" for name in LAYOUT_TOKENS if f"<|{name}|>" not in added]
    if missing:
        raise _not_ours(f"it lacks {', '.join(missing)}")
    if len(set(added.values())) != len(added):
        raise _not_ours("two added tokens share an id")
    taken = set(vocab.values())
    clash = [text for text, token in added.items() if token in taken and vocab.get(text) != token]
    if clash:
        raise _not_ours(f"the id of {clash[0]} is also that of an ordinary token")
    return found


def _check_splitting(table: dict[str, object]) -> None:
    """Refuse a file whose rules differ from those that `_encoder` builds."""
    splitter = table.get("pre_tokenizer")
    steps = splitter.get("pretokenizers") if isinstance(splitter, dict) else None
    first, second = steps if isinstance(steps, list) and len(steps) == 2 else (None, None)
    if not (
        _has(table.get("normalizer"), type="NFC")
        and _has(first, type="Split", pattern={"Regex": SPLIT_PATTERN}, behavior="Isolated", invert=False)
        and _has(second, type="ByteLevel", add_prefix_space=False, use_regex=False)
    ):
        raise _not_ours("its rules for splitting text are not OmniVoice's")


def _has(value: object, **expected: object) -> bool:
    return isinstance(value, dict) and all(value.get(key) == wanted for key, wanted in expected.items())


def _encoder(vocab: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """Return the library's tokenizer without added tokens; imported here, so that importing this package is fast."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    missing = set(pre_tokenizers.ByteLevel.alphabet()).difference(vocab)
    if missing:
        raise _not_ours(f"its vocabulary lacks {len(missing)} of the 256 bytes, so some text would vanish")
    try:
        encoder = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    except BaseException as error:
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or _is_panic(error)):
            raise
        raise _not_ours(str(error)[:200]) from None
    encoder.normalizer = normalizers.NFC()
    encoder.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return encoder


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"
