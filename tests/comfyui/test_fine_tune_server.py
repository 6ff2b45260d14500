"""A fine-tune with tokens, a tag and a language of its own on a real ComfyUI: dataset, training, its LoRA, speech.

The prompts are read where the pack makes them, so that what the model was given is known, not only that it spoke.
"""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path

import pytest

from omnivoice.__main__ import main
from tests.fine_tune import (
    LANGUAGE,
    SAID,
    SETTINGS,
    TOKENS,
    TRANSCRIPTS,
    make_fine_tune,
    prompt_by_hand,
    token_ids,
    write_llm_lora,
    write_recordings,
)

CLIPS, TUNED, TOLD, TRAINED, LORA = "tuned clips", "tuned", "tuned and told", "trained.safetensors", "of the llm"
NO_FILE = "none (use the lora input)"
OWN_LANGUAGE = f"{LANGUAGE}: not a language of OmniVoice; only a model that was trained with this id knows it"
ORDER = {"method": "full", "steps": 2, "learning_rate": 1e-3, "save_every": 0, "validation": 0}


@pytest.fixture(scope="module")
def server(comfy_factory, tmp_path_factory):
    """The demo voice's fine-tune, the same with settings, one trained from the command line, and an rsLoRA."""
    work = tmp_path_factory.mktemp("command line")

    def prepare(base: Path) -> None:
        models = base / "models" / "omnivoice"
        make_fine_tune(models / TUNED)
        make_fine_tune(models / TOLD, settings=SETTINGS)
        clips = write_recordings(base / "input" / CLIPS)
        write_llm_lora(base / "models" / "loras" / LORA, models / TUNED)
        order = {"data": str(clips), "output": "run", "model": str(models / TOLD), "settings": ORDER}
        (work / "order.json").write_text(json.dumps({**order, "cache": "cache"}))
        assert main(["train", str(work / "order.json")]) == 0
        assert main(["export", "--model", str(work / "run" / "model-00000002"), "-o", str(models / TRAINED)]) == 0

    server = comfy_factory(with_model=False, prepare=prepare)
    run(server, {**loader(TUNED), **seen(["load", 0])})  # from now on every prompt is noted
    return server


def node(kind: str, **inputs: object) -> dict:
    return {"class_type": kind, "inputs": inputs}


def loader(name: str) -> dict:
    return {"load": node("LoadOmniVoice", model_name=name, dtype="fp32", graphs="auto")}


def seen(after: list) -> dict:
    """Shows every prompt that was made since the last time."""
    return {"seen": node("PromptsSeen", after=after), "prompts": node("PreviewAny", source=["seen", 0])}


def speaking(model: list, tag: str = "", **inputs: object) -> dict:
    """Synthesize with the language typed as a text, its report, and the recording."""
    say = {"model": model, "text": SAID, "seed": 5, "preset": "draft", "language": ["language", 0], **inputs}
    return {
        "language": node("PrimitiveString", value=f"id:{LANGUAGE}"),
        f"{tag}say": node("OmniVoiceSynthesize", **say),
        f"{tag}told": node("PreviewAny", source=[f"{tag}say", 3]),
        f"{tag}save": node("SaveAudio", audio=[f"{tag}say", 0], filename_prefix=f"audio/{tag}tuned"),
    }


def run(server, prompt: dict) -> dict:
    """Runs a prompt that must succeed; its outputs in the history."""
    prompt_id = server.submit(prompt)
    ended, data = list(server.events(prompt_id))[-1]
    assert ended == "execution_success", data
    server.files(prompt_id)  # waits for the history
    return server.get(f"/history/{prompt_id}")[prompt_id]["outputs"]


def text(found: dict, name: str) -> str:
    return found[name]["text"][0]


def prompts(found: dict) -> list[tuple[int, ...]]:
    """Those that were made, without repetitions: speech makes each for its memory estimate, too."""
    return [*dict.fromkeys(tuple(ids) for ids in json.loads(text(found, "prompts")))]


def recording(server, found: dict, tag: str = "") -> bytes:
    (file,) = found[f"{tag}save"]["audio"]
    query = urllib.parse.urlencode({key: file[key] for key in ("filename", "subfolder", "type")})
    data = server.request(f"/view?{query}")[1]
    assert len(data) > 10_000
    return data


def model_folder(server, name: str = TUNED) -> Path:
    return server.base / "models" / "omnivoice" / name


