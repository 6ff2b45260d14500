"""Encodings of text files: each is found from the bytes alone, or the file is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.errors import FileError
from omnivoice.intake.encodings import decode_text, read_text_file

OLD = {
    "gb18030": "你好，今天天气很好。我们去看电影吧！他说了什么？我不知道。",
    "big5": "你好，今天天氣很好。我們去看電影吧！他說了什麼？我不知道。",
    "shift_jis": "こんにちは。今日は天気がいいですね。映画を見に行きましょう！",
    "euc_kr": "안녕하세요. 오늘 날씨가 정말 좋네요. 우리 영화 보러 가요! 뭐라고 했어?",
    "cp1251": "Привет, как дела? Сегодня хорошая погода. Что он сказал?",
}
WESTERN = (
    "C’est déjà l’été à Orléans… Où est le garçon ? Ça va très bien.",
    "Größe, Übermut und Ähre. Straße für Müßiggänger – schön",
    "¿Qué pasó, señor? ¡Mañana está aquí!",
    "Não são ações, irmão. Coração à avó",
    "Åh, älskling, på ön",
    "þú ert að fara á æfingu",
    "été, âgé, créé",
    "é",
)
SRT = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{}\r\n\r\n"


@pytest.mark.parametrize("encoding, text", [*OLD.items(), *(("cp1252", text) for text in WESTERN)])
def test_an_old_encoding_is_found(encoding: str, text: str) -> None:
    for piece in (text, text[:4], text[:8]):
        srt = SRT.format(piece)
        assert decode_text(srt.encode(encoding), "x") == (srt, "utf-8" if srt.isascii() else encoding)


@pytest.mark.parametrize("text", [*OLD.values(), *WESTERN, "plain"])
@pytest.mark.parametrize(
    "encoding, name",
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
    ],
)
def test_unicode_is_found_with_and_without_a_mark(encoding: str, name: str, text: str) -> None:
    srt = SRT.format(text)
    assert decode_text(srt.encode(encoding), "x") == (srt, name)


def test_a_named_encoding_is_used() -> None:
    data = "Zażółć gęślą jaźń".encode("cp1250")
    assert decode_text(data, "x", "cp1250") == ("Zażółć gęślą jaźń", "cp1250")
    assert decode_text(data, "x")[1] == "cp1252"  # a guess, which is why the caller names it


@pytest.mark.parametrize("data, encoding", [(b"\xff\xfea", None), (b"a\x81\x20\x8d", None), (b"\xe9", "utf-8")])
def test_what_is_no_text_is_refused(data: bytes, encoding: str | None) -> None:
    with pytest.raises(FileError, match=r"^a\.srt is not text in .*: name its encoding, or save it as UTF-8$"):
        decode_text(data, "a.srt", encoding)


@pytest.mark.parametrize("encoding", ["klingon", "base64", "rot13", "", "a\0b"])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(FileError, match=r"^the encoding .* is not known: use a name such as utf-8 or cp1252$"):
        decode_text(b"a", "a.srt", encoding)


def test_a_file_is_read_up_to_the_limit(tmp_path) -> None:
    path = tmp_path / "a.srt"
    path.write_bytes("Straße".encode("cp1252"))
    assert read_text_file(path, limit=6) == ("Straße", "cp1252")
    with pytest.raises(FileError, match="at most 5 bytes, got 6"):
        read_text_file(path, limit=5)


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text, _ = decode_text(data, "x")
    except FileError:
        return
    assert isinstance(text, str)
