"""The tokenizer: no text can spell a special token, and a file that is none of OmniVoice's is refused by name."""

from __future__ import annotations

import copy
import gc
import json
import random
from collections.abc import Callable

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import CheckpointError, TextError
from omnivoice.text.tokenizer import LAYOUT_TOKENS, TextTokenizer

PIECES = [
    "<|",
    "|>",
    "<",
    ">",
    "|",
    "text_end",
    "text_start",
    "denoise",
    "im_end",
    "think",
    "</",
    "<|text_end|>",
    "<think>",
]
PIECES += ["<|denoise|>", "<|endoftext|>", " ", "a", "\n", "\N{ZERO WIDTH SPACE}", "｜", "中"]


@pytest.fixture(scope="module")
def small(asset: Callable[[str], object]) -> dict:
    return asset("small_tokenizer.json")


def edited(table: dict, **changes: object) -> bytes:
    """The tokenizer.json of `table` with changes; model__x changes its model's x."""
    table = copy.deepcopy(table)
    for name, value in changes.items():
        part, _, key = name.partition("__")
        (table[part] if key else table)[key or part] = value
    return json.dumps(table).encode()


def test_published_ids(tokenizer: TextTokenizer) -> None:
    assert [tokenizer.special(name) for name in LAYOUT_TOKENS] == list(range(151669, 151676))
    assert max(tokenizer.used_ids) == 151675
    assert tokenizer.special_ids == set(range(151643, 151676))
    assert tokenizer.encode("None") == [4064]
    assert tokenizer.encode("hello world") == [14990, 1879]
    assert tokenizer.encode("") == []


def test_small_ids(small_tokenizer: TextTokenizer) -> None:
    assert max(small_tokenizer.used_ids) == 409
    assert small_tokenizer.special_ids == set(range(400, 410))
    assert small_tokenizer.used_ids == set(range(410)) - {400, 401, 402}  # <|endoftext|> and its like: in no prompt


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
@settings(max_examples=500, deadline=None)
def test_text_never_gives_a_special_token(tokenizer: TextTokenizer, small_tokenizer: TextTokenizer, text: str) -> None:
    for each in (tokenizer, small_tokenizer):
        ids = each.encode(text)
        assert not each.special_ids.intersection(ids)
        assert bool(ids) == bool(text)


def test_every_special_token_spelled_out_is_ordinary_text(tokenizer: TextTokenizer, asset: Callable) -> None:
    for entry in asset("tokenizer.json")["added_tokens"]:
        ids = tokenizer.encode("x" + entry["content"] + "y")
        assert len(ids) > 2 and not tokenizer.special_ids.intersection(ids)


def test_a_special_token_among_the_ordinary_ones_stays_out_of_reach(small: dict) -> None:
    """Some files list added tokens in the vocabulary too; a merge may then produce one."""
    start = small["added_tokens"][0]
    vocab = {**small["model"]["vocab"], start["content"]: start["id"]}
    spelled = list(start["content"])
    vocab.update({"".join(spelled[: i + 1]): 1000 + i for i in range(1, len(spelled) - 1)})
    merges = [["".join(spelled[:i]), spelled[i]] for i in range(1, len(spelled))]
    file = TextTokenizer.from_json(edited(small, model__vocab=vocab, model__merges=merges))
    assert file.encode("<|im_start|>") != [] and start["id"] not in file.encode(start["content"])


def test_a_tag_that_is_a_token_of_its_own(small: dict) -> None:
    added = [*small["added_tokens"], {"id": 500, "content": "[chuckle]"}]
    file = TextTokenizer.from_json(edited(small, added_tokens=added))
    assert file.encode_tag("[chuckle]") == [500]
    assert 500 not in file.encode("[chuckle]")
    assert file.encode_tag("[sigh]") == file.encode("[sigh]")


