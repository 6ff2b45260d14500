"""English addresses on the web: e-mail, URLs, domains, file names, hashtags and handles."""

from __future__ import annotations

import re

from .english_words import cardinal, code, digits, year
from .rules import Rule, rule
from .tables import english_map, english_words

_PIECES = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z\d]")
_TOP = (
    r"(?:com|org|net|edu|gov|mil|int|info|biz|io|ai|app|dev|co|uk|us|eu|de|fr|jp|cn|au|ca|in|tv|me|ly|gg|xyz|online"
    r"|site|store|shop|blog|tech|museum|news|live|club|fm|nl|ch|es|se|no|it|ru|br|nz|ie|be|at)"
)
_LABEL = r"[A-Za-z\d](?:[\w-]{0,61}[A-Za-z\d])?"
_URL_END = r"(?<![.,;:!?'\")\]*])"
_FILES = (
    r"(?:pdf|docx?|xlsx?|pptx?|txt|csv|json|xml|html?|css|js|ts|py|md|rst|ya?ml|toml|zip|gz|tar|exe|dmg|apk|iso|png|jpe?g|gif|svg"
    r"|webp|mp3|mp4|wav|flac|ogg|mov|avi|mkv|safetensors|bin|pt|cpp|java|rs|go|sh|bat|ini|log|sql|NET|srt|vtt)"
)


def _email(match: re.Match[str]) -> str:
    return f"{_spelled(match['user'])} at {_domain(match['domain'])}"


def _url(match: re.Match[str]) -> str:
    words = []
    if match["scheme"]:
        words += [" ".join(match["scheme"].upper()), "colon slash slash"]
    words.append(_domain(match["domain"]))
    if match["rest"]:
        words.append(_spelled(match["rest"]))
    return " ".join(words)


def _bare(match: re.Match[str]) -> str:
    words = _domain(match["domain"])
    return f"{words} {_spelled(match['rest'])}" if match["rest"] else words


def _domain(text: str) -> str:
    host, _, port = text.partition(":")
    *labels, top = host.split(".")
    ending = " ".join(top.upper()) if len(top) == 2 and top not in english_words("top_words") else top
    words = [*("W W W" if label.lower() == "www" else _spelled(label) for label in labels), ending]
    return " dot ".join(words) + (f" colon {digits(port)}" if port else "")


def _spelled(text: str) -> str:
    """Return the words, digits and signs of a part of an address."""
    words = []
    for piece in _PIECES.findall(text):
        if piece.isdigit() and piece.isascii():
            words.append(cardinal(int(piece)) if len(piece) < 3 and piece[0] != "0" else digits(piece))
        else:
            words.append(english_map("address_signs").get(piece, piece))
    return " ".join(filter(str.strip, words))


def _file(match: re.Match[str]) -> str:
    ending = {"mp3": "MP three", "mp4": "MP four"}.get(match["ending"].lower(), match["ending"].upper())
    name = _spelled(match["name"]) if match["name"] else ""
    return f"{name} dot {ending}".strip()


def _top(match: re.Match[str]) -> str:
    return f"dot {match['top']}"


def _hashtag(match: re.Match[str]) -> str | None:
    if re.fullmatch(r"[A-Z]{1,3}\d+", match["tag"]):
        return None  # the number of a ticket
    return f"hashtag {_camel(match['tag'])}"


def _handle(match: re.Match[str]) -> str:
    return f"at {_spelled(match['name'])}"


def _camel(text: str) -> str:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|[A-Z]+|_|[^\W_]", text)
    return " ".join(_number(word) if word.isdecimal() else ("underscore" if word == "_" else word) for word in words)


def _number(text: str) -> str:
    if not text.isascii():
        return text
    return year(int(text)) if re.fullmatch(r"(?:1[1-9]|20)\d\d", text) else code(text)


RULES = (
    rule(
        rf"(?<![\w.+-])(?P<user>[A-Za-z\d][\w.+%-]{{0,63}})@(?P<domain>(?:{_LABEL}\.){{1,5}}[A-Za-z]{{2,12}})(?![\w@])",
        _email,
    ),
    rule(
        rf"(?<!\w)(?P<scheme>https?|ftp)://(?P<domain>(?:{_LABEL}\.){{0,5}}{_LABEL}(?::\d{{1,5}})?)(?P<rest>[/?#][\w/?#&=%.,:;~+!@*'()$-]{{0,400}}{_URL_END})?",
        _url,
    ),
    rule(
        rf"(?<![\w@.-])(?P<domain>www\.(?:{_LABEL}\.){{1,4}}[A-Za-z]{{2,12}}|(?:{_LABEL}\.){{1,4}}{_TOP}(?::\d{{2,5}})?)(?![\w-]|\.\w|@)"
        rf"(?P<rest>/[\w/?#&=%.,:;~+!@*'()$-]{{0,400}}{_URL_END})?",
        lambda match: _bare(match) if _is_domain(match) else None,
    ),
    rule(
        rf"(?<![\w.@])(?P<name>[A-Za-z\d][\w-]{{0,60}}(?:\.tar|\.min|\.d|\.test)?|)\.(?P<ending>{_FILES})(?![\w-]|\.\w)",
        lambda match: _file(match) if _is_file(match) else None,
    ),
    rule(r"(?<![\w.])\.(?P<top>com|org|net|edu|gov)\b", _top),
    Rule(re.compile(r"(?<![\w&#])[#＃](?P<tag>(?=\d*[^\W\d_])\w{2,100})"), _hashtag),
    rule(r"(?<![\w.])@(?P<name>[A-Za-z_]\w{1,40})\b", _handle),
)


def _is_domain(match: re.Match[str]) -> bool:
    """Whether the dots are those of an address, and not a missing space after a full stop: "the end.It"."""
    labels = match["domain"].partition(":")[0].split(".")
    if labels[0] == "www" or match["rest"]:
        return True
    return labels[-1].islower() and (labels[-1] not in english_words("top_words") or labels[-2:-1] == ["co"])


def _is_file(match: re.Match[str]) -> bool:
    return bool(match["name"]) or match["ending"] not in ("go", "bin", "log", "pt")
