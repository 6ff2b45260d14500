"""An audio file as its decoder sees it: the work that the decoder does for it is bounded, and cancel is heard.

Decoders search damaged files for something to decode, and report nothing until they find it. 90 MB of bytes that look
like the start of a frame keep one busy for a minute. But it has to read them, so every read is a chance to stop it.
What is limited is the processor time since audio was last found, which neither a slow disk nor other programs change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import BinaryIO

from ..errors import AudioError
from .limits import MAX_PACKETS_WITHOUT_AUDIO, MAX_SEARCH_SECONDS, MIN_PACKET_SAMPLES, MIN_SAMPLES_PER_SECOND

clock = time.thread_time


class WatchedFile:
    """A file to read that never raises, because decoders print or lose what their input raises.

    After an error every read finds the end of the file, so the decoder stops, and `check` raises that error.
    """

    def __init__(self, file: BinaryIO, name: str, on_read: Callable[[], None] | None = None) -> None:
        self._file, self._name, self._on_read = file, name, on_read
        self._error: BaseException | None = None
        self._start = self._found = clock()
        self._samples = self._packets = 0

    def read(self, count: int = -1) -> bytes:
        """Return up to `count` bytes, none after an error."""
        if self._error is None:
            try:
                self._look()
                return self._file.read(count)
            except BaseException as error:  # noqa: BLE001 - kept for `check`, which raises it
                self._error = error
        return b""

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a place in the file, or stay where it is if the place is before the start, as damaged headers say."""
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            return self._file.tell()

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._file.tell()

    def check(self) -> None:
        """Raise what stopped the reading, if anything did."""
        if self._error is not None:
            raise self._error

    def found(self, samples: int) -> None:
        """Count decoded samples, those of all channels. Raises what `check` and cancel raise."""
        self.check()
        self._samples += samples
        try:
            self._look()
        except BaseException as error:
            self._error = error
            raise
        if samples:
            self._found = clock()

    def packet(self, samples: int) -> None:
        """Count a packet and the samples that it held. Raises AudioError where many packets hold little or nothing."""
        self._packets += 1
        self.found(samples)
        if self._packets > MAX_PACKETS_WITHOUT_AUDIO + self._samples // MIN_PACKET_SAMPLES:
            held = f"{self._packets} packets hold only {self._samples} samples"
            raise AudioError(f"{self._name} is damaged, {held}: {self._advice}")

    @property
    def _advice(self) -> str:
        return f"copy it again, or convert it to WAV, with ffmpeg -i {self._name} out.wav"

    def _look(self) -> None:
        if self._on_read is not None:
            self._on_read()
        now = clock()
        allowed = MAX_SEARCH_SECONDS + self._samples / MIN_SAMPLES_PER_SECOND
        if now - self._found > MAX_SEARCH_SECONDS or now - self._start > allowed:
            raise AudioError(f"{self._name} is damaged, it holds too little audio for its size: {self._advice}")
