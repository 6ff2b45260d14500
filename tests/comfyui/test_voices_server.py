"""The voice library, Download and Transcribe on a real ComfyUI."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
import urllib.parse
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

NODES = {
    "OmniVoiceSaveVoice": (["voice", "name", "language", "consent", "overwrite"], ["OMNIVOICE_VOICE", "STRING"]),
    "OmniVoiceLoadVoice": (["voice_name", "model"], ["OMNIVOICE_VOICE", "STRING", "STRING", "STRING", "AUDIO"]),
    "OmniVoiceDownload": (["model", "accept_licence"], ["COMBO", "STRING"]),
    "OmniVoiceTranscribe": (["audio", "model_name", "language", "word_times"], ["STRING", "STRING"]),
}
HASH = """
import av, hashlib, numpy, sys
with av.open(sys.argv[1]) as file:
    frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
print(hashlib.sha256(numpy.concatenate(frames, axis=1).tobytes()).hexdigest())
"""
LOADER = {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32", "graphs": "auto"}}


def speech(comfy, prompt: dict, voice: list, **extra: object) -> str:
    """Runs `prompt` with a Synthesize node for that voice added; a hash of the samples that were saved."""
    say = {
        "model": ["1", 0],
        "text": "Hello there.",
        "seed": 5,
        "preset": "draft",
        "speed": 1.0,
        "duration": 0.0,
        "language": "auto",
        "voice": voice,
        **extra,
    }
    prompt = {
        **prompt,
        "8": {"class_type": "OmniVoiceSynthesize", "inputs": say},
        "9": {"class_type": "SaveAudio", "inputs": {"audio": ["8", 0], "filename_prefix": "audio/voice"}},
    }
    prompt_id = comfy.submit(prompt)
    ended, data = list(comfy.events(prompt_id))[-1]
    assert ended == "execution_success", data
    (file,) = comfy.files(prompt_id)
    _, body = comfy.request(f"/view?{urllib.parse.urlencode({k: file[k] for k in ('filename', 'subfolder', 'type')})}")
    path = comfy.base / "to_hash"
    path.write_bytes(body)
    return subprocess.run([comfy.python, "-c", HASH, str(path)], capture_output=True, text=True, check=True).stdout


def clone(comfy) -> dict:
    clip = next(path.name for path in (comfy.base / "input").glob("omnivoice*.wav"))
    return {
        "1": LOADER,
        "2": {"class_type": "LoadAudio", "inputs": {"audio": clip}},
        "3": {
            "class_type": "OmniVoiceReferenceAudio",
            "inputs": {"model": ["1", 0], "audio": ["2", 0], "transcript": "Some words that were said."},
        },
    }


def saving(comfy, name: object, **inputs: object) -> dict:
    values = {"voice": ["3", 0], "name": name, "language": "English", "consent": "", "overwrite": False, **inputs}
    return {**clone(comfy), "4": {"class_type": "OmniVoiceSaveVoice", "inputs": values}}


def loading(name: object) -> dict:
    return {"1": LOADER, "5": {"class_type": "OmniVoiceLoadVoice", "inputs": {"voice_name": name}}}


def shown(comfy, prompt: dict, *links: list) -> list[str]:
    """The texts at these outputs, by core's Preview as Text."""
    views = {str(90 + i): {"class_type": "PreviewAny", "inputs": {"source": link}} for i, link in enumerate(links)}
    outputs = comfy.outputs({**prompt, **views})
    return [outputs[view]["text"][0] for view in views]


def refusal(comfy, prompt: dict) -> str:
    """The words of a prompt that the server must refuse at validation."""
    status, body = comfy.request("/prompt", {"prompt": prompt, "client_id": comfy.client})
    assert status == 400, body
    return " ".join(e["details"] for node in json.loads(body)["node_errors"].values() for e in node["errors"])


def failure(comfy, prompt: dict) -> str:
    ended, data = comfy.run(prompt)
    assert ended == "execution_error", data
    return data["exception_message"]


