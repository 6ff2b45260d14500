"""Random texts for the campaigns: words of many scripts, numbers, marks, controls, tags, tokens, and any code point."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

_WORDS = (
    "Hello there my friend don’t naïve Straße infor- mation e-mail Dr. J.R.R. I ﬁne İı ǆ ªº Ⅳ ㈱ 𝐇𝐞𝐥𝐥𝐨 𐐀 𠀀 한 "
    "你好 世界 第三 こんにちは カタカナ 안녕하세요 สวัสดีครับ ສະບາຍດີ မင်္ဂလာပါ ភាសាខ្មែរ བོད་སྐད Привет мир Γειά σου "
    "مرحبا می\u200cخواهم שלום שָׁלוֹם नमस्ते ක්\u200dය ሰላም፡ გამარჯობა e\u0301 q\u0307\u0323"
)
_NUMBERS = (
    "42 1,000,000 3.14 -7 1e999 10:30 3/4/2021 99/99/9999 ½ ² 12% ٣ $5.20 v1.2.3 192.168.0.1 +49301234567 a@b.co "
    "https://x.org/a?b=c 1st No.5 5km/h 4444444444444444444444444444444444444444"
)
_TAGS = (
    "[laughter]|[LAUGHTER]|[sigh]|[laugh]|[question_en]|[nonsense]|[]|[[|[B EY1 S]|[ni3 hao3]|[pause]|[pause 1s]|"
    "[pause 300ms]|[pause 31s]|[pause soon]|[pause -1s]|[pause 0]|[pause|<break time='500ms'/>|<break/>|<break|"
    "<break time='1e9s'/>|\n* * *\n|\n———\n|<p>|</p>|<b>|</b>|<hr>|<script>|</script>|<!--|-->|<![CDATA[|]]>|<speak>|"
    "<x y='z'>|&amp;|&lt;|&#0;|&#55296;|&#x10fffd;|&#1048577;|&#x202e;|&#9999999;|&nbsp;|&shy;|&zwnj;|<think>|"
    "</tool_call>|{voice speed=1.1}|{voice|Alice:|Bob： |[Alice]:|[Happy]"
)
WORDS, NUMBERS, TAGS = tuple(_WORDS.split(" ")), tuple(_NUMBERS.split(" ")), tuple(_TAGS.split("|"))
MARKS = (
    *("\n", "\n\n", "\t", *" " * 9, "👨\u200d👩", "👍🏽"),
    *".,!?…。、؟।;:—-'\"()[]{}<>|&#*_~`^\\/=+%@“”„«»（）《》😀─█\ufe0f\ufffc\ufffd",
)
CONTROLS = (
    *"\0\x07\x08\x0b\x0c\x1c\x7f\x85\r\xa0\u061c\u200b\u200c\u200d\u200e\u2028\u202e\u2060\u2066\u2069\u180e",
    *"\ufeff\ufff9\ud800\udfff\ud83d\u034f\u3164\u2800\ue000\uffff\ufdd0\u1160\U000e0041\U000e007f\U00100000\U0010fffd",
    *("\x1b[31m", "\r\n", "\xad\n", "\u0301" * 30, "\u0640" * 30, "\u115f\u1161\u11a8", "\u0f71\u0f72"),
)
TOKENS = (
    *("<|text_end|>", "<|text_start|>", "<|denoise|>", "<|im_end|>", "<|endoftext|>", "<|", "|>"),
    *("&lt;|text_end|&gt;", "&#60;|lang_start|&#62;"),
)
OWN_TOKENS = ("<|dur_3|>", "[happy]", "<silence>", "«é»")  # of a fine-tuned model
PIECES = (*WORDS, *WORDS, *NUMBERS, *MARKS, *MARKS, *CONTROLS, *TAGS, *TOKENS, *OWN_TOKENS)
PLAIN = tuple(piece for piece in (*WORDS, *NUMBERS, *MARKS, *CONTROLS) if not set(piece) & set("[]<>&"))


def any_text(rng: random.Random, most: int = 8) -> str:
    """Return up to `most` pieces of all kinds, or code points from the whole of Unicode, or both."""
    kind, count = rng.random(), 1 + int(rng.random() * most)
    if kind < 0.7:
        return "".join(rng.choices(PIECES, k=count))
    points = "".join(code_point(rng) for _ in range(count))
    return points if kind < 0.85 else points + "".join(rng.choices(PIECES, k=count))


def plain_pieces(rng: random.Random, tokens: Sequence[str], most: int = 8) -> list[str]:
    """Return the pieces of a text without brackets, markup and entities, so that all letters and numbers are spoken.

    tokens: what the model has tokens for; in some texts, they stand between the other pieces.
    """
    kind, count = rng.random(), 1 + int(rng.random() * most)
    pieces = rng.choices(PLAIN, k=count)
    if kind < 0.5:
        return pieces
    if kind < 0.7 or not tokens:
        return [*pieces, *(point for _ in range(count) if (point := code_point(rng)) not in "[]<>&")]
    return [part for piece in pieces for part in (piece, " ", rng.choice(tokens), " ")]


def code_point(rng: random.Random) -> str:
    """Return any code point, those of the planes in use more often than others."""
    planes = rng.random()
    last = 0x2FFF if planes < 0.4 else 0xFFFF if planes < 0.7 else 0x323AF if planes < 0.9 else sys.maxunicode
    return chr(int(rng.random() * (last + 1)))
