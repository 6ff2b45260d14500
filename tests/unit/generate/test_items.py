"""An error about one of several requests says which one."""

import pytest
import torch

from omnivoice import Engine, GenerationRequest, InputError, NumericError, Sampling, TextError, VoicePrompt
from omnivoice.generate.items import item_name, naming_item


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


def request(text="Hello there.", **fields):
    return GenerationRequest(text=text, seed=1, sampling=Sampling(steps=1), **fields)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Good morning everyone, and welcome.", 'item 2 of 3 ("Good morning everyone, a…")'),
        ("Short.", 'item 2 of 3 ("Short.")'),
        ("two\n lines", 'item 2 of 3 ("two lines")'),
        ("早上好", 'item 2 of 3 ("早上好")'),
        ("a\x1b[31m\ud800", 'item 2 of 3 ("a�[31m�")'),
        (5, 'item 2 of 3 ("5")'),
    ],
)
def test_an_item_is_named_by_number_and_first_words(text, name):
    assert item_name(1, ["x", text, "y"]) == name


def test_the_error_keeps_its_class_and_a_single_request_its_message():
    with pytest.raises(TextError, match=r'^item 1 of 2 \("Hello"\): too long$'), naming_item(0, ["Hello", "x"]):
        raise TextError("too long")
    with pytest.raises(TextError, match=r"^too long$"), naming_item(0, ["Hello"]):
        raise TextError("too long")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request("____"), r'item 3 of 4 \("____"\): nothing to speak'),
        (request("Good day.", speed=9), r'item 3 of 4 \("Good day."\): speed must be'),
        (request("Good day.", design="green"), r'item 3 of 4 \("Good day."\): .*green'),
        (request("Good day.", voice=VoicePrompt(torch.full((8, 9), 1024), "x", 0.1)), r"item 3 of 4 .*voice has 8"),
        (None, r'item 3 of 4 \("None"\): generate takes GenerationRequest'),
    ],
)
def test_a_bad_request_of_a_list_is_named(engine, bad, message):
    with pytest.raises(InputError, match=message):
        engine.plan([request("One."), request("Two."), bad, request("Four.")])


def test_a_single_bad_request_is_not_numbered(engine):
    with pytest.raises(InputError, match=r"^speed must be"):
        engine.plan([request(speed=9)])


def test_an_item_that_cannot_be_decoded_is_named(engine, monkeypatch):
    decode = engine.codec.decoder.decode
    calls = []
    monkeypatch.setattr(
        engine.codec.decoder, "decode", lambda codes, **k: calls.append(0) or decode(codes, **k) / (len(calls) != 2)
    )
    with pytest.raises(NumericError, match=r'item 2 of 2 \("Second."\): the codec produced NaN'):
        engine.generate([request("First."), request("Second.")])