def options(comfy, node: str, name: str) -> list[str]:
    given = comfy.get(f"/object_info/{node}")[node]["input"]["required"][name]
    return given[0] if isinstance(given[0], list) else given[1]["options"]


def test_inputs_and_outputs(comfy) -> None:
    info = comfy.get("/object_info")
    for node, (inputs, outputs) in NODES.items():
        found = [name for kind in ("required", "optional") for name in info[node]["input_order"].get(kind, [])]
        assert (found, info[node]["output"]) == (inputs, outputs)
    assert info["OmniVoiceSaveVoice"]["output_node"] and info["OmniVoiceDownload"]["output_node"]
    assert "omnivoice_voices" in comfy.get("/models")


def test_a_saved_voice_speaks_as_the_direct_one(comfy) -> None:
    direct = speech(comfy, saving(comfy, "Anna", consent="espeak-ng"), ["3", 0])
    assert "Anna" in options(comfy, "OmniVoiceLoadVoice", "voice_name")  # without a restart
    assert speech(comfy, saving(comfy, "Anna", consent="espeak-ng"), ["4", 0]) == direct
    assert speech(comfy, loading("Anna"), ["5", 0]) == direct
    speech(comfy, loading("Anna"), ["5", 0], language="en-US")
    speech(comfy, loading("Anna"), ["5", 0], language=["5", 2])  # its language fits the menu of Synthesize
    texts = shown(comfy, loading("Anna"), ["5", 1], ["5", 2], ["5", 3])
    assert texts[:2] == ["Some words that were said.", "English"] and "consent: espeak-ng" in texts[2]


def test_saving_again(comfy) -> None:
    shown(comfy, saving(comfy, "Again", consent="one"), ["4", 1])
    said = failure(comfy, saving(comfy, "again", consent="two"))
    assert "a voice named 'Again' is in the library already: choose another name, or switch overwrite on" in said
    assert shown(comfy, saving(comfy, "again", consent="two", overwrite=True), ["4", 1])[0].startswith("saved: Again")
    assert "consent: two" in shown(comfy, loading("Again"), ["5", 3])[0]  # the file changed, so it was read anew


def test_a_deleted_voice(comfy) -> None:
    speech(comfy, saving(comfy, "Gone"), ["3", 0])
    prompt = {**loading("Gone"), "9": {"class_type": "PreviewAny", "inputs": {"source": ["5", 1]}}}
    assert comfy.run(prompt)[0] == "execution_success"
    (comfy.base / "models" / "omnivoice_voices" / "Gone.safetensors").unlink()
    assert "got 'Gone': press R" in refusal(comfy, prompt)


@pytest.mark.parametrize("name", ["../x", "a//b", "C:\\x", "NUL", "", "a\0b", ".x", "x" * 150], ids=ascii)
def test_bad_names_are_refused_at_validation(comfy, name: str) -> None:
    said = refusal(comfy, saving(comfy, name))
    assert "name" in said and said.count("cannot be used") <= 1


def test_an_unknown_language_of_a_voice_stops_the_run(comfy) -> None:
    assert "'Klingon' is not known" in failure(comfy, saving(comfy, "x", language="Klingon"))


def test_linked_bad_names_are_refused_by_the_node(comfy) -> None:
    before = {path for path in comfy.base.rglob("*") if "output" not in path.parts and "temp" not in path.parts}
    prompt = saving(comfy, ["99", 0])
    prompt["99"] = {"class_type": "PrimitiveString", "inputs": {"value": "../../custom_nodes/x"}}
    assert "cannot be used: a file name may not begin or end with a dot" in failure(comfy, prompt)
    after = {path for path in comfy.base.rglob("*") if "output" not in path.parts and "temp" not in path.parts}
    assert {p for p in after - before if p.suffix in {".safetensors", ".py"}} == set()