def test_dataset_training_lora_and_speech_in_one_graph(server) -> None:
    tuned = model_folder(server)
    expert = {"batch_size": 4, "warmup": 0.0, "validation": 0.0, "rslora": True}
    main_values = {"preset": "voice", "run_name": "tuned", "seed": 3, "steps": 3, "learning_rate": 0.001, "rank": 4}
    trained = {"model": ["load", 0], "dataset": ["data", 0], "settings": ["expert", 0], **main_values}
    graph = {
        **loader(TUNED),
        "data": node("OmniVoiceDataset", model=["load", 0], folder=CLIPS, language="auto"),
        "list": node("PreviewAny", source=["data", 1]),
        "expert": node("OmniVoiceTrainingSettings", **expert),
        "train": node("OmniVoiceTrainLoRA", **trained),
        "report": node("PreviewAny", source=["train", 3]),
        "apply": node("OmniVoiceApplyLoRA", model=["load", 0], lora_name=NO_FILE, strength=1.0, lora=["train", 0]),
        "change": node("PreviewAny", source=["apply", 1]),
        **speaking(["apply", 0]),
        **seen(["say", 0]),
    }
    found = run(server, graph)
    first, *notes = text(found, "list").splitlines()
    assert first == "4 of 4 clips, 8.6 s, languages: xx (3), unspecified (1)"
    assert notes.count(OWN_LANGUAGE) == 1 and not any("removed" in note for note in notes)
    assert "finished at step 3 of 3" in text(found, "report")
    assert "applied to 44 of 44 modules" in text(found, "change")
    *training, spoken = prompts(found)
    assert spoken == prompt_by_hand(tuned, SAID, LANGUAGE)
    allowed = {prompt_by_hand(tuned, one, spoken) for one in TRANSCRIPTS for spoken in (LANGUAGE, None)}
    assert training and set(training) <= allowed
    used = {token for prompt in training for token in prompt}
    assert {token_ids(tuned)[token] for token in TOKENS} <= used
    told = text(found, "told")
    assert "removed" not in told and told.count(OWN_LANGUAGE) == 1
    plain = run(server, {**loader(TUNED), **speaking(["load", 0], "plain")})
    assert recording(server, found) != recording(server, plain, "plain")


def test_a_lora_of_the_llm_alone_with_rslora(server) -> None:
    """The scale is alpha / sqrt(r): 16 / sqrt(32)."""
    graph = {
        **loader(TUNED),
        "apply": node("OmniVoiceApplyLoRA", model=["load", 0], lora_name=LORA, strength=1.0),
        "change": node("PreviewAny", source=["apply", 1]),
        **speaking(["apply", 0], "with"),
        **speaking(["load", 0], "without"),
    }
    found = run(server, graph)
    told = text(found, "change")
    assert told.startswith(f"LoRA {LORA}: applied to 12 of 44 modules at strength 1;")
    assert told.endswith("12 LoRA A/B pairs (rank 32, scale 2.8284)")
    assert recording(server, found, "with") != recording(server, found, "without")


@pytest.mark.parametrize(("name", "language"), [(TOLD, f"id:{LANGUAGE}"), (TRAINED, f"id:{LANGUAGE}")])
def test_a_model_that_says_what_it_knows_gives_no_warning(server, name: str, language: str) -> None:
    """Its folder, and the single file of the model that the command line trained from it."""
    found = run(server, {**loader(name), **speaking(["load", 0], language=language), **seen(["say", 0])})
    assert prompts(found) == [prompt_by_hand(model_folder(server), SAID, LANGUAGE)]
    told = text(found, "told")
    assert not any(word in told for word in ("removed", "not a language", "not a tag", "cannot say")), told
    recording(server, found)


def test_without_settings_the_tag_and_the_language_are_warned_about_once(server) -> None:
    found = run(server, {**loader(TUNED), **speaking(["load", 0], seed=6), **seen(["say", 0])})
    told = text(found, "told")
    assert told.count(OWN_LANGUAGE) == 1 and told.count("[whisper] is not a tag that this model knows") == 1
    assert "[happy] is" not in told and "removed" not in told
    assert prompts(found) == [prompt_by_hand(model_folder(server), SAID, LANGUAGE)]


def test_the_log_stayed_clean(server) -> None:
    log = server.log_text()
    assert "IMPORT FAILED" not in log and "Traceback" not in log
    assert server.process.poll() is None
