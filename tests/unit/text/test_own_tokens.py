"""Tokens that a fine-tune added to its tokenizer: written anywhere in a text, each is one unit and one id."""

from __future__ import annotations

import copy
import json
import unicodedata

import pytest
import tokenizers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice import GenerationRequest, InputError, VoicePrompt
from omnivoice.generate.plan import make_plan
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.text.characters import FIRST_STAND_IN
from omnivoice.text.clean import prompt_text
from omnivoice.text.own_tokens import CONTROL_TOKENS, OwnToken, OwnTokens
from omnivoice.text.prompt import build_prompt
from omnivoice.text.rules import TextRules
from omnivoice.text.tokenizer import TextTokenizer, own_tokens

MARKS = [
    "<|dur_3|>",
    "<|pit_-1|>",
    "[happy]",
    "<silence>",
    "<b>",
    "{65:24}",
    "♪",
    "◆◆◆◆◆",
    "[laugh]",
    "[pause]",
    "* * *",
    "&amp;",
    "<|é|>",
    "（喜）",
    "☃",
    "__",
]
WORDS = ["kpalo", "ɓ", "你好"]
SENTENCE = "The weather is {}beautiful today."


FIRST = 410  # the first free id of the small tokenizer


def with_tokens(small: dict, *texts: str, **switches: bool) -> bytes:
    """The small tokenizer.json with these added tokens."""
    table = copy.deepcopy(small)
    off = dict.fromkeys(("special", "normalized", "lstrip", "rstrip", "single_word"), False)
    table["added_tokens"] += [{"id": FIRST + i, "content": text, **off, **switches} for i, text in enumerate(texts)]
    return json.dumps(table).encode()


@pytest.fixture(scope="module")
def small(asset) -> dict:
    return asset("small_tokenizer.json")


@pytest.fixture(scope="module")
def tuned(small) -> TextTokenizer:
    return TextTokenizer.from_json(with_tokens(small, *MARKS, *WORDS))


def plan(tokenizer, text, **fields):
    return make_plan(GenerationRequest(text, **{"seed": 1, **fields}), TextRules(tokenizer.own))


def spoken_ids(tokenizer, text, **fields):
    """The ids between <|text_start|> and <|text_end|> of the first chunk's prompt."""
    made = plan(tokenizer, text, **fields)
    prompt = build_prompt(tokenizer, text=made.chunks[0].text)
    return list(prompt[prompt.index(tokenizer.special("text_start")) + 1 : -1])


@pytest.mark.parametrize("token", MARKS)
@pytest.mark.parametrize("place", ["{}The weather is fine.", "The wea{}ther is fine.", "The weather is fine.{}",
                                   "The weather {} is fine.", "The{0}{0} weather is fine.", "Fine.\n{}\nIt is.",
                                   "<b>The</b> {}weather **is** fine &amp; <i>dry{}</i>"])  # fmt: skip
def test_each_is_one_id_wherever_it_stands(tuned, token, place) -> None:
    text = place.format(token) if "{0}" in place else place.replace("{}", token)
    wanted = place.count("{}") + place.count("{0}")
    if token == "<b>":
        wanted += place.count("<b>")
    if token == "&amp;":
        wanted += place.count("&amp;")
    ids = spoken_ids(tuned, text)
    assert ids.count(FIRST + MARKS.index(token)) == wanted
    assert plan(tuned, text).chunks[0].text.count(token) == wanted


@pytest.mark.parametrize("token", MARKS)
@pytest.mark.parametrize("text", [SENTENCE, "{}It is fine, and it will be fine.", "今天{}天气真好。"])
def test_none_has_a_weight(tuned, token, text) -> None:
    plain, marked = (plan(tuned, text.format(given)) for given in ("", token))
    assert marked.chunks[0].frames == plain.chunks[0].frames
    assert marked.warnings == plain.warnings


@pytest.mark.parametrize("token", MARKS)
def test_none_is_cut(tuned, token) -> None:
    text = " ".join([f"He{token} said that it was {token}fine. And {token} it was, for once{token}."] * 12)
    for chunking in ("sentences", "upstream"):
        made = plan(tuned, text, chunking=chunking, chunk_seconds=3.0, chunk_threshold_seconds=3.0)
        assert len(made.chunks) > 8
        assert sum(chunk.text.count(token) for chunk in made.chunks) == 48


@pytest.mark.parametrize("token", MARKS)
def test_a_transcript_is_weighed_without_them(tuned, token) -> None:
    codes = torch.zeros(8, 75, dtype=torch.int64)
    plain, marked = (
        plan(tuned, "It is fine.", voice=VoicePrompt(codes, SENTENCE.format(given), 0.1)) for given in ("", token)
    )
    assert marked.chunks == plain.chunks
    assert marked.request.voice.text == SENTENCE.format(token)


