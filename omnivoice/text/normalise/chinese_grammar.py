"""The rules of chinese.json: reads them, and finds which rule speaks what stands at a place of a text.

A rule has these entries:
- at: where it may begin. "0" is a digit, "a" an ASCII letter, ½ any vulgar fraction, ① any other symbol for a number,
  ² and ₀ any raised or lowered digit; other characters are themselves.
- match: a pattern. «name» is a pattern of `patterns`, or any word of the list `name` in `words`.
- say: what is spoken. <group:reader> reads a group of the match (see chinese_readers.py); what is in braces is left out
  if one of its groups did not take part.
- when, unless: patterns for the text before the match; near: a pattern for the text around it.
- ascending, descending: the groups `a` and `b` must be numbers in this order; two equal ones count as descending.
The first rule that fits is taken. Contexts and patterns are bounded, so that the time is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from .chinese_numbers import table

_BEFORE, _AFTER = 20, 20  # characters around a match that `when`, `unless` and `near` see
_NAME = re.compile("«([A-Za-z_]+)»")
_OPTIONAL = re.compile(r"\{([^{}]*)\}")
_GROUP = re.compile(r"\(\?P<(\w+)>")
_NAMED = re.compile(r"\(\?P([<=])(\w+)")
_BLOCK = 16  # rules that are tried together
SLOT = re.compile(r"<(\w+):(\w+)>")


@dataclass(frozen=True)
class Grammar:
    """One compiled rule."""

    match: re.Pattern[str]
    say: str
    when: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    near: re.Pattern[str] | None
    order: int  # of the groups a and b: 1 = ascending, -1 = descending, 0 = any

    def matched(self, text: str, place: int) -> re.Match[str] | None:
        """Return the match of this rule at `place`, or None if it does not fit there."""
        match = self.match.match(text, place)
        if match is None or match.end() == place:
            return None
        before = text[max(0, place - _BEFORE) : place]
        if (self.when and not self.when.search(before)) or (self.unless and self.unless.search(before)):
            return None
        if self.near and not self.near.search(before + text[place : match.end() + _AFTER]):
            return None
        if self.order:
            first, second = (float(match[name].replace(",", "")) for name in "ab")
            if (second - first) * self.order < 0 or (first == second and self.order > 0):
                return None
        return match

    def template(self, match: re.Match[str]) -> str:
        """Return what is spoken, its optional parts resolved and its slots still to be filled."""
        if "{" not in self.say:
            return self.say
        return _OPTIONAL.sub(lambda part: part[1] if _took_part(part[1], match) else "", self.say)


def _took_part(part: str, match: re.Match[str]) -> bool:
    return all(match[name] is not None for name, _ in SLOT.findall(part))


@cache
def _words(name: str) -> str:
    """Return a pattern for any word of a list, the longest first."""
    return "|".join(map(re.escape, sorted(set(_listed(name)), key=lambda word: (-len(word), word))))


def _listed(name: str) -> list[str]:
    if name in ("UNIT", "KEPT"):
        return list(table()["units"]) if name == "UNIT" else table()["kept_units"].split()
    return table()["words"][name].split()


@cache
def pattern(name: str) -> str:
    """Return the pattern that «name» stands for in a rule."""
    if name == "UNIT":
        return f"(?:(?:{_words(name)})(?![A-Za-z0-9²³^]))"
    if name in table()["patterns"]:
        return expanded(table()["patterns"][name])
    return _words(name)


def expanded(text: str) -> str:
    """Return a pattern with every «name» replaced by what it stands for."""
    return _NAME.sub(lambda name: pattern(name[1]), text)


@dataclass(frozen=True)
class _Block:
    """Rules that follow each other, and a pattern that matches wherever one of theirs does."""

    any: re.Pattern[str]
    rules: tuple[Grammar, ...]


@cache
def _rules() -> dict[str, tuple[_Block, ...]]:
    """Return the rules, in blocks, by the kind of character that they begin with."""
    found: dict[str, list[Grammar]] = {}
    for rule in table()["rules"]:
        before = {name: re.compile(f"(?:{expanded(rule[name])})$") for name in ("when", "unless") if name in rule}
        compiled = Grammar(
            match=re.compile(expanded(rule["match"])),
            say=rule["say"],
            when=before.get("when"),
            unless=before.get("unless"),
            near=re.compile(expanded(rule["near"])) if "near" in rule else None,
            order=int("ascending" in rule) - int("descending" in rule),
        )
        for kind in rule["at"]:
            found.setdefault(kind, []).append(compiled)
    return {kind: tuple(_blocks(rules)) for kind, rules in found.items()}


def _blocks(rules: Sequence[Grammar]) -> Iterator[_Block]:
    for start in range(0, len(rules), _BLOCK):
        block = rules[start : start + _BLOCK]
        patterns = (_alternative(number, rule.match.pattern) for number, rule in enumerate(block))
        yield _Block(re.compile("|".join(patterns)), tuple(block))


def _alternative(number: int, pattern: str) -> str:
    """Return `pattern` as one of several alternatives, in which no two groups may have the same name."""
    if "(?P=" in pattern:  # it refers to a group, which must keep a name
        return _NAMED.sub(lambda name: f"(?P{name[1]}{name[2]}_{number}", pattern)
    return _GROUP.sub("(?:", pattern)


@cache
def kind(char: str) -> str:
    """Return what `char` is for the entry `at` of a rule."""
    if char.isascii():
        return "0" if char.isdigit() else "a" if char.isalpha() else char
    if unicodedata.category(char) not in ("No", "Nl"):
        return char
    form = unicodedata.decomposition(char)
    for name, mark in (("<fraction>", "½"), ("<super>", "²"), ("<sub>", "₀")):
        if form.startswith(name):
            return mark
    return "①" if form.startswith("<") else char


def matches(text: str) -> Iterator[tuple[Grammar, re.Match[str]]]:
    """Yield the rules that fit `text` and their matches, in order and without overlap."""
    rules = _rules()
    place = 0
    while place < len(text):
        mark = kind(text[place])
        inside = mark == "a" and place > 0 and text[place - 1].isascii() and text[place - 1].isalnum()
        found = None if inside else _first(rules.get(mark, ()), text, place)
        if found:
            yield found
        place = found[1].end() if found else place + 1


def _first(blocks: Sequence[_Block], text: str, place: int) -> tuple[Grammar, re.Match[str]] | None:
    """Return the first rule that fits at `place`, and its match."""
    for block in blocks:
        if block.any.match(text, place):
            for rule in block.rules:
                if match := rule.matched(text, place):
                    return rule, match
    return None
