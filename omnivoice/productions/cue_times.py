"""The times of cues, as they are found in the wild: `00:00:01,500 --> 00:00:02,000` and its many variants.

Hours may be missing; the fraction may follow a dot, a comma or a colon and may have any number of digits; spaces,
other arrows, full-width digits and negative times occur. What follows the times is WebVTT's settings, SRT's
coordinates, or text that belongs on the next line.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ..errors import TextError
from ..intake.limits import shown

_ARROW = re.compile(r"- ?-{1,6} ?>|--&gt;|[-=\u2013\u2014]{1,6}>|[\u2192\u21d2]")
_SPACED = re.compile(r"(?<=\d)[ \t]*([:;,.])[ \t]*(?=-?\d)")
_TIME = re.compile(
    r"(?:-?(?P<h>\d{1,6}):)?-?(?P<m>\d{1,6}):-?(?P<s>\d{1,2})(?:(?P<point>[.,:;])-?(?P<f>\d{1,9}))?(?![\d:])"
    r"|-?(?P<only>\d{1,7})[.,](?P<part>\d{1,9})(?![\d:.,])"
)
_NUMBERED = re.compile(r"(\d{1,9})[ \t]+(?=-?\d)")
_LIKE_A_TIME = re.compile(r"-?\d(?:[\d:;.,\s-]*[:;.,][\d:;.,\s-]*|\S*[:;]\S*)")
_LONGEST_TIME = 60  # characters
_SETTINGS = re.compile(
    r"(?:\s+(?:vertical|line|position|size|align|region|[XY][12]|[ADLST])[:=]\S*)+", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True)
class Times:
    """start_ms, end_ms: None if the end is missing. number: a cue number before the times. text: what follows them."""

    start_ms: int
    end_ms: int | None
    number: int | None
    text: str


def read_times(row: str, line: int) -> Times | None:
    """Return the times that a row of a subtitle file holds, None for any other row.

    Raises TextError with the number of the line for a row that has an arrow and one time, but not two.
    """
    arrow = _ARROW.search(row)
    if arrow is None:
        return None
    left, right = (_SPACED.sub(r"\1", unicodedata.normalize("NFKC", side)).strip() for side in _sides(row, arrow))
    number = _NUMBERED.match(left)
    start, end = _TIME.fullmatch(left[number.end() :] if number else left), _TIME.match(right)
    if start is None and (len(left) > _LONGEST_TIME or not _LIKE_A_TIME.fullmatch(left)):
        return None  # an arrow in a text
    if start is None or (end is None and right):
        if start is None and end is None and not _LIKE_A_TIME.match(right[:_LONGEST_TIME]):
            return None
        raise _unreadable(row, line)
    rest = right[end.end() :] if end else ""
    text = "" if _SETTINGS.fullmatch(rest) else rest.strip()
    return Times(
        _milliseconds(start, row, line),
        _milliseconds(end, row, line) if end else None,
        int(number[1]) if number else None,
        text,
    )


def _sides(row: str, arrow: re.Match[str]) -> tuple[str, str]:
    return row[: arrow.start()], row[arrow.end() :]


def _milliseconds(time: re.Match[str], row: str, line: int) -> int:
    if time["only"]:
        whole, fraction = int(time["only"]), time["part"]
    else:
        whole, fraction = int(time["h"] or 0) * 3600 + int(time["m"]) * 60 + int(time["s"]), time["f"] or ""
        if time["point"] in (":", ";") and len(fraction) != 3:  # hours:minutes:seconds:frames
            raise _unreadable(row, line)
    value = whole * 1000 + round(int(fraction or 0) * 1000 / 10 ** len(fraction))
    return -value if "-" in time[0] else value


def _unreadable(row: str, line: int) -> TextError:
    return TextError(f"line {line}: the times {shown(row.strip())} cannot be read: write 00:00:01,500 --> 00:00:02,000")


def time_text(milliseconds: int, point: str = ",") -> str:
    """Return a time as in SRT, `00:00:01,500`, or with another mark before the milliseconds."""
    seconds, thousandths = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{thousandths:03}"
