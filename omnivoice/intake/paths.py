"""Names and paths: which names are safe for files, which file or model a name means, and how messages show them.

`check_file_name` applies the rules of POSIX and Windows together and makes no file call: on Windows, merely asking
whether a UNC path exists sends the user's credentials to the host that it names. Paths typed on a command line are not
restricted.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from ..errors import CheckpointError, FileError, InputError
from .limits import INVISIBLE, MAX_NAME_BYTES, shown

_PUNCTUATION = frozenset(" ._-()[]+,'&!@#=")
_JOINERS = "\u200c\u200d"  # within words of Persian and Hindi, and within emoji
_SELECTORS = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")  # of the form of a character
_SUPERSCRIPTS = "\u00b9\u00b2\u00b3"
_RESERVED = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"]
    + [device + digit for device in ("COM", "LPT") for digit in "0123456789" + _SUPERSCRIPTS]
)


def as_path(path: object) -> Path:
    """Return `path` as a Path; raises FileError unless it is a string or a path, not empty and without NUL."""
    if not isinstance(path, (str, PathLike)):
        raise FileError(f"a path must be a string or a Path, got {shown(path)}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FileError("a path must be a string that is not empty and holds no NUL character")
    return Path(text)


def shown_name(path: str | PathLike[str]) -> str:
    """Return the last part of a path for messages and logs: printable, short, and without the folders above it."""
    name = os.path.basename(os.path.normpath(os.fspath(path)))
    return "".join(c if c.isprintable() else "?" for c in name[:80])


def model_folder(path: str | PathLike[str]) -> Path:
    """Return the folder of a model as a Path; raises CheckpointError if it is not a readable folder."""
    folder = as_path(path)
    name = shown_name(folder)
    if os.path.isdir(folder):  # unlike Path.is_dir, it never raises
        if not os.access(folder, os.R_OK | os.X_OK):
            raise CheckpointError(f"model folder {name} cannot be read: change its permissions")
        return folder
    if os.path.exists(folder):
        raise CheckpointError(f"{name} is a file, not a model folder: give the folder that holds config.json")
    raise CheckpointError(f"model folder {name} does not exist: check the path, or download the model first")


def check_file_name(name: object) -> str:
    """Return `name` in Unicode form NFC if it is safe as one file name on every system; raises InputError.

    A safe name has 1-120 UTF-8 bytes: letters, marks and digits of any script, emoji, spaces, ._-()[]+,'&!@#= and
    punctuation outside ASCII, each of which can be seen. It does not begin or end with a dot or a space, and is not a
    device of Windows (CON, nul.wav, COM1 ...). So it holds no separator, drive, UNC path, stream, NUL or control
    character. Touches no file.
    """
    if not isinstance(name, str):
        raise InputError(f"a file name must be a string, got {shown(name)}")
    if not name or len(name) > MAX_NAME_BYTES:
        raise InputError(f"a file name must be 1-{MAX_NAME_BYTES} bytes long, got {shown(name)}")
    name = unicodedata.normalize("NFC", name)
    for before, char in zip(f" {name}", name):
        if char not in _PUNCTUATION and not (_is_safe(char) and _is_seen(char, before)):
            raise InputError(
                f"a file name may hold letters, digits, emoji, spaces and ._-()[]+,'&!@#=, got {shown(name)}"
            )
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        raise InputError(f"a file name must be 1-{MAX_NAME_BYTES} bytes long, got {shown(name)}")
    if name[0] in " ." + _JOINERS or name[-1] in " ." + _JOINERS:
        raise InputError(f"a file name may not begin or end with a dot or a space, got {shown(name)}")
    if name.split(".", 1)[0].rstrip(" ").upper() in _RESERVED:
        raise InputError(f"{shown(name)} is a device name on Windows: choose another file name")
    return name


def _is_safe(char: str) -> bool:
    """Whether a character other than `_PUNCTUATION` may be in a file name: no separator, in any width, no control."""
    category = unicodedata.category(char)
    if INVISIBLE.match(char):
        return False
    if char in _JOINERS or category[0] in "LMN":
        return True
    safe = category[0] == "P" or category in ("So", "Sk")
    return safe and not char.isascii() and not set("/\\") & set(unicodedata.normalize("NFKC", char))


def _is_seen(char: str, before: str) -> bool:
    """Whether a safe character can change how a name looks: joiners and selectors do so only after some characters, and
    marks need a character to stand on. Otherwise two names could look the same, or have nothing to see."""
    kind = unicodedata.category(before)
    if char in _JOINERS:  # letters with upper and lower case are never joined
        return kind in ("Lo", "Mn", "Mc", "So", "Sk")
    if _SELECTORS.match(char):
        has_variants = unicodedata.name(before, "").startswith(("CJK", "MONGOLIAN"))
        return has_variants or kind in ("So", "Sk") or before in "0123456789#‼⁉〰"
    return unicodedata.category(char)[0] != "M" or kind[0] in "LMNS"


def match_name(name: object, choices: Iterable[str]) -> str | None:
    """Return the one of `choices` that `name` means, or None.

    An exact match comes first. Then Unicode forms (NFC, NFD) and `\\` and `/` count as equal, and then upper and
    lower case as well. Raises InputError when several choices match equally well: the user must say which.
    """
    if not isinstance(name, str):
        return None
    names = list(dict.fromkeys(choices))
    if name in names:
        return name
    for form in (_composed, _folded):
        found = [choice for choice in names if form(choice) == form(name)]
        if len(found) > 1:
            some = ", ".join(shown(choice) for choice in found[:5])
            raise InputError(f"{shown(name)} could be any of {some}: write the name exactly as one of them")
        if found:
            return found[0]
    return None


def find_like(folder: str | PathLike[str], name: str) -> Path | None:
    """Return the entry of `folder` whose name equals `name` in all but case and Unicode form, or None.

    File systems that ignore either would take both names for one file. Raises FileError for a folder that cannot be
    listed.
    """
    where = as_path(folder)
    try:
        return next((where / entry for entry in sorted(os.listdir(where)) if _folded(entry) == _folded(name)), None)
    except OSError as error:
        raise FileError(f"cannot list folder {shown_name(where)}: {error.strerror}") from error


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", _composed(name).casefold())
