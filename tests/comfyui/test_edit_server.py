"""Edit Speech and Redo on a real ComfyUI, with the demo voice: what is kept, takes, the report, and refusals."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse

import pytest

OLD = "The weather is beautiful today. My sister is a very clever doctor."
NEW = "The weather is beautiful today. My brother is a very clever doctor."
LOADER = {
    "class_type": "LoadOmniVoice",
    "inputs": {"model_name": "demo voice (speaks a small vocabulary)", "dtype": "fp32"},
}
# Whether the parts of two recordings in [start, end) seconds that are named are equal, and the lengths of both.
COMPARE = """
import av, json, numpy, sys
def read(path):
    with av.open(path) as file:
        return numpy.concatenate([f.to_ndarray() for f in file.decode(audio=0)], axis=1)[0]
old, new = read(sys.argv[1]), read(sys.argv[2])
first, last = float(sys.argv[3]), float(sys.argv[4])
a, b = int(first * 24000), int((len(old) / 24000 - last) * 24000)
print(json.dumps([len(old), len(new), bool((old[:a] == new[:a]).all()), bool((old[-b:] == new[-b:]).all()),
                  len(old) == len(new) and bool((old == new).all())]))
"""


def prompt_of(kind: str, **inputs: object) -> dict:
    """A prompt that speaks two sentences, changes the speech, saves both, and shows the report."""
    say = {"model": ["load", 0], "text": OLD, "seed": 0, "preset": "draft", "language": "English"}
    first = {"model": ["load", 0], "audio": ["say", 0], "transcript": OLD, "seed": 1, "quality": "quick"}
    own = {"new_transcript": NEW} if kind == "OmniVoiceEditSpeech" else {"words": "sister", "takes": 2}
    report = 1 if kind == "OmniVoiceEditSpeech" else 2
    prompt = {
        "load": LOADER,
        "say": {"class_type": "OmniVoiceSynthesize", "inputs": say},
        "change": {"class_type": kind, "inputs": {**first, **own, **inputs}},
        "before": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/before"}},
        "after": {"class_type": "SaveAudio", "inputs": {"audio": ["change", 0], "filename_prefix": "audio/after"}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["change", report]}},
        "last": {"class_type": "PreviewAny", "inputs": {"source": ["change", report + 1]}},
    }
    if kind == "OmniVoiceRedo":
        every = {"audio": ["change", 1], "filename_prefix": "audio/every"}
        prompt["every"] = {"class_type": "SaveAudio", "inputs": every}
    return prompt


def run(comfy, prompt: dict) -> tuple[dict, str]:
    """The outputs of a prompt that must succeed, and the report."""
    outputs = comfy.outputs(prompt)
    return outputs, outputs["report"]["text"][0]


def compared(comfy, old: dict, new: dict, report: str) -> tuple[int, int, bool, bool, bool]:
    """COMPARE's answer for two files of the history, by the kept parts that the report names."""
    paths = []
    for number, file in enumerate((old, new)):
        query = urllib.parse.urlencode({key: file[key] for key in ("filename", "subfolder", "type")})
        status, body = comfy.request(f"/view?{query}")
        assert status == 200
        paths.append(comfy.base / f"compared{number}")
        paths[-1].write_bytes(body)
    kept = re.findall(r"kept sample for sample: ([\d.]+)-([\d.]+) s", report)
    assert len(kept) == 2 and float(kept[0][0]) == 0
    # The report rounds to 10 ms: a little less is compared.
    edges = [str(float(kept[0][1]) - 0.01), str(float(kept[1][0]) + 0.01)]
    done = subprocess.run([comfy.python, "-c", COMPARE, *map(str, paths), *edges], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def test_a_word_is_changed_and_the_rest_is_kept(comfy) -> None:
    outputs, report = run(comfy, prompt_of("OmniVoiceEditSpeech"))
    assert report.startswith("“sister” became “brother” at ") and "joints: " in report and "13 steps" in report
    assert outputs["last"]["text"] == [NEW]
    (before,), (after,) = outputs["before"]["audio"], outputs["after"]["audio"]
    _, _, left, right, same = compared(comfy, before, after, report)
    assert left and right and not same


def test_words_are_spoken_again_in_takes(comfy) -> None:
    outputs, report = run(comfy, prompt_of("OmniVoiceRedo", take=2))
    assert report.startswith("take 2 of 2, seed 2\n  take  1  seed 1 ") and "“sister” spoken again at " in report
    (before,), (after,), every = (outputs[name]["audio"] for name in ("before", "after", "every"))
    assert len(every) == 2
    old, new, left, right, same = compared(comfy, before, after, report)
    assert (old, left, right, same) == (new, True, True, False)
    assert compared(comfy, every[1], after, report)[4]
    (line,) = json.loads(outputs["last"]["text"][0])["lines"]
    assert line["text"] == OLD and len(line["words"]) == 12


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("OmniVoiceEditSpeech", {"new_transcript": OLD}, "nothing to change: the two texts say the same"),
        ("OmniVoiceEditSpeech", {"transcript": ""}, "transcript is empty: write word for word"),
        ("OmniVoiceEditSpeech", {"span": "1.5-1.2"}, "span 1.5-1.2 must lie within the "),
        ("OmniVoiceEditSpeech", {"span": "100-101"}, "span 100-101 must lie within the "),
        (
            "OmniVoiceEditSpeech",
            {"transcript": f"{OLD} " * 20, "new_transcript": f"{NEW} " * 20},
            "write exactly what the recording says",
        ),
        ("OmniVoiceEditSpeech", {"timings": "what"}, "timings must be the timings output of a node"),
        ("OmniVoiceRedo", {"words": "brother"}, "the words 'brother' are not in the transcript"),
        ("OmniVoiceRedo", {"words": "is"}, "the words 'is' are 2 times in the transcript: write is#1"),
        ("OmniVoiceRedo", {"words": ""}, "say what to speak again"),
        ("OmniVoiceRedo", {"take": 3}, "take must be 0 or one of the 2 takes, got 3"),
    ],
)
def test_what_cannot_be_done_stops_the_run_with_the_reason(comfy, kind: str, inputs: dict, message: str) -> None:
    ended, data = comfy.run(prompt_of(kind, **inputs))
    assert ended == "execution_error" and message in data["exception_message"], data


@pytest.mark.parametrize("kind", ["OmniVoiceEditSpeech", "OmniVoiceRedo"])
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"span": "soon"}, "span must be seconds such as 1.2-1.85"),
        ({"span": "nan-1"}, "seconds must be 0-86400, got nan"),
        ({"quality": "best"}, "not in list"),
    ],
)
def test_bad_values_are_refused_at_once(comfy, kind: str, inputs: dict, message: str) -> None:
    prompt = prompt_of(kind, **inputs)
    del prompt["before"]  # ComfyUI runs what is right if anything is
    status, body = comfy.request("/prompt", {"prompt": prompt, "client_id": comfy.client})
    assert status == 400 and message in body.decode()


def test_the_next_prompt_works(comfy) -> None:
    _, report = run(comfy, prompt_of("OmniVoiceEditSpeech", new_transcript=OLD.replace("very ", "")))
    assert "“very” deleted at " in report and "nothing had to be spoken" in report
