"""Scripts with speakers, settings, pauses and tags; casts; pronunciation dictionaries, and texts that use them.

What must hold for each that is not refused:
- every line stands at the line and column that it names, is one of the cast's, and what it sets is within the limits;
- of a script that is written as the page on scripts says, no line and no word is lost, and each is its speaker's;
- a name finds its speaker in any spelling;
- an entry of a dictionary is short and can be spoken, and the changes that a dictionary makes give the new text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import torch

from omnivoice import GenerationRequest, VoiceDesign, VoicePrompt
from omnivoice.generate.plan import make_plan
from omnivoice.intake.limits import MAX_ENTRY_CHARS, MAX_PAUSES_SECONDS, MAX_SCRIPT_LINES, check_number
from omnivoice.intake.text_in import clean_text
from omnivoice.productions.cast import Cast, speakers_from
from omnivoice.text.characters import is_spoken
from omnivoice.text.dictionary import respelled
from omnivoice.text.dictionary_reader import parse_dictionary
from omnivoice.text.script import OVERRIDES, Script, folded, parse_script
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.messages import UNSEEN, tried
from tests.fuzz.mutations import mutate
from tests.fuzz.strings import any_text

CAST = ("Alice", "Bob", "Zoë", "Tante Anna", "小明", "राम")
LINE_ENDS = re.compile("\r\n|[\r\n\u2028\u2029]")
SCRIPTS = tuple(
    text.encode()
    for text in (
        "Alice: Good morning.\n[Bob]: {voice speed=1.1 seed=3} Morning!\nIt rains.\n\n[pause 2s]\nAlice: Yes [sigh].\n",
        "- **Zoë:** Salut\n* * *\n[Tante Anna] {voice language=de duration=2.5}Guten Tag\n小明：你好。\nराम: नमस्ते\n",
        '{voice language="Scottish Gaelic"} Halò <b>a h-uile</b> duine &amp; Bob\r\nBob: 10:30 it is\r\n---\r\n',
    )
)
ROWS = (
    "Alice:",
    "[Bob]",
    "[Bob]:",
    "Zoë：",
    "**Alice:**",
    "{voice",
    "speed=1e9",
    "seed=-1",
    "}",
    "[pause 31s]",
    "\n",
    " ",
)
LABELS = ("{}: ", "[{}]: ", "[{}] ", "{}：", "- {}: ", "**{}:** ", "  {}:\t")
DICTIONARIES = tuple(
    text.encode()
    for text in (
        'nginx = engine x\nNASA = nasa\nde: Jalapeño = Chalapenjo\nany: Bass = [B EY1 S]\n"a: b" = a to b\n# no\n',
        "de exact: 重庆 = 重 慶\n",
        'word,replacement,language,case\nnginx,engine x,en,any\n"a,b",a b,,exact\nहिंदी,hindi,hi,\n',
        "word;replacement\nStraße;Strasse\nqu'est;kest\n",
        "replacement\tword\ncolonel\tkernel\n",
    )
)
DICTIONARY_WORDS = ("nginx", "NASA", "bass", "Bass", "Jalapeño", "重庆", "हिंदी", "a: b", "STRASSE", "qu’est")


def attack(run: Run) -> None:
    """Read scripts, casts and dictionaries in turn."""
    kinds = (_mutant, _mutant, _pieces, _pieces, _written, _dictionary, _dictionary, _cast)
    while run.more():
        kinds[run.inputs % len(kinds)](run)


def _mutant(run: Run) -> None:
    """A script as it is found in a file, damaged."""
    data = mutate(run.rng, run.rng.choice(SCRIPTS), SCRIPTS)
    _read(run, data.decode("utf-8", "surrogateescape"))


def _pieces(run: Run) -> None:
    """A script of parts in any order."""
    _read(run, "".join([*run.rng.choices(ROWS, k=1 + run.rng.randrange(6)), any_text(run.rng, 4), "\nBob: x"]))


def _read(run: Run, text: str) -> None:
    cast = CAST if run.rng.random() < 0.8 else None
    with tried(run, text):
        script = parse_script(text, cast)
        rows = LINE_ENDS.split(clean_text(text))
        for line in script.lines:
            if rows[line.number - 1][line.column - 1 :].rstrip() != line.text:
                run.finding(text, "a line is not at the place that it names", repr(line))
            if cast is not None and line.speaker not in cast:
                run.finding(text, "a line is that of a speaker who is not in the cast", repr(line))
            _check_settings(run, text, line.overrides)
        silences = [script.tail_seconds, *(line.pause_seconds or 0 for line in script.lines)]
        if len(script.lines) > MAX_SCRIPT_LINES or not all(0 <= one <= MAX_PAUSES_SECONDS for one in silences):
            run.finding(text, "a script is beyond the limits")
        if UNSEEN.search("".join(script.warnings)):
            run.finding(text, "a warning has a character that cannot be seen")
        if run.rng.random() < 0.2:
            _plan(run, script)


def _check_settings(run: Run, text: str, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if name not in OVERRIDES or (name != "language" and check_number(name, value) != value):
            run.finding(text, "a line has a setting beyond the limits", f"{name} = {value!r}")


def _plan(run: Run, script: Script) -> None:
    """Plan the first lines as a dialogue does."""
    for line in script.lines[:2]:
        make_plan(GenerationRequest(line.text, seed=1, **{k: v for k, v in line.overrides.items() if k != "seed"}))


def _written(run: Run) -> None:
    """A script as people are told to write it; every line of it must come back."""
    wanted = []
    rows = []
    for _ in range(1 + run.rng.randrange(5)):
        speaker = run.rng.choice(CAST)
        words = " ".join(
            run.rng.choices(("Good", "morning,", "你好。", "9", "नमस्ते!", "(it", "rains)", "ok:", "été"), k=3)
        )
        wanted.append((speaker, words if any(map(is_spoken, words[:5])) else f"So {words}"))
        name = run.rng.choice(
            (speaker, speaker.upper(), unicodedata.normalize("NFD", speaker), speaker.replace(" ", "  "))
        )
        rows += [run.rng.choice(LABELS).format(name) + wanted[-1][1], *run.rng.choices(("", "  ", "[pause 1s]"), k=1)]
    text, refused = run.rng.choice(("\n", "\r\n", "\r", "\u2028")).join(rows), run.refused
    with tried(run, text):
        read = [(line.speaker, line.text) for line in parse_script(text, CAST).lines]
        if read != wanted:
            run.finding(text, "a line of a well-formed script is lost or another's", f"{read}\n{wanted}")
    if run.refused > refused:
        run.finding(text, "a well-formed script is refused")


def _dictionary(run: Run) -> None:
    """A dictionary as it is found in a file, damaged, and a text with words of it."""
    seed = run.rng.choice(DICTIONARIES)
    data = seed if run.rng.random() < 0.2 else mutate(run.rng, seed, DICTIONARIES)
    text = data.decode("utf-8", "surrogateescape")
    with tried(run, text):
        dictionary = parse_dictionary(text)
        for entry in dictionary.entries:
            sizes = len(entry.word), len(entry.replacement)
            if not all(1 <= size <= MAX_ENTRY_CHARS for size in sizes) or UNSEEN.search(entry.word + entry.replacement):
                run.finding(text, "an entry is empty, too long or has characters that cannot be seen", repr(entry))
        said = clean_text(
            "".join(part for w in run.rng.choices(DICTIONARY_WORDS, k=3) for part in (w, " ", any_text(run.rng, 2)))
        )
        made = respelled(said, dictionary, run.rng.choice((None, "de", "en")))
        parts, end = [], 0
        for change in made.result.changes:
            parts += [said[end : change.start], change.spoken]
            ordered = end <= change.start < change.end and said[change.start : change.end] == change.original
            end = change.end
            if not ordered:
                run.finding((text, said), "the changes are not in order, or not where they say")
        if "".join([*parts, said[end:]]) != made.result.text or not made.used <= set(dictionary.entries):
            run.finding((text, said), "the changes do not make the new text")


def _cast(run: Run) -> None:
    """Names from a text, with voices for some of them."""
    names = [
        any_text(run.rng, 3) if run.rng.random() < 0.5 else run.rng.choice(CAST) for _ in range(run.rng.randrange(5))
    ]
    voice = VoicePrompt(
        torch.zeros(8, 25, dtype=torch.int64), "x", 0.1, name=run.rng.choice(("", "Old", "Alice", "\u202eb"))
    )
    voices = {
        run.rng.randrange(1, 6): run.rng.choice((voice, VoiceDesign(("female",)))) for _ in range(run.rng.randrange(3))
    }
    text = "\n".join(names)
    with tried(run, text):
        cast = Cast(speakers_from(text, voices))
        for speaker in cast.speakers:
            other = unicodedata.normalize("NFD", f"  {speaker.name} ").swapcase()
            if cast.find(speaker.name) is not speaker or (
                (folded(other) == folded(speaker.name)) and cast.find(other) is not speaker
            ):
                run.finding(text, "a name does not find its speaker", repr(speaker.name))


CAMPAIGN = Campaign(name="scripts", unit="scripts, casts and dictionaries", goal=200_000, share=2, attack=attack)
