"""Markup goes and its text stays, entities decode, and comparisons and placeholders are not taken for tags."""

from __future__ import annotations

import time

import pytest

from omnivoice.text.clean import plain_text, speakable
from omnivoice.text.removed import Removed


def heard(text: str) -> str:
    """`text` as it is spoken, with single spaces."""
    return " ".join(speakable(plain_text(text)).split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>Hi</b> there", "Hi there"),
        ("<i>Hi</i>, there<u>!</u>", "Hi, there!"),
        ("un<em>believ</em>able", "unbelievable"),
        ("H<sub>2</sub>O and x<sup>2</sup>", "H2O and x2"),
        ("One<br>two<br/>three<BR />four", "One two three four"),
        ("<p>One.</p><p class=first>Two.</p>", "One. Two."),
        ('See <a href="https://example.com/?a=1&amp;b=2" target=_blank>this page</a>.', "See this page."),
        ("See <a href=https://example.com/x>this</a>.", "See this."),
        ('<span style="color: red" title="a > b">Red</span> and blue', "Red and blue"),
        ('Look: <img src="x.png" alt="a cat"> nice', "Look: nice"),
        ("<ul><li>One</li><li>Two</li></ul>", "One Two"),
        ("<table><tr><td>One</td><td>Two</td></tr></table>", "One Two"),
        ("<h1>Title</h1>Text", "Title Text"),
        ("<!DOCTYPE html><html><head><title>Hi</title></head><body>there</body></html>", "Hi there"),
        ("One<!-- a note, <b>bold</b> -->two <!-- -->three", "Onetwo three"),
        ("Hi<script>if (a < b) { alert('x') }</script> there<style>p { color: red }</style>", "Hi there"),
        ("<video controls>film</video> <input type=checkbox checked> yes", "film yes"),
        ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字", "漢字"),
        ("<![CDATA[Hi]]> there", "Hi there"),
        ('<?xml version="1.0"?><speak version="1.1">Hi <prosody rate="slow">there</prosody></speak>', "Hi there"),
        ('<voice name="x">Hi</voice> <mstts:express-as style="sad">there</mstts:express-as>', "Hi there"),
        ("Hi\n<b\nclass='x'\n>there</b>", "Hi there"),
    ],
)
def test_markup_goes(text: str, expected: str) -> None:
    assert heard(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom &amp; Jerry&#39;s", "Tom & Jerry's"),
        ("one&nbsp;two&hellip; &quot;three&quot;", 'one two… "three"'),
        ("caf&eacute; &#x201C;x&#x201d; &euro;5 cafe&#769;", "café “x” €5 café"),
        ("a &lt;b&gt; c", "a b c"),  # what is escaped is no tag
        ("a&#8203;b&shy;c&#0;d&zwnj;!", "abcd!"),
        ("&amp;amp;", "&amp;"),
    ],
)
def test_entities_decode_once(text: str, expected: str) -> None:
    assert " ".join(plain_text(text).replace("<", " ").replace(">", " ").replace("\ufffd", "").split()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "a <b and c> d",
        "a<b, b>c",
        "if x <y or z> w, i <3 you",
        "git push <remote> <branch>",
        "copy <source> to <target>, then <title>",
        "set <your name> here, <x = 5>",
        "5 <6> 7, <- left, right ->, <>",
        "mail <ann@example.com> or <https://example.com>",
        "an open <b tag",
        "one <!-- without an end",
        "R&D at AT&T; Q&A; rock & roll; ?a=1&copy=2; 5 &1; &nosuchname;",
        "x <b or c=5> y",
    ],
)
def test_what_is_no_markup_stays(text: str) -> None:
    assert plain_text(text) == text


def test_comparisons_lose_their_signs_only() -> None:
    assert heard("a < b and c > d") == "a b and c d"
    assert heard("a <b and c> d") == "a b and c d"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("<b>Hi</b> <a href=x>there</a>", "markup was removed from the text: <b>, <a>"),
        ("Hi <!-- you --> there", "markup was removed from the text: <!--"),
    ],
)
def test_removed_markup_is_noted(text: str, named: str) -> None:
    removed = Removed()
    plain_text(text, removed)
    assert removed.warnings() == (named,)
    quiet = Removed()
    plain_text("a < b &amp; c > d\n\u00a0e", quiet)
    assert quiet.warnings() == ()


@pytest.mark.parametrize(
    "unit",
    ["<", "<!--", "<![CDATA[", "<a ", '<a b="', "<a b=c ", "<script>", "&", "&amp", "<a" + " " * 50, "a-\n", "***\n"],
)
def test_time_is_linear(unit: str) -> None:
    start = time.process_time()
    plain_text(unit * (200_000 // len(unit)))
    assert time.process_time() - start < 5
