"""Spoken AI Notice on a real ComfyUI: the recording is kept sample for sample, `check` knows the file, refusals."""

from __future__ import annotations

import json
import subprocess
import urllib.parse

import pytest

from omnivoice.intake.mark_reader import read_marks

LOADER = {
    "class_type": "LoadOmniVoice",
    "inputs": {"model_name": "demo voice (speaks a small vocabulary)", "dtype": "fp32"},
}
WORDS = "Good morning, the weather is beautiful today."  # which the demo voice can say
# Whether the second file is silence, the first one and nothing else from a sample on; its rates and channels.
COMPARE = """
import av, json, numpy, sys
def read(path):
    with av.open(path) as file:
        frames = [(f.to_ndarray(), f.sample_rate) for f in file.decode(audio=0)]
    return numpy.concatenate([samples for samples, _ in frames], axis=1), frames[0][1]
(old, rate), (new, made) = read(sys.argv[1]), read(sys.argv[2])
first = round(float(sys.argv[3]) * rate)
kept = new[:, first : first + old.shape[1]]
before, after = new[:, :first], new[:, first + old.shape[1]:]
same = rate == made and kept.shape == old.shape and bool((kept == old).all())
print(json.dumps([same,
                  before.shape[1] / rate, after.shape[1] / rate, int(abs(before).max()) if first else 0]))
"""


def prompt_of(**inputs: object) -> dict:
    """A prompt that speaks, adds the notice, saves both recordings and shows where the first starts in the second."""
    say = {"model": ["load", 0], "text": "My sister is a very clever doctor.", "seed": 0, "preset": "draft"}
    notice = {"model": ["load", 0], "audio": ["say", 0], "language": "English", "text": WORDS, **inputs}
    return {
        "load": LOADER,
        "say": {"class_type": "OmniVoiceSynthesize", "inputs": say},
        "notice": {"class_type": "OmniVoiceDisclose", "inputs": notice},
        "before": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/plain"}},
        "after": {"class_type": "SaveAudio", "inputs": {"audio": ["notice", 0], "filename_prefix": "audio/notice"}},
        "start": {"class_type": "PreviewAny", "inputs": {"source": ["notice", 1]}},
    }


def compared(comfy, prompt: dict) -> tuple[list, float]:
    """COMPARE's answer for the two files that a prompt saves, and the second at which the recording starts."""
    outputs = comfy.outputs(prompt)
    paths = []
    for name in ("before", "after"):
        (file,) = outputs[name]["audio"]
        query = urllib.parse.urlencode({key: file[key] for key in ("filename", "subfolder", "type")})
        status, body = comfy.request(f"/view?{query}")
        assert status == 200
        paths.append(comfy.base / f"disclosed-{name}.flac")
        paths[-1].write_bytes(body)
    assert "OmniVoiceDisclose" in read_marks(paths[1]).nodes
    start = float(outputs["start"]["text"][0])
    done = subprocess.run([comfy.python, "-c", COMPARE, *map(str, paths), str(start)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), start


@pytest.mark.parametrize("place", ["before", "after", "both"])
def test_the_recording_is_kept_and_the_notice_is_where_it_belongs(comfy, place: str) -> None:
    (kept, before, after, peak), start = compared(comfy, prompt_of(place=place, gap_seconds=0.25))
    assert kept and before == pytest.approx(start)
    assert (before > 1, after > 1) == (place != "after", place != "before")
    assert (peak > 1_000) == (place != "after")


@pytest.mark.parametrize(
    "inputs, told",
    [
        ({"text": "", "language": "sw"}, "there is no sentence in language 'sw'"),
        ({"audio": {"waveform": 1}}, "audio must hold a float waveform"),
        ({"voice": "anna"}, "voice must come from"),
        ({"text": "x" * 1_001}, "the text of the notice must be at most 1000 characters"),
    ],
)
def test_what_is_wrong_stops_the_run_with_the_reason(comfy, inputs: dict, told: str) -> None:
    ended, data = comfy.run(prompt_of(**inputs))
    assert ended == "execution_error" and told in data["exception_message"]
    assert compared(comfy, prompt_of())[0][0]  # the next prompt works
