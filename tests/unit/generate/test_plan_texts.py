"""Texts as they are typed and pasted: what the plan makes of them, and what it warns of."""

from __future__ import annotations

import unicodedata

import pytest
import torch

from omnivoice import GenerationRequest, VoicePrompt
from omnivoice.generate.plan import make_plan
from omnivoice.text.vocabulary import vocabulary_warnings

SENTENCES = [
    "안녕하세요, 오늘은 날씨가 정말 좋습니다. 우리 같이 산책할까요? 네, 좋아요.",
    "Où est la forêt enchantée? Là-bas, à côté de l'étang gelé.",
    "Tiếng Việt có rất nhiều dấu. Hôm nay trời đẹp quá!",
    "ガラスのコップでジュースを飲みました。それから、バスで帰りました。",
    "हिन्दी में क़लम और ज़मीन। यह भी ठीक है।",
]


def plan(text, **fields):
    return make_plan(GenerationRequest(text=text, **{"seed": 1, **fields}))


def chunks(text, **fields):
    return [(chunk.text, round(chunk.pause_samples / 24_000, 3)) for chunk in plan(text, **fields).chunks]


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("seconds", [3.0, 30.0])
def test_decomposed_text_is_planned_as_composed_text(text, seconds):
    """In NFD, a Korean syllable is two or three letters, each of which used to be weighed."""
    given = {"chunk_seconds": seconds, "chunk_threshold_seconds": seconds}
    composed, decomposed = (plan(unicodedata.normalize(form, " ".join([text] * 3)), **given) for form in ("NFC", "NFD"))
    assert decomposed.chunks == composed.chunks
    assert (len(composed.chunks) > 1) is (seconds < 5)


def test_a_decomposed_transcript_has_the_rate_of_the_composed_one():
    codes = torch.zeros(8, 75, dtype=torch.long)
    voices = [VoicePrompt(codes, unicodedata.normalize(form, SENTENCES[0]), 0.1) for form in ("NFC", "NFD")]
    composed, decomposed = (plan("Hello there, my friend.", voice=voice).chunks for voice in voices)
    assert composed == decomposed


def test_decomposed_words_are_known_by_a_small_vocabulary():
    assert vocabulary_warnings(unicodedata.normalize("NFD", "Café 안녕"), ["café", "안녕"]) == ()
    assert vocabulary_warnings("Café", [unicodedata.normalize("NFD", "café")]) == ()


@pytest.mark.parametrize(
    "marks", ["* * *", "***", "*", "———", "—", "◆", "◇ ◇ ◇", "~~~", "•••", "---", "- - -", "⁂", "#", "###", "=====",
              "…", ". . .", "___", "\u3000＊　＊　＊", "☆", "❦", "♦ ♦", "🌸🌸", "⸻", "\\* \\* \\*", "~*~", "<><>",
              "• • •\n\n***", "<hr>", "&bull;&nbsp;&bull;"]
)  # fmt: skip
@pytest.mark.parametrize("around", ["\n{}\n", "\n\n  {} \n\n", "\r\n{}\r\n"])
def test_a_scene_break_is_a_pause(marks, around):
    text = "He left the house." + around.format(marks) + "It was late."
    assert chunks(text) == [("He left the house.", 0), ("It was late.", 0.5)]
    assert plan(text).warnings == plan("He left the house. [pause] It was late.").warnings


@pytest.mark.parametrize("marks", ["* * *", "———", "◆", "~~~", "•••"])
def test_a_scene_break_at_the_start_or_end_is_none(marks):
    for text in (f"{marks}\nHe left.", f"He left.\n{marks}\n", f"{marks}\n\nHe left.\n\n{marks}"):
        made = plan(text)
        assert [(chunk.text, chunk.pause_samples) for chunk in made.chunks] == [("He left.", 0)]
        assert made.tail_samples == 0
    assert chunks(f"{marks}\nOne and two.\n{marks}\nThree.\n[pause 1s]\n{marks}") == [
        ("One and two.", 0),
        ("Three.", 0.5),
    ]


@pytest.mark.parametrize(
    "line", ["* an item", "- He said", "# Title", "(***)", "|---|---|", "?!", "*** three ***", "1.", "[laughter]"]
)
def test_other_lines_are_no_scene_breaks(line):
    assert len(chunks(f"He left the house.\n{line}\nIt was late.")) == 1


def test_a_piece_without_words_between_pauses_is_named():
    text = "Hi my friend. [pause 1s] ... [pause 1s] Bye. [pause] !"
    assert chunks(text) == [("Hi my friend.", 0), ("Bye.", 2)]
    assert plan(text).tail_samples == 12_000
    assert plan(text).warnings == ("symbols that are not spoken were removed from the text: ., !",)


def test_scene_breaks_and_pauses_add_up():
    assert chunks("One or two.\n***\n[pause 1s]\nThree.") == [("One or two.", 0), ("Three.", 1.5)]


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        ("The weather is <|pit_3|>beautiful today.", "special tokens", ["<|pit_3|>"]),
        ("One <|dur_1|><|dur_2|> and <|dur_1|> two.", "special tokens", ["<|dur_1|>, <|dur_2|>"]),
        ("<b>Hi</b> my <i class='x'>friend</i>.", "markup", ["<b>, <i>"]),
        ("<speak>Hi <prosody rate='slow'>my</prosody> friend.</speak>", "markup", ["<speak>", "<prosody>"]),
        ("One<br>two<p>three", "markup", ["<br>, <p>"]),
        ("a < b and {c} | d", "symbols", ["<", "{", "}", "|"]),
        ("Hi there.\n(!)\nYou.", "symbols", ["(, !, )"]),
        ("A line ______ to fill in.", "symbols", ["_"]),
        ("Stop it!!!!!!!!!", "runs", ["!"]),
        ("So 😀😃😄😁 funny.", "runs", ["😁"]),
        ("so" + "\u0301" * 40 + " many marks", "marks", ["\u0301"]),
    ],
)
def test_what_is_removed_is_named_once(text, kind, names):
    (told,) = plan(text).warnings
    assert kind in told and all(name in told for name in names)


def test_at_most_ten_removed_things_are_named():
    (told,) = plan("Hello my friend. " + " ".join(f"<|x{i}|>" for i in range(50))).warnings
    assert "<|x9|> and 40 more" in told and "<|x10|>" not in told


@pytest.mark.parametrize(
    "text",
    [
        "  Two words. ",
        "Two\n\n\nlines\tand\u00a0blanks",
        "Tom &amp; Jerry\u200b",
        "Wait... what?! (Yes.)",
        "\ufeffOne two",
    ],
)
def test_white_space_and_invisible_characters_are_not_named(text):
    assert plan(text).warnings == ()


@pytest.mark.parametrize("text", ["Hi", "Hello.", "[laughter]", "[laughter] Yes!", "你好", "สวัสดี", "नमस्ते", "7",
                                  "Don't!", "Three. [pause 1s] Two words. [pause 1s] One."])  # fmt: skip
def test_one_word_without_a_voice_is_warned_about(text):
    (told,) = plan(text).warnings
    assert told == "one word without a voice is often spoken badly: write a longer text, or use a voice"
    voice = VoicePrompt(torch.zeros(8, 75, dtype=torch.long), "Hello there.", 0.1)
    assert plan(text, voice=voice).warnings == ()


@pytest.mark.parametrize(
    "text", ["Hi there", "It's me.", "今天天气很好", "ขอบคุณมากครับเพื่อน", "नमस्ते दुनिया", "So, hi. [pause] Ho"]
)
def test_two_words_are_enough(text):
    assert plan(text).warnings == ()
