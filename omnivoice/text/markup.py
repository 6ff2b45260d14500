"""Markup in a text: tags and comments of HTML and SSML go, their text stays, and entities become their characters.

Comparisons and placeholders are not markup: "a < b and c > d" and "git push <remote>" stay as they are. A tag of HTML
or SSML is one by its name, unless the name is also a word or a letter, such as <title> or <b>: that needs an attribute
or its partner, </title>. So does a tag with any other name. SSML's <break> is left for `pauses`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from functools import cache
from typing import cast

from ..intake.tables import load_table
from ..intake.text_in import clean_text
from .characters import STAND_INS
from .removed import Removed

SCENE_BREAK = "\n***\n"  # what <hr> means; see `pauses`
_ATTRIBUTE = r"""[a-z_@:][\w@:.-]*(?:\s*=\s*(?:"[^"<]*"|'[^'<]*'|[^\s"'<>]+))?"""
_ATTRIBUTES = re.compile(_ATTRIBUTE, re.IGNORECASE | re.ASCII)
MARKUP = re.compile(
    r"<!--(?:(?!<!--).)*?-->"
    r"|<!\[CDATA\[(?P<data>(?:(?!<!\[CDATA\[).)*?)\]\]>"
    r"|<!doctype\b[^<>]*>|<\?[a-z][^<>]*\?>"
    rf"|<(?P<slash>/?)(?P<name>[a-z][\w-]*(?::[\w-]+)?)(?P<attributes>(?:\s+{_ATTRIBUTE})*)\s*/?>",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE | re.ASCII)


@cache
def _names(kind: str) -> frozenset[str]:
    return frozenset(cast("dict[str, str]", load_table("text/markup.json"))[kind].split())


def without_markup(text: str, removed: Removed) -> str:
    """Return `text` without tags, comments, scripts and styles, and with entities decoded once.

    A block, such as <p> or <br>, becomes a line break, and <hr> a scene break; an inline tag leaves nothing, so that
    words stay whole. Other tags become a space. The pronunciations above ruby text go, because their base is spoken.
    """
    tokens = list(MARKUP.finditer(text))
    closings = {token["name"].lower(): token.start() for token in tokens if token["slash"]}  # the last of each name
    pairs = {token["name"].lower() for token in tokens if token["name"] and not token["slash"]}.intersection(closings)
    parts: list[str] = []
    end, hidden = 0, ""
    for token in tokens:
        name = (token["name"] or "").lower()
        if hidden:
            if token["slash"] and name == hidden:
                end, hidden = token.end(), ""
            continue
        replacement = _replacement(token, name, pairs)
        if replacement is None:
            continue
        if token["data"] is None and replacement != SCENE_BREAK:
            removed.add("markup", f"<{name}>" if name else token[0][:4])
        parts += [text[end : token.start()], replacement]
        end = token.end()
        if name in _names("hidden") and not token["slash"] and closings.get(name, -1) > end - 1:
            hidden = name
    return decoded_entities("".join([*parts, text[end:]]))


def decoded_entities(text: str) -> str:
    """Return `text` with its entities decoded; those of control and invisible characters and of stand-ins, which would
    be tokens of the model, become nothing."""
    decoded = ENTITY.sub(lambda match: STAND_INS.sub("", html.unescape(match[0])), text)
    return text if decoded == text else clean_text(decoded)


def _replacement(token: re.Match[str], name: str, pairs: Collection[str]) -> str | None:
    """Return what the token becomes, or None if it is not markup and stays."""
    if not name:
        return token["data"] or ""
    if name == "break" or not _is_tag(name, token, pairs):
        return None
    if name in _names("block"):
        return SCENE_BREAK if name == "hr" else "\n"
    return "" if name in _names("inline") else " "


def _is_tag(name: str, token: re.Match[str], pairs: Collection[str]) -> bool:
    """Whether the token is a tag, rather than a comparison or a placeholder that looks like one."""
    attributes = _ATTRIBUTES.findall(token["attributes"])
    if any("=" not in attribute and attribute.lower() not in _names("boolean") for attribute in attributes):
        return False
    known = any(name in _names(kind) for kind in ("inline", "block", "other"))
    if token["slash"]:
        return not attributes and (known or name in pairs)
    if attributes:
        return known or any(attribute.endswith(("'", '"')) for attribute in attributes)
    return name in pairs or (known and name not in _names("words"))
