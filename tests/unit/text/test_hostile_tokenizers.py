"""Tokenizer files made by hand against the library: each is refused, or gives the ids of the original.

With the library alone, seven of these panic or take exponential time when they are loaded or used
(huggingface/tokenizers issue 2094 and others). The reader takes the vocabulary and the merges only.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

from omnivoice.errors import CheckpointError
from omnivoice.text.tokenizer import TextTokenizer

TEXTS = ("Hello, world! 12", "a" * 300 + "!", " \n\t ", "\u4f60\u597d \U0001f600 e\u0301", "<|text_end|>")
TRUNCATION = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
PADDING = {"strategy": {"Fixed": 0}, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0}
NESTED = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}


def model(**changes: object) -> Callable[[dict], None]:
    return lambda table: table["model"].update(changes)


# name -> (change, whether it is refused)
CASES: dict[str, tuple[Callable[[dict], object], bool]] = {
    "merge overruns the vocabulary": (lambda t: t["model"]["merges"].append(["zzz", "yyy"]), True),
    "merge of nothing": (lambda t: t["model"]["merges"].append(["", ""]), True),
    "merge without its result": (lambda t: t["model"]["merges"].append(["!", "~"]), True),
    "merge before its parts": (lambda t: t["model"]["merges"].reverse(), False),
    "prefix longer than a token": (model(continuing_subword_prefix="#" * 99), True),
    "suffix": (model(end_of_word_suffix="</w>"), True),
    "dropout beyond 1": (model(dropout=2.0), True),
    "unknown token that is not there": (model(unk_token="missing", fuse_unk=True), True),
    "ids with a gap of 2^31": (lambda t: t["model"]["vocab"].update(far=2**31 - 1), False),
    "id of 2^64": (lambda t: t["model"]["vocab"].update(far=2**64), True),
    "no vocabulary": (model(vocab={}, merges=[]), True),
    "WordPiece": (lambda t: t.update(model={"type": "WordPiece", "vocab": {}, "max_input_chars_per_word": 0}), True),
    "Unigram without a piece": (lambda t: t.update(model={"type": "Unigram", "vocab": [], "unk_id": 7}), True),
    "template without its token": (
        lambda t: t.update(
            post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}]}
            | {"pair": [], "special_tokens": {}}
        ),
        False,
    ),
    "truncation with a stride of its length": (lambda t: t.update(truncation=TRUNCATION | {"stride": 4}), False),
    "truncation to nothing": (lambda t: t.update(truncation=TRUNCATION | {"max_length": 0}), False),
    "padding to a multiple of 0": (lambda t: t.update(padding=PADDING), False),
    "pieces of length 0": (lambda t: t.update(pre_tokenizer={"type": "FixedLength", "length": 0}), True),
    "Precompiled normalizer": (
        lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        True,
    ),
    "exponential regex in the splitter": (lambda t: t["pre_tokenizer"]["pretokenizers"].insert(0, NESTED), True),
    "exponential regex instead of the splitter": (
        lambda t: t["pre_tokenizer"]["pretokenizers"].__setitem__(0, NESTED),
        True,
    ),
    "exponential regex in the normalizer": (
        lambda t: t.update(normalizer={"type": "Replace", "pattern": {"Regex": "(a|a)*b"}, "content": ""}),
        True,
    ),
    "decoder of another kind": (lambda t: t.update(decoder={"type": "CTC", "pad_token": ""}), False),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_or_changes_nothing(asset: Callable[[str], object], name: str) -> None:
    original = asset("small_tokenizer.json")
    table = copy.deepcopy(original)
    change, refused = CASES[name]
    change(table)
    data = json.dumps(table).encode()
    assert table != original
    if refused:
        with pytest.raises(CheckpointError, match=r"^tokenizer\.json is not an OmniVoice tokenizer: "):
            TextTokenizer.from_json(data)
        return
    usual, found = TextTokenizer.from_json(json.dumps(original).encode()), TextTokenizer.from_json(data)
    for text in TEXTS:
        ids = found.encode(text)
        assert not found.special_ids.intersection(ids)
        assert ids == usual.encode(text) or name == "merge before its parts"