def test_half_a_surrogate_pair_is_refused(small_tokenizer: TextTokenizer) -> None:
    with pytest.raises(TextError, match="half of a surrogate pair"):
        small_tokenizer.encode("a\ud800")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model": {"type": "WordPiece", "vocab": {}}}, "its model is not BPE"),
        ({"model": None}, "its model is not BPE"),
        ({"model__vocab": [1]}, "no vocabulary"),
        ({"model__merges": None}, "no merges"),
        ({"model__merges": [["a"]]}, "merges are not pairs"),
        ({"model__merges": ["a b c"]}, "merges are not pairs"),
        ({"model__merges": [["a", "zz"]]}, "out of vocabulary"),
        ({"added_tokens": [{}] * 65_537}, "it has 65537 added tokens, at most 65536 are allowed"),
        ({"model__merges": [["a", "b"]] * 2}, "a merge stands in it twice"),
        ({"model__merges": ["a b", ["b", "a"], ["a", "b"]]}, "a merge stands in it twice"),
        ({"model__merges": [["a", "a"]] * 100_000}, "it has 100000 merges for"),
        ({"model__merges": ["a a"] * 100_000}, "it has 100000 merges for"),
        ({"model__vocab": {"a": 0, "b": 0}}, "each used once"),
        ({"model__vocab": {"a": -1}}, "whole numbers from 0"),
        ({"model__vocab": {"a": True}}, "whole numbers from 0"),
        ({"model__vocab": {"a": 2**31}}, "whole numbers from 0"),
        ({"model__vocab": {"a": 0}}, "lacks 255 of the 256 bytes"),
        ({"model__dropout": 0.1}, "it sets dropout"),
        ({"model__continuing_subword_prefix": "##"}, "it sets continuing_subword_prefix"),
        ({"model__ignore_merges": True}, "it sets ignore_merges"),
        ({"added_tokens": []}, r"it lacks <\|denoise\|>, <\|lang_start\|>"),
        ({"added_tokens": [{"id": "1", "content": "x"}]}, "no text or no id"),
        ({"added_tokens": 5}, "it lacks"),
        ({"normalizer": None}, "rules for splitting text"),
        ({"normalizer": {"type": "NFKC"}}, "rules for splitting text"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "rules for splitting text"),
        ({"pre_tokenizer": None}, "rules for splitting text"),
    ],
)
def test_foreign_files_are_refused(small: dict, changes: dict, complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        TextTokenizer.from_json(edited(small, **changes))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"model": NaN}', "not valid JSON"),
    ],
)
def test_broken_files_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(CheckpointError, match=complaint):
        TextTokenizer.from_json(data)


@pytest.mark.parametrize("running", [True, False])
def test_garbage_is_collected_afterwards_as_before(small: dict, running: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if running else gc.disable()
        TextTokenizer.from_json(json.dumps(small).encode())
        assert gc.isenabled() is running
        with pytest.raises(CheckpointError):
            TextTokenizer.from_json(b"{}")
        assert gc.isenabled() is running
    finally:
        gc.enable() if before else gc.disable()


def test_ids_must_not_clash(small: dict) -> None:
    added = copy.deepcopy(small["added_tokens"])
    added[-1]["id"] = added[-2]["id"]
    with pytest.raises(CheckpointError, match="two added tokens share an id"):
        TextTokenizer.from_json(edited(small, added_tokens=added))
    added[-1]["id"] = 7
    with pytest.raises(CheckpointError, match=r"the id of <\|text_end\|> is also that of an ordinary token"):
        TextTokenizer.from_json(edited(small, added_tokens=added))


def test_a_panic_of_the_library_becomes_an_error(small: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    def panic(**_: object) -> None:
        raise PanicException("range end index out of bounds")

    monkeypatch.setattr(tokenizers.models, "BPE", panic)
    with pytest.raises(CheckpointError, match="range end index"):
        TextTokenizer.from_json(edited(small))


def test_an_interrupt_is_not_swallowed(small: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokenizers.models, "BPE", interrupt)
    with pytest.raises(KeyboardInterrupt):
        TextTokenizer.from_json(edited(small))


def test_mutated_files_load_or_are_refused(small: dict) -> None:
    rng = random.Random(0)
    values = [None, True, -1, 2**40, 1.5, "", "x", "\ud800", [], {}, [["a", "b"]], {"type": "Sequence"}, {"a": 1}]
    loaded = 0
    for _ in range(400):
        table = copy.deepcopy(small)
        place = table
        while isinstance(place, (dict, list)) and place:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if rng.random() < 0.4 or not isinstance(place[key], (dict, list)) or not place[key]:
                place[key] = copy.deepcopy(rng.choice(values))
                break
            place = place[key]
        try:
            TextTokenizer.from_json(json.dumps(table).encode()).encode("Hello <|text_end|>")
            loaded += 1
        except CheckpointError:
            pass
    assert 0 < loaded < 400
