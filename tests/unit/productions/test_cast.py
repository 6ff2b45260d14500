"""The cast: who speaks under which name, and which speakers need a reference of their own."""

from __future__ import annotations

import pytest
import torch

from omnivoice.errors import InputError
from omnivoice.productions.cast import Cast, Speaker, reference_requests, speakers_from
from omnivoice.types import GenerationRequest, VoiceDesign, VoicePrompt

ANNA = VoicePrompt(torch.zeros(8, 50, dtype=torch.int64), "Hello.", 0.1, name="Anna")
NAMELESS = VoicePrompt(torch.zeros(8, 50, dtype=torch.int64), "Hello.", 0.1)
DEEP = VoiceDesign(("male", "low pitch"))
BASE = GenerationRequest("", seed=3, duration=2.0, exact_length=True, speed=2.0)


@pytest.mark.parametrize(
    "names, voices, speakers",
    [
        ("", {}, ()),
        ("\n \n", {}, ()),
        ("Alice\nBob", {}, (Speaker("Alice"), Speaker("Bob"))),
        ("Alice\nBob", {1: ANNA}, (Speaker("Alice", ANNA), Speaker("Bob"))),
        ("Alice\nBob", {2: DEEP}, (Speaker("Alice"), Speaker("Bob", design=DEEP))),
        ("", {1: ANNA}, (Speaker("Anna", ANNA),)),
        ("\nBob\n", {1: ANNA, 2: DEEP}, (Speaker("Anna", ANNA), Speaker("Bob", design=DEEP))),
        (" Big   Bob ", {1: DEEP}, (Speaker("Big Bob", design=DEEP),)),
        ("Alice", {3: ANNA}, (Speaker("Alice"), Speaker("Anna", ANNA))),
    ],
)
def test_names_and_voices_by_number(names: str, voices: dict, speakers: tuple[Speaker, ...]) -> None:
    assert speakers_from(names, voices) == speakers


@pytest.mark.parametrize("voices", [{2: NAMELESS}, {2: DEEP}])
def test_a_voice_without_a_name_is_refused(voices: dict) -> None:
    with pytest.raises(InputError, match=r"^voice 2 has no name: write one on line 2 of the names$"):
        speakers_from("Alice", voices)


@pytest.mark.parametrize("names", [None, 3, ["Alice"]])
def test_names_are_a_text(names: object) -> None:
    with pytest.raises(InputError, match=r"^the names of speakers must be a text with one name on each line$"):
        speakers_from(names, {})


def test_names_match_in_any_spelling_and_others_get_the_default() -> None:
    cast = Cast((Speaker("  Élise  Roux"), Speaker("Bob")), Speaker("", ANNA))
    assert cast.names == ("Élise Roux", "Bob")
    for name in ("Élise Roux", "elise roux", "ELISE  ROUX", "E\u0301lise Roux"):
        assert cast.find(name) is cast.speakers[0]
    for name in (None, "", "Carol", "Bobby"):
        assert cast.find(name) is cast.default


@pytest.mark.parametrize("names", [["Bob", "BOB"], [""], ["a:b"], ["laughter"]])
def test_bad_names_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError):
        Cast(tuple(map(Speaker, names)))


def test_who_needs_a_reference_and_what_it_says() -> None:
    cast = Cast((Speaker("Alice"), Speaker("Bob", ANNA), Speaker("Carol", design=DEEP, language="en"), Speaker("Dan")))
    long = "This sentence is long enough to be a reference on its own, and it takes more than four seconds to say."
    texts = {
        "Alice": ["Yes.", "[pause 2s] No.", long, "More."],
        "Bob": ["a", "b"],
        "Carol": [long, "x"],
        "Dan": ["one"],
    }
    requests = reference_requests(cast, {**texts, "": ["Hi.", "Ho."]}, BASE)
    shared = {"seed": 3, "duration": None, "exact_length": False, "speed": None}
    assert requests == {
        "Alice": GenerationRequest(f"Yes.\nNo.\n{long}", **shared),
        "Carol": GenerationRequest(long, design=DEEP, language="en", **shared),
        "": GenerationRequest("Hi.\nHo.", **shared),
    }


def test_a_reference_replaces_the_design() -> None:
    cast = Cast((Speaker("Carol", design=DEEP, language="en"), Speaker("Bob")))
    changed = cast.with_voices({"Carol": ANNA, "": NAMELESS})
    assert changed.speakers == (Speaker("Carol", ANNA, None, "en"), Speaker("Bob"))
    assert changed.default == Speaker("", NAMELESS)


def test_the_request_of_a_speaker() -> None:
    speaker = Speaker("Carol", ANNA, DEEP, "en")
    assert speaker.request(BASE, "Hi") == GenerationRequest(
        "Hi", ANNA, DEEP, "en", seed=3, duration=2.0, exact_length=True, speed=2.0
    )
    assert speaker.request(GenerationRequest("", language="de"), "Hi").language == "en"
    assert Speaker("Bob").request(GenerationRequest("", language="de"), "Hi").language == "de"
