"""Join Audio, Audio Image and the frame nodes on a real ComfyUI, and lists of voices in the library."""

from __future__ import annotations

LOADER = {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32"}}


def clip(comfy) -> dict:
    name = next(path.name for path in (comfy.base / "input").glob("omnivoice*.wav"))
    return {"class_type": "LoadAudio", "inputs": {"audio": name}}


def listed(first: list, second: list) -> dict:
    """Two outputs as one list, by a node that the tests bring along."""
    return {"class_type": "AudioList", "inputs": {"first": first, "second": second}}


def show(source: list) -> dict:
    return {"class_type": "PreviewAny", "inputs": {"source": source}}


def test_a_list_is_joined_counted_and_drawn(comfy) -> None:
    prompt = {
        "a": {"class_type": "EmptyAudio", "inputs": {"duration": 1.0, "sample_rate": 44100, "channels": 2}},
        "b": clip(comfy),
        "list": listed(["a", 0], ["b", 0]),
        "join": {"class_type": "OmniVoiceJoinAudio", "inputs": {"audio": ["list", 0], "gap_seconds": 0.5}},
        "count": {
            "class_type": "OmniVoiceSecondsToFrames",
            "inputs": {"seconds": ["join", 2], "fps": 23.976, "rounding": "up"},
        },
        "back": {"class_type": "OmniVoiceFramesToSeconds", "inputs": {"frames": ["count", 0], "fps": 23.976}},
        "draw": {
            "class_type": "OmniVoiceAudioImage",
            "inputs": {"audio": ["join", 0], "scale": "mel", "width": 640, "height": 320},
        },
        "image": {"class_type": "SaveImage", "inputs": {"images": ["draw", 0], "filename_prefix": "drawn"}},
        "starts": show(["join", 1]),
        "seconds": show(["join", 2]),
        "frames": show(["count", 0]),
        "video": show(["back", 0]),
    }
    found = comfy.outputs(prompt)
    assert len(found["image"]["images"]) == 1
    starts = [float(text) for text in found["starts"]["text"]]
    (seconds,), (frames,), (video,) = ([float(t) for t in found[k]["text"]] for k in ("seconds", "frames", "video"))
    assert starts == [0.0, 1.5] and seconds > 2
    assert video - 1 / 23.976 < seconds <= video == frames / 23.976


def test_a_list_of_voices_is_saved_under_numbers(comfy) -> None:
    prompt = {
        "1": LOADER,
        "a": clip(comfy),
        "list": listed(["a", 0], ["a", 0]),
        "3": {
            "class_type": "OmniVoiceReferenceAudio",
            "inputs": {"model": ["1", 0], "audio": ["list", 0], "transcript": "Some words that were said."},
        },
        "4": {
            "class_type": "OmniVoiceSaveVoice",
            "inputs": {"voice": ["3", 0], "name": "cast/anna", "language": "de", "consent": "", "overwrite": False},
        },
        "5": show(["4", 1]),
    }
    found = comfy.outputs(prompt)["5"]["text"]
    assert [line.split(":")[1].strip() for line in found] == ["cast/anna 1", "cast/anna 2"]
    assert all("language German" in line for line in found)
    loaded = {"5": {"class_type": "OmniVoiceLoadVoice", "inputs": {"voice_name": "Cast\\anna 2"}}, "6": show(["5", 2])}
    assert comfy.outputs(loaded)["6"]["text"] == ["German"]
