"""Models that say something about themselves, in a graph: own tokens, settings, languages, text as written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

TOKENS = ["<|dur_3|>", "[chuckle]", "<silence>"]
ABOUT = {"tags": ["happy"], "languages": ["la"], "recommended": {"denoise": False, "steps": 3, "guidance": 1}}
OWN_WARNING = "not a language of OmniVoice; only a model that was trained with this id knows it"


@pytest.fixture(scope="module")
def loaded(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    folder = stand_in.folder / "tuned"
    shutil.copytree(checkpoint, folder)
    table = json.loads((folder / "tokenizer.json").read_text())
    table["added_tokens"] += [{"id": 430 + i, "content": text} for i, text in enumerate(TOKENS)]
    (folder / "tokenizer.json").write_text(json.dumps(table))
    (folder / "omnivoice_nodes.json").write_text(json.dumps(ABOUT))
    return loaded_pack.host.models.load_model("tuned", "auto", "auto")


def report_of(nodes, model, text="Hello there.", **inputs):
    """The report of Synthesize, with a Settings node if `settings` is given."""
    if "settings" in inputs:
        (inputs["settings"],) = nodes["OmniVoiceSettings"].execute(**inputs["settings"]).values
    lists = {name: [value] for name, value in {"text": text, "seed": 1, **inputs}.items()}
    return nodes["OmniVoiceSynthesize"].execute(model=[model], **lists).values[3][0]


def test_recommended_settings_take_effect_and_are_reported(nodes, model) -> None:
    report = report_of(nodes, model)
    assert "3 steps, guidance 1" in report.partition("\n")[0]
    assert "\nrecommended by the model: denoise off, steps 3, guidance 1" in report
    assert "settings: denoise False" in report


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ({"settings": {"denoise": True}}, "recommended by the model: steps 3, guidance 1"),
        ({"settings": {"guidance": 2.0}}, "recommended by the model: denoise off, steps 3"),
        ({"settings": {"steps": 32}}, "recommended by the model: denoise off, guidance 1"),
        ({"settings": {"steps": 0, "guidance": 0.0}}, "recommended by the model: denoise off, steps 3"),
        ({"preset": "draft"}, "recommended by the model: denoise off, guidance 1"),
    ],
)
def test_a_given_setting_wins(nodes, model, inputs, line) -> None:
    assert line in report_of(nodes, model, **inputs).split("\n")


def test_a_settings_node_as_the_browser_sends_it_decides_everything_but_the_steps(nodes, model) -> None:
    every = {item.id: item.default for item in nodes["OmniVoiceSettings"].define_schema().inputs}
    report = report_of(nodes, model, settings=every)
    assert "recommended by the model: steps 3" in report.split("\n")
    assert "text_as_written" not in report


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_pass(nodes, model, token) -> None:
    report = report_of(nodes, model, f"Hello {token}there, it is {token} fine.")
    assert f"Hello {token}there, it is {token} fine." in report
    assert "warning" not in report


TYPED = "So {65:24} it <is> [odd]."


@pytest.mark.parametrize(("switch", "spoken"), [(True, TYPED), (False, "So  65:24  it  is  [odd].")])
def test_text_as_written(nodes, model, switch, spoken) -> None:
    report = report_of(nodes, model, TYPED, settings={"text_as_written": switch})
    assert spoken in report
    assert ("symbols that are not spoken were removed" in report) is not switch
    assert "[odd] is not a tag that this model knows" in report


@pytest.mark.parametrize(("language", "warned"), [("id:la", False), ("la", False), ("id:qq", True), ("English", False)])
def test_languages_of_ones_own_in_synthesize(nodes, model, language, warned) -> None:
    report = report_of(nodes, model, language=language)
    assert report.count(OWN_WARNING) == warned
    assert f"language: {language}" in report


@pytest.mark.parametrize(("language", "kept", "warned"), [("id:la", "la", 0), ("la", "la", 0), ("id:qq", "qq", 1)])
def test_languages_and_tokens_in_the_dataset_node(nodes, model, host, language, kept, warned) -> None:
    (host.folder.parents[1] / "user").mkdir()
    sound = 0.1 * torch.randn(2, 1, 36_000, generator=torch.Generator().manual_seed(1))
    inputs = {
        "folder": ["none (use the audio input)"],
        "audio": [{"waveform": sound, "sample_rate": 24_000}],
        "text": ["Good <|dur_3|>morning.\nGood [chuckle] evening."],
        "language": [language],
        "instruct": [""],
    }
    dataset, report, *_ = nodes["OmniVoiceDataset"].execute(model=[model], **inputs).values
    assert [clip.text for clip in dataset.clips] == ["Good <|dur_3|>morning.", "Good [chuckle] evening."]
    assert {clip.language for clip in dataset.clips} == {kept}
    assert report.count(OWN_WARNING) == warned


@pytest.mark.parametrize("value", ["yes", 1, None.__class__, [True]])
def test_the_switch_takes_only_true_and_false(nodes, value) -> None:
    with pytest.raises(ValueError, match="text_as_written must be True, False or None"):
        nodes["OmniVoiceSettings"].execute(text_as_written=value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<|dur_3|>", None),
        ("<|dur_3|> ...", None),
        ("Hello <|dur_3|>there.", None),
        ("...", "nothing to speak"),
        ("<>", "nothing to speak"),
        ("[pause soon] Hello.", "cannot be read"),
    ],
)
def test_a_text_of_tokens_is_judged_by_the_model(nodes, model, text, complaint) -> None:
    result = nodes["OmniVoiceSynthesize"].validate_inputs(text=[text])
    assert (result is True) if complaint is None else (complaint in result)
    if text == "<|dur_3|>":
        with pytest.raises(ValueError, match="has only tokens of the model, and no length of its own"):
            report_of(nodes, model, text)
        assert "frames: 50" in report_of(nodes, model, text, duration=2.0)


@pytest.mark.parametrize(
    ("switch", "spoken"), [(True, "I have five dollars [laughter]."), (False, "I have $5 [laughter].")]
)
def test_normalise_is_in_the_report(nodes, model, switch: bool, spoken: str) -> None:
    report = report_of(nodes, model, "I have $5 [laughter].", settings={"normalise": switch})
    assert spoken in report
    assert ("normalised: “$5” → “five dollars”" in report.split("\n")) is switch