def test_listening_needs_the_model(comfy) -> None:
    speech(comfy, saving(comfy, "Heard"), ["3", 0])
    prompt = loading("Heard")
    prompt["9"] = {"class_type": "SaveAudio", "inputs": {"audio": ["5", 4], "filename_prefix": "audio/preview"}}
    assert "connect Load OmniVoice to the model input" in failure(comfy, prompt)
    prompt["5"]["inputs"]["model"] = ["1", 0]
    sound = comfy.speak(prompt)
    assert sound["rate"] == 24_000 and sound["finite"] and sound["rms"] > 1e-4


def download(accept: bool = True) -> dict:
    inputs = {"model": "OmniVoice", "accept_licence": accept}
    return {"7": {"class_type": "OmniVoiceDownload", "inputs": inputs}}


def test_download_without_licence_or_network(comfy) -> None:
    assert "accept_licence must be on" in refusal(comfy, download(accept=False))
    said = failure(comfy, download())
    assert "differs from the published file" in said or "HF_HUB_OFFLINE forbids" in said  # the tiny model lies there
    assert str(comfy.base) not in said


def test_download_load_and_speak_in_one_prompt(
    comfy_factory: Callable[..., object], hub, published: dict, checkpoint: Path
) -> None:
    hub.files = {p.relative_to(checkpoint).as_posix(): p.read_bytes() for p in checkpoint.rglob("*") if p.is_file()}
    published["models"]["OmniVoice"]["files"] = [
        {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in hub.files.items()
    ]

    def prepare(base: Path) -> None:
        (manifest,) = base.glob("custom_nodes/*/omnivoice/weights/manifest.json")
        manifest.write_text(json.dumps(published))

    bare = comfy_factory(
        with_model=False, prepare=prepare, environment={"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0"}
    )
    hub.faults = [("status", 503)] * 50
    prompt_id = bare.submit(download())
    while len(hub.seen) < 1:
        time.sleep(0.02)
    bare.interrupt()
    assert list(bare.events(prompt_id))[-1][0] == "execution_interrupted"
    hub.faults, hub.seen[:] = [("cut", 100)], []
    loader = {**LOADER, "inputs": {**LOADER["inputs"], "model_name": ["7", 0]}}
    assert speech(bare, {**download(), "1": loader}, None)
    assert {path for path, _, _ in hub.seen} == {hub.prefix + name for name in hub.files}
    assert all(token is None for _, _, token in hub.seen)
    (report,) = shown(bare, download(), ["7", 1])
    assert "WEIGHTS CC-BY-NC" in report and "downloaded" in report


@pytest.fixture(scope="module")
def whisper(comfy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A tiny random Whisper in models/whisper, and what it hears in input/speech16.wav, by language."""
    seconds = np.arange(16_000 * 3) / 16_000
    sound = 0.3 * np.sin(2 * np.pi * 200 * seconds * (1 + 0.2 * np.sin(seconds))) * (np.sin(3 * seconds) > 0)
    clip = comfy.base / "input" / "speech16.wav"
    with wave.open(str(clip), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((sound * 32_767).astype("<i2").tobytes())
    folder = comfy.base / "models" / "whisper" / "tiny-random"
    folder.mkdir(parents=True)
    script = Path(__file__).with_name("make_whisper.py")
    done = subprocess.run(
        [comfy.python, str(script), str(folder), str(clip)], capture_output=True, text=True, cwd=comfy.base
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def hearing(model: str = "tiny-random", language: str = "auto", clip: str = "speech16.wav") -> dict:
    inputs = {"audio": ["2", 0], "model_name": model, "language": language}
    return {
        "2": {"class_type": "LoadAudio", "inputs": {"audio": clip}},
        "6": {"class_type": "OmniVoiceTranscribe", "inputs": inputs},
    }


def test_transcribe_without_a_model(comfy) -> None:
    if (comfy.base / "models" / "whisper" / "tiny-random").exists():
        pytest.skip("another test has made a model")
    (entry,) = options(comfy, "OmniVoiceTranscribe", "model_name")
    clip = next(path.name for path in (comfy.base / "input").glob("omnivoice*.wav"))
    prompt = hearing(entry, clip=clip)
    prompt["9"] = {"class_type": "PreviewAny", "inputs": {"source": ["6", 0]}}
    said = refusal(comfy, prompt)
    assert "models/whisper" in said and "model.safetensors" in said and "any other speech recognition node" in said


def test_transcribe_hears_what_the_model_hears(comfy, whisper: dict[str, str]) -> None:
    assert options(comfy, "OmniVoiceTranscribe", "model_name") == ["tiny-random"]
    for language, code in (("English", "en"), ("German", "de"), ("en", "en"), ("DE_at", "de")):
        expected = " ".join(whisper[code].split())
        assert [" ".join(t.split()) for t in shown(comfy, hearing(language=language), ["6", 0])] == [expected]
    assert len(set(whisper.values())) == 2 and all(len(text) > 3 for text in whisper.values())
    (heard,) = shown(comfy, hearing(), ["6", 0])
    assert heard


def test_whisper_times_the_words(comfy, whisper: dict[str, str]) -> None:
    prompt = hearing(language="English")
    prompt["6"]["inputs"]["word_times"] = True
    prompt["7"] = {"class_type": "OmniVoiceTimings", "inputs": {"timings": ["6", 1], "format": "subtitles of words"}}
    (table,) = map(json.loads, shown(comfy, prompt, ["6", 1]))
    assert table["seconds"] == 3.0 and {line["words_are"] for line in table["lines"]} == {"recognised"}
    words = [word for line in table["lines"] for word in line["words"]]
    assert words and all(0 <= word["start"] <= word["end"] <= 3.1 for word in words)
    (srt,) = shown(comfy, prompt, ["7", 0])
    assert srt.count("-->") == len(words)


def test_transcript_goes_into_a_reference(comfy, whisper: dict[str, str]) -> None:
    prompt = {**clone(comfy), **{k: v for k, v in hearing().items() if k != "2"}}
    prompt["3"]["inputs"]["transcript"] = ["6", 0]
    ended, data = comfy.run({**prompt, "4": saving(comfy, "Dictated")["4"]})
    assert ended == "execution_success" or "no word" in data["exception_message"], data


def test_transcribe_unknown_language(comfy, whisper: dict[str, str]) -> None:
    prompt = hearing(language="Japanese")
    prompt["9"] = {"class_type": "PreviewAny", "inputs": {"source": ["6", 0]}}
    assert "does not know the language" in failure(comfy, prompt)
    prompt["6"]["inputs"]["language"] = "Germann"
    assert "German (de)" in failure(comfy, prompt)


def test_transcribe_long_and_silent_sound(comfy, whisper: dict[str, str]) -> None:
    silent = {
        "2": {"class_type": "EmptyAudio", "inputs": {"duration": 3.0, "sample_rate": 8_000, "channels": 2}},
        "6": hearing()["6"],
    }
    assert shown(comfy, silent, ["6", 0]) == [""]
    noise = np.random.default_rng(1).normal(0, 0.1, 16_000 * 70)
    with wave.open(str(comfy.base / "input" / "long16.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((noise.clip(-1, 1) * 32_767).astype("<i2").tobytes())
    prompt = hearing(clip="long16.wav")
    prompt["9"] = {"class_type": "PreviewAny", "inputs": {"source": ["6", 0]}}
    events = list(comfy.events(comfy.submit(prompt)))
    assert events[-1][0] == "execution_success", events[-1]
    steps = [data for kind, data in events if kind == "progress" and data["node"] == "6"]
    assert steps[-1]["max"] == steps[-1]["value"] == 3


def test_the_log_stayed_clean(comfy) -> None:
    log = comfy.log_text()
    assert "IMPORT FAILED" not in log and "prompt_worker" not in log
    assert comfy.process.poll() is None
