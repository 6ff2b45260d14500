"""The cast: which voice a speaker has. Names match whatever their case, accents and spaces.

A speaker has a recorded voice, a described one, both, or neither; then the model chooses one. Chosen and described
voices differ from text to text, so a speaker with several texts first speaks some of them as a reference, which is
cloned from then on: the same person all along.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..constants import FRAME_RATE
from ..errors import InputError
from ..text.clean import join_lines
from ..text.duration import estimate_frames
from ..text.script import folded, speaker_names
from ..types import GenerationRequest, VoiceDesign, VoicePrompt

REFERENCE_SECONDS = 4.0  # the least length of a reference that is made, if the speaker says that much
_PAUSE = re.compile(r"\[[ \t]*pause\b[^\[\]\n]{0,60}\]", re.IGNORECASE)


@dataclass(frozen=True)
class Speaker:
    """One member of the cast: with a voice, a design, both, or neither. language: of all that the speaker says; None:
    that of the production."""

    name: str
    voice: VoicePrompt | None = None
    design: VoiceDesign | str | None = None
    language: str | None = None

    def request(self, base: GenerationRequest, text: str) -> GenerationRequest:
        """Return `base` for a text of this speaker."""
        language = self.language or base.language
        return replace(base, text=text, voice=self.voice, design=self.design, language=language)


@dataclass(frozen=True)
class Cast:
    """speakers: with a name each. default: who speaks a text without a speaker in the cast; its name is empty."""

    speakers: tuple[Speaker, ...] = ()
    default: Speaker = Speaker("")

    def __post_init__(self) -> None:
        """Raises InputError for names that `speaker_names` refuses."""
        if self.speakers:
            names = speaker_names([speaker.name for speaker in self.speakers]).values()
            speakers = tuple(replace(speaker, name=name) for speaker, name in zip(self.speakers, names))
            object.__setattr__(self, "speakers", speakers)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, as they were given."""
        return tuple(speaker.name for speaker in self.speakers)

    def find(self, name: str | None) -> Speaker:
        """Return the speaker of that name in any spelling, or the default one."""
        wanted = folded(name or "")
        return next((speaker for speaker in self.speakers if folded(speaker.name) == wanted), self.default)

    def with_voices(self, voices: Mapping[str, VoicePrompt]) -> Cast:
        """Return the cast with these voices, by name, in place of designs and automatic voices."""
        changed = [
            replace(one, voice=voices[one.name], design=None) if one.name in voices else one
            for one in (*self.speakers, self.default)
        ]
        return Cast(tuple(changed[:-1]), changed[-1])


def speakers_from(names: object, voices: Mapping[int, VoicePrompt | VoiceDesign]) -> tuple[Speaker, ...]:
    """Return the speakers that a text of names and a numbered list of voices describe.

    names: one on each line. The first one has voice 1, and so on; a name without a voice gets an automatic one. A
    voice without a name keeps the name that it was saved under. Raises InputError for a voice that has none.
    """
    if not isinstance(names, str):
        raise InputError("the names of speakers must be a text with one name on each line")
    lines = [" ".join(line.split()) for line in names.split("\n")]
    speakers = []
    for number in range(1, max([len(lines), *voices]) + 1):
        name, voice = lines[number - 1] if number <= len(lines) else "", voices.get(number)
        name = name or (voice.name if isinstance(voice, VoicePrompt) else "")
        if voice is not None and not name:
            raise InputError(f"voice {number} has no name: write one on line {number} of the names")
        if isinstance(voice, VoicePrompt):
            speakers.append(Speaker(name, voice=voice))
        elif name:
            speakers.append(Speaker(name, design=voice))
    return tuple(speakers)


def reference_requests(
    cast: Cast, texts: Mapping[str, Sequence[str]], base: GenerationRequest
) -> dict[str, GenerationRequest]:
    """Return {name: request} for each speaker who needs a reference: without a recorded voice, and with several texts.

    texts: what each speaker says, by name. Run the requests, and give the voices of their speech to `with_voices`.
    """
    makers = {}
    for speaker in (*cast.speakers, cast.default):
        said = texts.get(speaker.name, ())
        if speaker.voice is None and len(said) > 1:
            request = replace(base, duration=None, exact_length=False, speed=None)
            makers[speaker.name] = speaker.request(request, _reference_text(said))
    return makers


def _reference_text(texts: Collection[str]) -> str:
    """Return as many of the texts as take `REFERENCE_SECONDS`, from the first; pauses are left out."""
    kept: list[str] = []
    for text in texts:
        kept.append(_PAUSE.sub(" ", text).strip())
        if estimate_frames(join_lines("\n".join(kept))) >= REFERENCE_SECONDS * FRAME_RATE:
            break
    return "\n".join(kept)
