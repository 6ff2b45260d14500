"""Takes on a real ComfyUI: the choice, the list of takes, retries, the report, and refusals."""

from __future__ import annotations

LOADER = {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32"}}


def prompt_of(**inputs: object) -> dict:
    """A prompt that saves the chosen take and all takes, and shows the report."""
    say = {"model": ["load", 0], "text": "Good morning.", "preset": "draft", "takes": 3, "seed": 5, **inputs}
    return {
        "load": LOADER,
        "say": {"class_type": "OmniVoiceTakes", "inputs": say},
        "save": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/take"}},
        "every": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 1], "filename_prefix": "audio/takes"}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["say", 3]}},
    }


def run(comfy, prompt: dict) -> tuple[dict, str]:
    """The outputs of a prompt that must succeed, and the report."""
    outputs = comfy.outputs(prompt)
    return outputs, outputs["report"]["text"][0]


def test_takes_are_spoken_and_one_is_chosen(comfy) -> None:
    outputs, report = run(comfy, prompt_of(take=2))
    assert len(outputs["every"]["audio"]) == 3 and len(outputs["save"]["audio"]) == 1
    assert report.startswith("take 2 of 3, seed 6, ")
    assert [line.split()[1:4] for line in report.splitlines()[1:] if line.startswith("  take")] == [
        ["1", "seed", "5"],
        ["2", "seed", "6"],
        ["3", "seed", "7"],
    ]


def test_faulty_takes_are_spoken_again_and_what_is_used_is_named(comfy) -> None:
    """The random model's noise ends in the middle of a sound, so there are faults."""
    _, report = run(comfy, prompt_of(takes=1, retries=2))
    assert report.startswith("take 1 of 1, seed ")
    assert " was rejected: it " in report or "no fault" in report.splitlines()[1]
    assert ("no take is without a fault; take 1 is used although it " in report) != ("no fault" in report)


def test_what_cannot_be_done_stops_the_run_with_the_reason(comfy) -> None:
    ended, data = comfy.run(prompt_of(takes=2, take=3))
    assert ended == "execution_error"
    assert "take must be 0 or one of the 2 takes, got 3" in data["exception_message"]
    run(comfy, prompt_of())  # the next prompt works
