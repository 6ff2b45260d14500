"""English addresses: houses, rooms, flights and roads, the words of streets, directions, states and zip codes."""

from __future__ import annotations

import re
from functools import cache

from .english_words import code, digits
from .phrases import closing_stop
from .rules import Rule, rule, text_after, text_before, word_after, word_before
from .tables import english_map, english_words, keys_of

_NTH = re.compile(r"\d+(?:st|nd|rd|th)")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n][\"”’)]*\s+|[\"“‘(])$")
_SIDES = {"N": "North", "S": "South", "E": "East", "W": "West"}


def _room(match: re.Match[str]) -> str:
    """Room 412, flight 370, Highway 101."""
    cue = match["cue"].rstrip()
    cue = english_map("before_numbers").get(cue) or english_map("abbreviations").get(cue, cue)
    return f"{cue} {code(match['number'])}" + (f" {match['letter']}" if match["letter"] else "")


def _house(match: re.Match[str]) -> str:
    """The number of a house before the name of its street."""
    return code(match["number"]) + (f" {match['letter']}" if match["letter"] else "")


def _zip(match: re.Match[str]) -> str:
    state = english_map("states").get(match["state"], match["state"])
    plus = f", {digits(match['plus'])}" if match["plus"] else ""
    return f"{state} {digits(match['zip'])}{plus}"


def _state(match: re.Match[str]) -> str | None:
    city = re.search(r"[A-Z][\w.'’]+, $", text_before(match))
    return (
        english_map("states").get(match[0]) if city and match[0] not in ("MD", "OR", "IN", "ME", "OK", "HI") else None
    )


def _side(match: re.Match[str]) -> str:
    return _SIDES[match["side"] or match["only"]]


def _saint_or_street(match: re.Match[str]) -> str | None:
    """St.: Saint before a name, Street after one; without a full stop, only where a name shows which."""
    before, after = word_before(match), word_after(match)
    named = before[:1].isupper() or _NTH.fullmatch(before) is not None
    name_follows = re.match(r"[ \u00a0][A-Z]", text_after(match)) is not None
    if not (match["dot"] or name_follows or named):
        return None
    if not name_follows:
        return f"Street{_stop(match)}"
    if not named or not text_before(match, 1).isspace():
        return "Saint"
    if before.endswith(".") or before.lower() in english_words("before_saints"):
        return "Saint"
    if before in english_words("street_names"):
        return f"Street{_stop(match)}"
    if after not in english_words("starters") and _starts_sentence(match, before):
        return "Saint"
    if after in english_words("saints") and not _has_house_number(match):
        return "Saint"
    return f"Street{_stop(match)}"


def _doctor_or_drive(match: re.Match[str]) -> str | None:
    """Dr.: Doctor before a name, Drive after one."""
    before, after = word_before(match), word_after(match)
    name_follows = re.match(r"[ \u00a0]?[A-Z]", text_after(match)) is not None
    named = text_before(match, 1).isspace() and before[:1].isupper()
    named = named and before.lower() not in english_words("determiners")
    if not (match["dot"] or name_follows or _has_house_number(match)):
        return None
    if not name_follows:
        return ("Drive" if named else "doctor") + _stop(match)
    if _has_house_number(match):
        return f"Drive{_stop(match)}"
    if not named or (before.endswith(".") and before not in ("Jr.", "Sr.")):
        return "Doctor"
    if before.lower() in english_words("before_doctors"):
        return "Doctor"
    street = before in english_words("street_names") or after in english_words("after_streets")
    if _starts_sentence(match, before) and not street:
        return "Doctor"
    return f"Drive{_stop(match)}"


def _starts_sentence(match: re.Match[str], before: str) -> bool:
    """Whether the word before is capitalised only because its sentence starts with it: "Ask Dr. Lee"."""
    earlier = match.string[: match.start()].rstrip().removesuffix(before)
    return not earlier or _SENTENCE_START.search(earlier[-6:]) is not None


def _has_house_number(match: re.Match[str]) -> bool:
    return bool(re.search(r"\b\d{1,5}[A-Z]?,? (?:[NSEW]\.? )?(?:[A-Z][\w'’]*\.? ){1,3}$", text_before(match)))


def _street(match: re.Match[str]) -> str | None:
    """Ave., Blvd., Rd. after a name."""
    before = word_before(match)
    nth = _NTH.fullmatch(before) is not None
    if not nth and (not before[:1].isupper() or match["word"] == "Fl"):
        return None
    return english_map("streets")[match["word"]] + _stop(match)


def _stop(match: re.Match[str]) -> str:
    return closing_stop(match) if match["dot"] else ""


_ROOMS = (
    r"(?:[Rr]oom|[Rr]m\.|[Ff]light|[Rr]oute|Rte\.|[Hh]ighway|Hwy\.?|[Ss]uite|Ste\.|Apt\.?|[Aa]partment|[Gg]ate|[Ff]orm"
    r"|[Ee]rror|HTTP|[Ss]tatus|Boeing|Airbus|[Uu]nit|[Cc]hannel|[Bb]us|[Tt]rain|Interstate|RTX|GTX|Intel|Ryzen|[Ll]ocker"
    r"|[Aa]rea [Cc]ode|[Cc]ourtroom|[Pp]ort|P\.?O\.? Box|UA|AA|BA|DL)"
)
_STREETS = (
    r"(?:St|Street|Ave|Avenue|Rd|Road|Blvd|Boulevard|Dr|Drive|Ln|Lane|Ct|Court|Pl|Place|Way|Terrace|Parkway|Pkwy"
    r"|Highway|Hwy|Square|Sq|Circle|Cir|Broadway|Alley|Crescent|Row|Trail)\b"
)
_NAMES = r"(?:[A-Z][\w'’.]+ |\d{1,3}(?:st|nd|rd|th) )"


@cache
def place_rules() -> tuple[Rule, ...]:
    """Return the rules, which need the tables."""
    streets = keys_of("streets")
    return (
        rule(
            rf"\b(?P<cue>{_ROOMS} )(?P<number>\d{{3,5}})(?P<letter>[A-Z]?)"
            r"(?!\w|[.,]\d|-\d| (?:people|times|feet|miles))",
            _room,
        ),
        rule(
            r"(?<![\w.,$#])(?P<number>\d{1,5})(?P<letter>[A-Z]?)"
            rf"(?= (?:[NSEW]\.? |North |South |East |West )?{_NAMES}{{1,3}}{_STREETS})",
            _house,
        ),
        rule(r"\b(?P<state>[A-Z]{2}),? (?P<zip>\d{5})(?:-(?P<plus>\d{4}))?(?!\w|[.,]\d)", _zip),
        rule(r"(?<=[a-z], )[A-Z]{2}(?=$|[,.;)\n]|\s[a-z])", _state),
        rule(rf"(?:(?<=\d )(?P<side>[NSEW])\.?|(?<![\w.])(?P<only>[NSEW])\.)(?= {_NAMES}{_STREETS})", _side),
        rule(r"(?<![\w.])St(?P<dot>\.?)(?![\w'’])", _saint_or_street),
        rule(r"(?<![\w.])Dr(?P<dot>\.?)(?![\w'’])", _doctor_or_drive),
        rule(rf"(?<![\w.])(?P<word>{streets})(?P<dot>\.?)(?!\w)", _street),
    )