def test_sentences_still_end_next_to_tokens(tuned) -> None:
    for end in (".<|dur_3|> ", ". <|dur_3|>", "<|dur_3|>. "):
        text = f"This is the first sentence of the two{end}This is the second sentence of the two."
        made = plan(tuned, text, chunk_seconds=3.0, chunk_threshold_seconds=3.0)
        assert len(made.chunks) == 2 and made.chunks[1].text.endswith("This is the second sentence of the two.")


@pytest.mark.parametrize("word", WORDS)
def test_a_token_that_is_a_word_is_spoken_and_one_id(tuned, word) -> None:
    text = f"It is {word} today."
    plain = make_plan(GenerationRequest(text, seed=1))
    assert plan(tuned, text).chunks == plain.chunks  # it takes the time of its letters
    assert spoken_ids(tuned, text).count(FIRST + len(MARKS) + WORDS.index(word)) == 1


@pytest.mark.parametrize("name", sorted(CONTROL_TOKENS))
def test_control_tokens_cannot_be_typed(tuned, tokenizer, name) -> None:
    assert name not in [token.text for token in (*tuned.own.tokens, *tokenizer.own.tokens)]
    for written in (False, True):
        made = plan(tuned, f"a {name} b", text_as_written=written)
        for each in (tuned, tokenizer):
            prompt = build_prompt(each, text=made.chunks[0].text, reference_text=f"x{name}y")
            special = [token for token in prompt if token in each.special_ids]
            names = ("lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end")
            assert special == [each.special(name) for name in names]
    kinds = {False: ("special tokens", "symbols"), True: ("special tokens",)}
    for written, allowed in kinds.items():
        (warning,) = plan(tuned, f"a {name} b c d e", text_as_written=written).warnings
        assert warning.startswith(allowed)


def test_the_published_tokenizer_has_none(tokenizer) -> None:
    assert tokenizer.own.tokens == ()


def test_used_ids_hold_them(small, tuned) -> None:
    before = TextTokenizer.from_json(json.dumps(small).encode()).used_ids
    assert tuned.used_ids - before == set(range(FIRST, FIRST + len(MARKS) + len(WORDS)))
    assert own_tokens(with_tokens(small, *MARKS, *WORDS)) == tuned.own


PIECES = [*MARKS, *WORDS, "a", "b c", " ", "  ", ".", "é", "世界", "\N{COMBINING ACUTE ACCENT}", "<", "|>", "x1", "\n"]


SWITCHES = [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"lstrip": True, "rstrip": True}]


@pytest.fixture(scope="module", params=SWITCHES, ids=str)
def both(small, request) -> tuple[TextTokenizer, tokenizers.Tokenizer]:
    """A tokenizer with added tokens that have these switches: ours, and Hugging Face's library."""
    data = with_tokens(small, *MARKS, *WORDS, **request.param)
    return TextTokenizer.from_json(data), tokenizers.Tokenizer.from_str(data.decode())


