"""What a model says about itself: read strictly, kept by every export, used where the caller left a default."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice import Engine, GenerationRequest, InputError, Sampling, Waveform
from omnivoice.errors import CheckpointError, FileError, OmniVoiceError
from omnivoice.generate.recommended import with_recommended
from omnivoice.text.own_tokens import OwnToken, OwnTokens
from omnivoice.text.tokenizer import own_tokens
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.model_settings import FILE, NO_SETTINGS, ModelSettings, parse_model_settings, settings_for

SETTINGS = {
    "name": "a fine-tune",
    "tags": ["happy", "clears throat"],
    "languages": ["la", "id:xx-a1"],
    "recommended": {"denoise": False, "guidance": 3, "steps": 4, "chunk_seconds": 10.5, "language": "id:la"},
}
TOKENS = ["<|dur_3|>", "[chuckle]", "<silence>"]
WORD_CONTROL = [
    *(f"<|dur_{i}|>" for i in range(64)),
    *(f"<|bnd_{i}|>" for i in range(5)),
    *(f"<|eng_{i}|>" for i in range(20)),
    *(f"<|pit_{i}|>" for i in range(20)),
    *(f"<|ton_{shape}|>" for shape in ("flat", "rise", "rrise", "fall", "ffall", "peak", "valley")),
]


def own(*texts: str) -> OwnTokens:
    return OwnTokens(tuple(OwnToken(text, 500 + i) for i, text in enumerate(texts)))


def tuned(checkpoint: Path, folder: Path, settings: dict | None = None, tokens: list[str] = TOKENS) -> Path:
    """A copy of the tiny checkpoint with tokens of its own and an omnivoice_nodes.json."""
    shutil.copytree(checkpoint, folder)
    table = json.loads((folder / "tokenizer.json").read_text())
    table["added_tokens"] += [{"id": 430 + i, "content": text} for i, text in enumerate(tokens)]
    (folder / "tokenizer.json").write_text(json.dumps(table))
    if settings is not None:
        (folder / FILE).write_text(json.dumps(settings))
    return folder


def settings_of(place: Path) -> ModelSettings:
    files = locate_checkpoint(place)
    return files.settings(own_tokens(files.tokenizer_json()))


def test_a_file_is_read() -> None:
    found = parse_model_settings(json.dumps(SETTINGS).encode())
    assert found == ModelSettings(
        "a fine-tune",
        ("happy", "clears throat"),
        False,
        ("la", "xx-a1"),
        {"denoise": False, "guidance": 3.0, "steps": 4, "chunk_seconds": 10.5, "language": "id:la"},
    )
    assert parse_model_settings(b"{}") == NO_SETTINGS
    assert parse_model_settings(b'{"text_as_written": true}').text_as_written is True


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            {"tagz": []},
            "it has the unknown key 'tagz'; allowed are name, tags, text_as_written, languages, recommended",
        ),
        ({"recommended": {"seed": 1}}, "recommended has the unknown key 'seed'; allowed are steps, guidance"),
        ({"recommended": {"steps": 2.5}}, "steps must be a whole number 1-256, got 2.5"),
        ({"recommended": {"steps": True}}, "steps must be a whole number 1-256, got True"),
        ({"recommended": {"guidance": 25}}, "guidance must be 0-10, got 25"),
        ({"recommended": {"denoise": 0}}, "denoise must be true or false, got 0"),
        ({"recommended": {"language": "Klingonish"}}, "language 'Klingonish' is not known"),
        ({"recommended": []}, "recommended must be a JSON object"),
        ({"tags": "happy"}, "tags must be a list of at most 500 names, got 'happy'"),
        ({"tags": ["[happy]"]}, r"without brackets, as \"happy\", got '\[happy\]'"),
        ({"tags": [""]}, "a tag must be a name of 1-40 characters"),
        ({"tags": ["x" * 41]}, "a tag must be a name of 1-40 characters"),
        ({"tags": ["x"] * 501}, "tags must be a list of at most 500 names"),
        ({"languages": ["Latin!"]}, "language 'id:Latin!' is not known"),
        ({"languages": [5]}, "language must be a string, got 5"),
        ({"languages": ["la", None]}, "language must be a string, got None"),
        ({"languages": [[]]}, "language must be a string, got list"),
        ({"languages": ["id:"]}, "language 'id:' is not known"),
        ({"languages": [""]}, "language 'id:' is not known"),
        ({"languages": ["auto"]}, None),
        ({"text_as_written": "yes"}, "text_as_written must be true or false, got 'yes'"),
        ({"name": ""}, "name must be a string of 1-80 printable characters"),
        ([], "it must be a JSON object"),
    ],
)
def test_what_cannot_be_used_is_refused(content: object, complaint: str | None) -> None:
    data = json.dumps(content).encode()
    if complaint is None:
        assert parse_model_settings(data).languages == ("auto",)  # a language may be called so
        return
    with pytest.raises(CheckpointError, match=f"^{FILE}: .*{complaint}"):
        parse_model_settings(data)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"name": "a", "name": "b"}', b"\xff", b'{"recommended": {"steps": NaN}}']
)
def test_what_is_not_strict_json_is_refused(data: bytes) -> None:
    with pytest.raises(FileError, match="not valid JSON"):
        parse_model_settings(data)


def test_a_file_that_is_too_large_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = tuned(checkpoint, tmp_path / "model", {})
    (folder / FILE).write_text('{"name": "x"}' + " " * 70_000)
    with pytest.raises(OmniVoiceError, match=FILE):
        settings_of(folder)
    with pytest.raises(CheckpointError, match="is 70000 bytes long, at most 65536 are allowed"):
        parse_model_settings(b" " * 70_000)


def test_word_control_is_known_by_its_tokens() -> None:
    assert len(WORD_CONTROL) == 116
    place = Path("any name")
    assert settings_for(own(*reversed(WORD_CONTROL)), place, b"").name == "omnivoice-word-control"
    assert settings_for(own(*WORD_CONTROL[1:]), place, b"") == NO_SETTINGS
    assert settings_for(own(*WORD_CONTROL, "<x>"), place, b"") == NO_SETTINGS
    assert settings_for(own(*WORD_CONTROL), place, b'{"name": "mine"}').name == "mine"


@pytest.mark.parametrize(
    ("name", "tags", "written", "recommended"),
    [
        ("omnivoice-singing", "singing happy sad angry excited calm nervous whisper", False, {}),
        ("OmniSinger", "singing", True, {}),
        ("OmniVoice-Emilia", "", False, {"denoise": False, "language": "auto"}),
    ],
)
@pytest.mark.parametrize(
    "place", ["models/{}", "{}.safetensors", "hub/models--someone--{}/snapshots/0123abcd", "models/someone--{}"]
)
def test_others_are_known_by_their_name(
    checkpoint: Path, tmp_path: Path, name: str, tags: str, written: bool, recommended: dict, place: str
) -> None:
    for spelled in (name, name.upper()):
        where = tmp_path / place.format(spelled)
        found = settings_for(OwnTokens(), where, b"")
        assert (found.name, found.tags, found.text_as_written) == (name, tuple(tags.split()), written)
        assert found.recommended == recommended
    for other in ("OmniVoice", f"my-{name}", f"{name}-2"):
        assert settings_for(OwnTokens(), tmp_path / place.format(other), b"") == NO_SETTINGS


@pytest.mark.parametrize("settings", [SETTINGS, {}, None])
def test_every_export_keeps_them(checkpoint: Path, tmp_path: Path, settings: dict | None) -> None:
    first = tuned(checkpoint, tmp_path / "model", settings)
    expected = settings_of(first)
    assert (expected == NO_SETTINGS) is (not settings)
    single = export_checkpoint(locate_checkpoint(first), tmp_path / "single.safetensors")
    folder = export_folder(locate_checkpoint(single), tmp_path / "folder")
    again = export_folder(locate_checkpoint(first), tmp_path / "again")
    for place in (single, folder, again):
        assert settings_of(place) == expected
        assert own_tokens(locate_checkpoint(place).tokenizer_json()) == own_tokens(
            (first / "tokenizer.json").read_bytes()
        )


def test_a_model_known_by_its_name_stays_known_under_another(checkpoint: Path, tmp_path: Path) -> None:
    first = tuned(checkpoint, tmp_path / "omnivoice-singing", None, [])
    single = export_checkpoint(locate_checkpoint(first), tmp_path / "other.safetensors")
    assert settings_of(single) == settings_of(first)
    assert settings_of(first).name == "omnivoice-singing"


@pytest.fixture(scope="module")
def engine(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tuned(checkpoint, tmp_path_factory.mktemp("models") / "tuned", SETTINGS))


def test_recommended_settings_take_effect_and_are_reported(engine: Engine) -> None:
    (speech,) = engine.generate([GenerationRequest("Hello there.", seed=1)])
    used = speech.request
    assert used is not None
    assert (used.denoise, used.language, used.chunk_seconds) == (False, "id:la", 10.5)
    assert (used.sampling.steps, used.sampling.guidance) == (4, 3.0)
    assert speech.notes == (
        "recommended by the model: denoise off, chunk_seconds 10.5, language id:la, guidance 3, steps 4",
    )
    assert speech.warnings == ()  # the language is the model's own


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"sampling": Sampling(steps=6)}, ("steps", 6)),
        ({"sampling": Sampling(guidance=0.0)}, ("guidance", 0.0)),
        ({"given": frozenset({"steps"})}, ("steps", 32)),
        ({"given": ["guidance"]}, ("guidance", 2.0)),
        ({"given": frozenset({"denoise"})}, ("denoise", True)),
        ({"language": "en"}, ("language", "en")),
        ({"given": frozenset({"language"})}, ("language", None)),
        ({"chunk_seconds": 12.0}, ("chunk_seconds", 12.0)),
    ],
)
def test_a_given_setting_wins(engine: Engine, given: dict, kept: tuple[str, object]) -> None:
    (plan,) = engine.plan([GenerationRequest("Hello there.", seed=1, **given)])
    name, value = kept
    source = plan.request.sampling if hasattr(plan.request.sampling, name) else plan.request
    assert getattr(source, name) == value
    assert f"{name} " not in plan.notes[0]


@pytest.mark.parametrize(("speed", "used"), [(None, 1.5), (1.0, 1.5), (0.8, 0.8), (1.2, 1.2)])
def test_a_speed_of_one_is_the_default(speed: float | None, used: float) -> None:
    advice = ModelSettings(recommended={"speed": 1.5})
    request, notes, _ = with_recommended(GenerationRequest("Hello.", speed=speed), advice)
    assert request.speed == used
    assert notes == (("recommended by the model: speed 1.5",) if used == 1.5 else ())
    forced, notes, _ = with_recommended(GenerationRequest("Hello.", speed=1.0, given=frozenset({"speed"})), advice)
    assert (forced.speed, notes) == (1.0, ())


def test_what_is_given_must_be_names(engine: Engine) -> None:
    with pytest.raises(InputError, match="given must be a set of names of settings, got 'steps'"):
        engine.plan([replace(GenerationRequest("Hello there."), given="steps")])


def test_a_model_without_settings_changes_nothing(checkpoint: Path) -> None:
    (plan,) = Engine.load(checkpoint).plan([GenerationRequest("Hello there.", seed=1)])
    assert (plan.notes, plan.request) == ((), GenerationRequest("Hello there.", seed=1))


def test_a_model_without_languages_warns_of_one(checkpoint: Path, tmp_path: Path) -> None:
    place = tuned(checkpoint, tmp_path / "OmniVoice-Emilia", None, [])
    emilia = Engine.load(place)
    plain, english = emilia.plan([GenerationRequest("Hello there.", language=one) for one in (None, "en")])
    assert (plain.warnings, plain.notes) == ((), ("recommended by the model: denoise off",))
    assert english.language == "en"
    assert english.warnings == (
        "this model was trained without languages, and en may harm the speech: leave language at auto",
    )


@pytest.mark.parametrize("language", ["la", "LA", "id:la", "xx-a1", "id:xx-a1"])
def test_its_own_languages_need_no_prefix_and_give_no_warning(engine: Engine, language: str) -> None:
    (plan,) = engine.plan([GenerationRequest("Hello there.", language=language)])
    assert plan.language == language.lower().removeprefix("id:")
    assert plan.warnings == ()


def test_other_languages_of_ones_own_give_one_warning(engine: Engine) -> None:
    (plan,) = engine.plan([GenerationRequest("Hello there.", language="id:qq")])
    assert plan.warnings == ("qq: not a language of OmniVoice; only a model that was trained with this id knows it",)


def test_tags_that_it_knows_are_not_warned_about(engine: Engine) -> None:
    assert engine.rules.tags == ("happy", "clears throat", "chuckle")
    text = "[happy] Hello there. [clears throat] Hello! [chuckle]"
    (plan, other) = engine.plan([GenerationRequest(one) for one in (text, "[hapy] Hello there.")])
    assert plan.chunks[0].text == text
    assert plan.warnings == ()
    (warning,) = other.warnings
    assert warning.endswith("did you mean [happy]?")


def test_tokens_reach_the_prompt_of_a_voice_and_of_speech(engine: Engine) -> None:
    """From a typed transcript and text to the ids that the model reads, with nothing lost on the way."""
    t = torch.linspace(0, 3, 72_000)
    noise = torch.randn(72_000, generator=torch.Generator().manual_seed(1))
    samples = 0.3 * noise * (torch.sin(2 * torch.pi * 3 * t) > -0.5)
    voice = engine.encode_voice(Waveform(samples, 24_000), "It is <|dur_3|>fine, <i>and</i> it was<silence>")
    assert voice.text == "It is <|dur_3|>fine, and it was<silence>."
    (plan,) = engine.plan([GenerationRequest("So [chuckle] it <|dur_3|>is.", voice=voice, seed=1)])
    ids = engine._runner(None)._item(plan, 0, []).prompt_ids
    assert [one for one in ids if one >= 430] == [430, 432, 431, 430]


def test_the_examples_of_the_documentation_are_the_known_settings() -> None:
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    found = [parse_model_settings(text.encode()) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert [one.name for one in found] == [
        "omnivoice-word-control",
        "omnivoice-singing",
        "OmniSinger",
        "OmniVoice-Emilia",
    ]
    assert found[0] == settings_for(own(*WORD_CONTROL), Path("any"), b"")
    assert found[1:] == [settings_for(OwnTokens(), Path(one.name), b"") for one in found[1:]]
