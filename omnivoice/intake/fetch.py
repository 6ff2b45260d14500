"""One published file over HTTP: the only place that speaks to the network.

What is unusual: it can ask for nothing but a file of a repository at a fixed commit, sends no token, and knows no
scheme but http and https. A redirect may lead to https anywhere, or stay on the endpoint's own scheme and host. What
was received before is continued (Range), and a connection that breaks or stalls is tried again; the bytes are judged
by `downloads`, here only whether the answer is what was asked for. HF_ENDPOINT, HF_HUB_OFFLINE and the proxy
variables are honoured as everywhere.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import IO, NoReturn
from urllib.parse import quote, urlsplit

from ..errors import FileError, InputError
from .downloads import PART, OnBytes, Part, finish_part, open_part
from .files import remove_file
from .limits import MIB, shown

PUBLIC_HUB = "https://huggingface.co"
TIMEOUT_SECONDS = 20.0
TRIES = 3  # in a row, without REFILL_BYTES of progress in between
REFILL_BYTES = 16 * MIB
WAIT_SECONDS = 1.0  # before the second try; twice as long before the third
_TICK_SECONDS = 0.1
_BLOCK_BYTES = MIB // 4
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_YES = frozenset({"1", "ON", "YES", "TRUE"})


class _Interrupted(Exception):
    """The connection failed in a way that may pass."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https, or to the scheme and host that was asked. A subclass, since urllib takes nothing else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme != "https" and (new.scheme, new.hostname) != (old.scheme, old.hostname):
            raise FileError(f"{old.hostname} sends on to {new.scheme}://{new.hostname}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def hub_endpoint() -> str:
    """HF_ENDPOINT without a slash at its end, or the public hub; raises InputError for what is no such address."""
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or PUBLIC_HUB
    try:
        parts = urlsplit(endpoint)
        sound = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or any(char in endpoint for char in "@?# \\") or not endpoint.isascii() or not endpoint.isprintable():
        raise InputError(f"HF_ENDPOINT must be an address such as {PUBLIC_HUB}, got {shown(endpoint)}")
    return endpoint


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE asks for no network at all."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in _YES


def file_url(endpoint: str, repository: str, revision: str, path: str) -> str:
    """Where the hub has a file of a repository at a commit."""
    return f"{endpoint}/{quote(repository)}/resolve/{quote(revision, safe='')}/{quote(path)}"


def fetch_file(url: str, target: Path, *, size: int, sha256: str, on_bytes: OnBytes) -> None:
    """Fetch `url` to `target`, whose folder exists; nothing is under that name before its bytes were found right.

    Raises FileError: not there, not reachable, other bytes than published (then removed), disk full. What
    `on_bytes` raises passes; the .part file stays, and the next call continues it.
    """
    with open_part(target, size, on_bytes) as part:
        tries, filled = TRIES, part.done
        while part.done < size:
            try:
                _receive(url, part)
            except _Interrupted as fault:
                tries -= 1
                if part.done - filled >= REFILL_BYTES:
                    tries, filled = TRIES, part.done
                if tries <= 0:
                    raise FileError(f"{target.name} could not be fetched ({fault})") from fault
                _wait(WAIT_SECONDS * 2 ** (TRIES - 1 - tries), part)
        right = part.sha256() == sha256
    if not right:
        remove_file(target.with_name(target.name + PART))
        raise FileError(f"{target.name} arrived with other bytes than published and was removed")
    finish_part(target)


def _receive(url: str, part: Part) -> None:
    """One connection: append what comes. Raises _Interrupted unless the file is whole then."""
    headers = {"User-Agent": "omnivoice-nodes", "Accept-Encoding": "identity"}
    if part.done:
        headers["Range"] = f"bytes={part.done}-"
    try:
        with _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            _check_answer(answer, part)
            while block := answer.read1(_BLOCK_BYTES):
                part.write(block)
    except urllib.error.HTTPError as error:
        with error:
            _judge_refusal(error, part)
    except (urllib.error.URLError, http.client.HTTPException, OSError, UnicodeError) as error:
        raise _Interrupted(_reason(error)) from error
    if part.done < part.size:
        raise _Interrupted(f"the connection ended after {part.done} of {part.size} bytes")


def _opener() -> urllib.request.OpenerDirector:
    """Put together by hand: urllib's usual one also opens file, ftp and data addresses."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _check_answer(answer: http.client.HTTPResponse, part: Part) -> None:
    """Whether the answer holds the bytes asked for; a whole file instead of its rest is taken from the beginning."""
    if answer.status == 206:
        expected = f"bytes {part.done}-{part.size - 1}/{part.size}"
        if answer.headers.get("Content-Range", "").strip() != expected or not part.done:
            got = answer.headers.get("Content-Range", "none")
            part.restart()
            raise _Interrupted(f"a part of the file was sent that was not asked for ({shown(got)})")
        return
    if answer.status != 200:
        raise FileError(f"{part.name} could not be fetched (the answer was HTTP {answer.status})")
    length = answer.headers.get("Content-Length")
    if length is not None and length.strip() != str(part.size):
        raise FileError(
            f"{part.name} has {shown(length)} bytes there, {part.size} were published: this is another file, or a page "
            "of a proxy"
        )
    if part.done:
        part.restart()


def _judge_refusal(error: urllib.error.HTTPError, part: Part) -> NoReturn:
    """What may pass is tried again, and a range that does not fit is dropped; the rest is final."""
    if error.code == 416 and part.done:
        part.restart()
        raise _Interrupted("what was received before does not fit the file") from error
    if error.code in _PASSING:
        raise _Interrupted(f"the answer was HTTP {error.code}") from error
    raise FileError(f"{part.name} could not be fetched (the answer was HTTP {error.code})") from error


def _reason(error: Exception) -> str:
    """Short and without addresses or paths."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer for {TIMEOUT_SECONDS:.0f} s"
    if isinstance(cause, OSError):
        return str(cause.strerror or type(cause).__name__)
    return f"{type(cause).__name__}: {str(cause)[:80]}" if isinstance(cause, Exception) else str(cause)[:80]


def _wait(seconds: float, part: Part) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        part.wait()
        time.sleep(_TICK_SECONDS)