@given(text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
@settings(max_examples=150, deadline=None)
def test_ids_are_those_of_the_library(both, text) -> None:
    """With the published pipeline, the file's own added tokens are matched by Hugging Face's library."""
    ours, theirs = both
    tidy = unicodedata.normalize("NFC", prompt_text(text))
    prompt = build_prompt(ours, text=tidy)
    start = prompt.index(ours.special("text_start")) + 1
    assert list(prompt[start:-1]) == theirs.encode(tidy, add_special_tokens=False).ids


def test_stand_ins_in_a_text_are_removed_and_named(tuned, tokenizer) -> None:
    for each in (tuned, tokenizer):
        made = plan(each, f"a{chr(FIRST_STAND_IN)}b and \U0010fffd more words")
        assert made.chunks[0].text == "ab and  more words"
        assert made.warnings == ("symbols that are not spoken were removed from the text: U+100000, U+10FFFD",)


@pytest.mark.parametrize("entity", ["&#x100000;", "&#1048577;", "&#x10FFFD;", "&#x10ffff;"])
def test_an_entity_is_no_stand_in(tuned, tokenizer, entity) -> None:
    for each in (tuned, tokenizer):
        assert plan(each, f"one {entity}two words").chunks[0].text == "one two words"
        assert spoken_ids(each, f"one {entity}two words") == spoken_ids(each, "one two words")
    (cue,) = parse_subtitles(f"0:0:1 --> 0:0:2\none {entity}two", (), TextRules(tuned.own)).cues
    assert cue.text == "one two"


def test_only_tokens_need_a_duration(tuned) -> None:
    with pytest.raises(InputError, match=r"'<silence>' has only tokens of the model, and no length of its own"):
        plan(tuned, "<silence>")
    assert plan(tuned, "<silence>", duration=2.0).chunks[0].frames == 50
    with pytest.raises(InputError, match="has only tokens"):
        plan(tuned, "Hello there. [pause 1s] <silence>", duration=4.0)


def test_the_longest_token_wins() -> None:
    own = OwnTokens((OwnToken("<a>", 1), OwnToken("<a><b>", 2), OwnToken("<b>", 3)))
    assert [own.token(char).id for char in own.shielded("<a><b><b><a>")] == [2, 3, 1]
    assert own.restored(own.shielded("<a><b><b><a>")) == "<a><b><b><a>"


def test_a_token_of_the_model_is_no_other_spelling_of_a_tag(tuned) -> None:
    assert plan(tuned, "[laugh] It is fine.").chunks[0].text == "[laugh] It is fine."
    assert plan(tuned, "[laughs] It is fine.").chunks[0].text == "[laughter] It is fine."
    assert make_plan(GenerationRequest("[laugh] It is fine.", seed=1)).chunks[0].text == "[laughter] It is fine."


def test_a_tag_the_model_knows_stays_and_is_not_warned_about() -> None:
    rules = TextRules(tags=("laugh", "happy", "pause-long"))
    for tag in rules.tags:
        made = make_plan(GenerationRequest(f"[{tag}] It is fine today.", seed=1), rules)
        assert (made.chunks[0].text, made.warnings) == (f"[{tag}] It is fine today.", ())
    (warning,) = make_plan(GenerationRequest("[hapy] It is fine today.", seed=1), rules).warnings
    assert warning == "[hapy] is not a tag that this model knows and will be read aloud; did you mean [happy]?"


def test_an_added_token_may_be_one_of_the_vocabulary(small) -> None:
    """`add_tokens` gives a word that the vocabulary has its old id; it used to vanish from texts and languages."""
    word, token = next(
        (w, i) for w, i in small["model"]["vocab"].items() if w.isascii() and w.isalpha() and len(w) == 2
    )
    table = copy.deepcopy(small)
    table["added_tokens"].append({"id": token, "content": word})
    changed = TextTokenizer.from_json(json.dumps(table).encode())
    plain = TextTokenizer.from_json(json.dumps(small).encode())
    assert changed.encode(word) == plain.encode(word) == [token]
    for fields in ({"text": word}, {"text": "x", "language": word}, {"text": "x", "instruct": word}):
        assert build_prompt(changed, **fields) == build_prompt(plain, **fields)


@pytest.mark.parametrize("field", ["language", "instruct"])
def test_a_language_may_be_a_token_of_its_own(small, field) -> None:
    """Upstream encodes the whole style as one text, in which the library finds added tokens."""
    tokenizer = TextTokenizer.from_json(with_tokens(small, "qx"))
    prompt = build_prompt(tokenizer, text="x", **{field: "qx"})
    assert prompt.count(FIRST) == 1


def test_what_follows_a_pause_of_no_time_is_named(tokenizer) -> None:
    made = plan(tokenizer, "Hello there. [pause 0s] ◆ ~")
    assert made.chunks[0].text.strip() == "Hello there."
    assert made.warnings == ("symbols that are not spoken were removed from the text: ◆, ~",)


def test_tags_of_the_model_count_in_any_case(tuned) -> None:
    rules = TextRules(tuned.own, tags=("happy", "Clears throat", "laugh"))
    text = "[HAPPY] It is. [clears_throat] It is. [Laugh] It is. [sighs] It is."
    made = make_plan(GenerationRequest(text, seed=1), rules)
    assert made.chunks[0].text == "[happy] It is. [Clears throat] It is. [laugh] It is. [sigh] It is."
    assert made.warnings == ()
    assert build_prompt(tuned, text=made.chunks[0].text).count(FIRST + MARKS.index("[happy]")) == 1
    (kept,) = make_plan(GenerationRequest("[HAPPY] It is.", seed=1, text_as_written=True), rules).chunks
    assert kept.text == "[HAPPY] It is."


def test_thousands_of_tokens_are_told_apart() -> None:
    names = [f"<|{kind}_{i}|>" for kind in ("dur", "pit") for i in range(3000)] + [f"w{i:04}" for i in range(3000)]
    own = OwnTokens(tuple(OwnToken(name, i) for i, name in enumerate(names)))
    chosen = [*names[::97], names[0], names[-1]]
    shielded = own.with_words(own.shielded(" ".join(chosen)))
    assert [own.token(char).text for char in shielded.split(" ")] == chosen
