"""Train LoRA on a real ComfyUI: dataset, training, core's Save LoRA and loss graph, and speech with the result; cancel
in mid-training, and resume; bad values; the graph's model stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

CLIPS = Path(__file__).resolve().parents[1] / "assets" / "training" / "clips"
FOLDER = "train clips"
SHORT = {"preset": "voice", "run_name": "", "seed": 3, "steps": 4, "learning_rate": 0.01, "rank": 2}
SETTINGS = {"batch_size": 4, "warmup": 0.0, "validation": 0.25, "validate_every": 2}
# ComfyUI reports progress after every 0.5 % of the steps.
LONG = {"steps": 2_000, "learning_rate": 0.0001, "save_every": 0, "validate_every": 0}
MAIN = {*SHORT, "existing_lora", "resume"}  # widgets of Train LoRA; all others are those of Training Settings
SAMPLES = """
import av, numpy, sys
with av.open(sys.argv[1]) as file:
    frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
sys.stdout.buffer.write(numpy.concatenate(frames, axis=1).tobytes())
"""


@pytest.fixture(scope="module")
def server(comfy) -> object:
    shutil.copytree(CLIPS, comfy.base / "input" / FOLDER)
    return comfy


def graph(dtype: str = "fp32", lora: str = "", **training: object) -> dict:
    """Load, dataset, settings, train, and its report; with a LoRA of models/loras before the training."""
    main = {**SHORT, **{name: value for name, value in training.items() if name in MAIN}}
    expert = {**SETTINGS, **{name: value for name, value in training.items() if name not in MAIN}}
    sockets = {"model": ["load", 0], "dataset": ["data", 0], "settings": ["settings", 0]}
    nodes = {
        "load": ("LoadOmniVoice", {"model_name": "OmniVoice", "dtype": dtype, "graphs": "auto"}),
        "data": ("OmniVoiceDataset", {"model": ["load", 0], "folder": FOLDER, "language": "English"}),
        "settings": ("OmniVoiceTrainingSettings", expert),
        "train": ("OmniVoiceTrainLoRA", {**sockets, **main}),
        "report": ("PreviewAny", {"source": ["train", 3]}),
        "steps": ("PreviewAny", {"source": ["train", 2]}),
    }
    if lora:
        nodes["before"] = ("OmniVoiceApplyLoRA", {"model": ["load", 0], "lora_name": lora, "strength": 1.0})
        nodes["train"][1]["model"] = ["before", 0]
    return {key: {"class_type": kind, "inputs": inputs} for key, (kind, inputs) in nodes.items()}


def add(prompt: dict, key: str, kind: str, **inputs: object) -> None:
    prompt[key] = {"class_type": kind, "inputs": inputs}


def speaking(prompt: dict, tag: str, model: list, text: str = "Hello there.") -> dict:
    add(prompt, f"{tag}say", "OmniVoiceSynthesize", model=model, text=text, seed=5, preset="draft", duration=1.0)
    add(prompt, f"{tag}save", "SaveAudio", audio=[f"{tag}say", 0], filename_prefix=f"audio/{tag}")
    return prompt


def run(comfy, prompt: dict) -> dict:
    """Runs a prompt that must succeed; its outputs in the history."""
    prompt_id = comfy.submit(prompt)
    ended, data = list(comfy.events(prompt_id))[-1]
    assert ended == "execution_success", data
    comfy.files(prompt_id)  # waits for the history
    return comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"]


def report(found: dict) -> str:
    return found["report"]["text"][0]


def sounds(comfy, found: dict) -> dict[str, str]:
    """A hash of the samples of each recording, by its tag."""
    hashes = {}
    for file in (file for output in found.values() for file in output.get("audio", [])):
        query = urllib.parse.urlencode({k: file[k] for k in ("filename", "subfolder", "type")})
        path = comfy.base / "to_hash"
        path.write_bytes(comfy.request(f"/view?{query}")[1])
        samples = subprocess.run([comfy.python, "-c", SAMPLES, str(path)], capture_output=True, check=True).stdout
        assert len(samples) > 10_000
        hashes[file["filename"].partition("_")[0]] = hashlib.sha256(samples).hexdigest()
    return hashes


def runs(comfy, name: str) -> Path:
    return comfy.base / "output" / "omnivoice_training" / name


def header(path: Path) -> dict:
    data = path.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def cancel_at(comfy, prompt: dict, step: int) -> tuple[str, dict, int]:
    """Cancelled once that many steps of the training are done: how it ended, and the last step that was told."""
    prompt_id, asked, last = comfy.submit(prompt), False, 0
    for kind, data in comfy.events(prompt_id):
        if kind == "progress" and data["node"] == "train":
            last = data["value"]
            if not asked and last >= step:
                comfy.interrupt()
                asked = True
    assert asked and last < 1000
    return kind, data, last


def kept(comfy, prompt: dict, saved: int) -> dict:
    """The outputs of a run that resumes from step `saved` and is cancelled some steps later."""
    prompt_id, asked, told = comfy.submit(prompt), False, []
    for kind, data in comfy.events(prompt_id):
        if kind == "progress" and data["node"] == "train":
            told.append(data["value"])
            if not asked and told[-1] >= saved + 5:
                comfy.interrupt()
                asked = True
    assert kind == "execution_success", data
    assert told[0] == saved + 1
    comfy.files(prompt_id)
    found = comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"]
    assert f"resumed: cancelled was at step {saved}" in report(found) and "cancelled at step" in report(found)
    assert told[-1] <= int(found["steps"]["text"][0])
    return found


def test_dataset_train_save_graph_apply_speak(server) -> None:
    """All of it in one graph; the model speaks as before; the saved file speaks as the socket does."""
    before = sounds(server, run(server, speaking({"load": graph()["load"]}, "plain", ["load", 0])))
    prompt = graph(run_name="whole way")
    add(prompt, "keep", "SaveLoRA", lora=["train", 0], prefix="loras/trained here", steps=["train", 2])
    add(prompt, "curve", "LossGraphNode", loss=["train", 1], filename_prefix="loss")
    add(
        prompt,
        "apply",
        "OmniVoiceApplyLoRA",
        model=["load", 0],
        lora_name="none (use the lora input)",
        strength=1.0,
        lora=["train", 0],
    )
    add(prompt, "change", "PreviewAny", source=["apply", 1])
    speaking(prompt, "trained", ["apply", 0])
    speaking(prompt, "plain", ["load", 0], text="Hello there. ")  # not from the cache
    found = run(server, prompt)
    heard = sounds(server, found)
    assert heard["plain"] == before["plain"] != heard["trained"]
    assert found["steps"]["text"] == ["4"] and "finished at step 4 of 4" in report(found)
    assert "8 of 8 clips" in report(found) and "best validation loss: " in report(found)
    assert "applied to 23 of 23 modules" in found["change"]["text"][0]
    assert [image["type"] for image in found["curve"]["images"]]
    name = "trained here_4_steps_00001_.safetensors"
    assert (server.base / "output" / "loras" / name).is_file()
    from_file = {"load": prompt["load"]}
    add(from_file, "apply", "OmniVoiceApplyLoRA", model=["load", 0], lora_name=name, strength=1.0)
    assert sounds(server, run(server, speaking(from_file, "saved", ["apply", 0])))["saved"] == heard["trained"]
    folder = runs(server, "whole way")
    assert {
        "settings.json",
        "metrics.jsonl",
        "best.safetensors",
        "whole way.safetensors",
        "whole way-best.safetensors",
    } <= {path.name for path in folder.iterdir()}
    about = header(folder / "whole way.safetensors")["__metadata__"]
    assert about["format"] == "omnivoice_lora" and about["steps"] == "4" and "8 of 8 clips" in about["data"]
    on_top = run(server, graph(existing_lora=name, steps=3))
    assert on_top["steps"]["text"] == ["7"] and "finished at step 3 of 3" in report(on_top)


def test_one_step_has_a_loss_graph_too(server) -> None:
    prompt = graph(steps=1)
    add(prompt, "curve", "LossGraphNode", loss=["train", 1], filename_prefix="loss")
    assert run(server, prompt)["curve"]["images"]


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_any_model_and_a_lora_before(server, dtype: str) -> None:
    """Trained in fp32 and in bf16, on top of a LoRA; with offloading; results in bf16."""
    prompt = graph(
        dtype,
        "my_omnivoice_lora.safetensors",
        training_dtype="bf16" if dtype == "bf16" else "auto",
        offloading=True,
        lora_dtype="bf16",
        run_name=f"dtype {dtype}",
    )
    assert f", in {'bf16' if dtype == 'bf16' else 'fp32'}, " in report(run(server, prompt))
    tensors = header(runs(server, f"dtype {dtype}") / f"dtype {dtype}.safetensors")
    assert {entry["dtype"] for key, entry in tensors.items() if "lora_" in key} == {"BF16"}


def test_samples_are_spoken(server) -> None:
    text = "A sample of what was learnt."
    run(server, graph(run_name="with samples", sample_every=2, sample_text=text))
    files = sorted((runs(server, "with samples") / "samples").iterdir())
    assert [file.name for file in files] == ["step-00000002.wav", "step-00000004.wav"]
    assert all(file.stat().st_size > 10_000 for file in files)


def test_cancel_stops_the_workflow_and_the_next_queue_resumes(server) -> None:
    prompt = graph(**{**LONG, "run_name": "cancelled"})
    ended, _, last = cancel_at(server, prompt, 3)
    assert ended == "execution_interrupted"
    (state,) = runs(server, "cancelled").glob("state-*.safetensors")
    saved = int(state.stem.rpartition("-")[2])
    assert last <= saved <= last + 1
    run(server, speaking({"load": prompt["load"]}, "next", ["load", 0], text=f"Still here {saved}."))
    prompt["settings"]["inputs"]["on_cancel"] = "keep what was trained"
    add(
        prompt,
        "apply",
        "OmniVoiceApplyLoRA",
        model=["load", 0],
        lora_name="none (use the lora input)",
        strength=1.0,
        lora=["train", 0],
    )
    speaking(prompt, "kept", ["apply", 0])
    found = kept(server, prompt, saved)
    done = int(found["steps"]["text"][0])
    assert sounds(server, found)["kept"]
    done = int(kept(server, prompt, done)["steps"]["text"][0])  # the very same prompt goes on, too
    lines = (runs(server, "cancelled") / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, done + 1))


HOLD = """
import sys
from pathlib import Path
from omnivoice.train.run import lock_run
with lock_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_that_the_command_line_trains_is_refused_by_its_process(server) -> None:
    folder = runs(server, "held")
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, cwd=CLIPS.parents[3], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        kind, data = list(server.events(server.submit(graph(run_name="held"))))[-1]
        holder.kill()
    assert kind == "execution_error"
    assert f"held is in use by process {holder.pid} on " in data["exception_message"]
    assert "finished at step 4 of 4" in report(run(server, graph(run_name="held")))


def test_a_folder_with_another_run_is_left_as_it_is(server) -> None:
    first = run(server, graph(run_name="taken"))
    assert "folder: output/omnivoice_training/taken\n" in report(first)
    files = {path: path.read_bytes() for path in runs(server, "taken").iterdir()}
    other = run(server, graph(run_name="taken", steps=3))
    assert "steps was 4, now 3: a run goes on to more steps only" in report(other)
    assert "; this run is in taken-2" in report(other)
    again = run(server, graph(run_name="taken", on_cancel="keep what was trained"))
    assert "taken holds a finished run; this run is in taken-3" in report(again)
    assert {path: path.read_bytes() for path in runs(server, "taken").iterdir()} == files


def test_progress_is_told_for_every_step_and_in_words(server) -> None:
    prompt_id, told, texts = server.submit(graph(steps=6, seed=11)), [], []
    for _ in range(2000):
        message = server.socket.recv()
        if isinstance(message, bytes):
            texts.append(message.decode("utf-8", "replace"))
            continue
        event = json.loads(message)
        if event.get("data", {}).get("prompt_id") != prompt_id:
            continue
        if event["type"] == "progress" and event["data"]["node"] == "train":
            told.append(event["data"]["value"])
        if event["type"].startswith("execution_") and event["type"] != "execution_start" and told:
            break
    assert told == sorted(set(told)) and (told[0], told[-1]) == (1, 6)  # newer versions of ComfyUI thin them out
    pattern = r"step 6/6, loss \d\.\d{3}, validation \d\.\d{3}, lr [\d.e-]+, [\d,]+ tokens/s, 0:00 left"
    assert any(re.search(pattern, text) for text in texts), texts


REFUSED = [
    ({"run_name": "../x"}, "a file name may hold letters"),
    ({"run_name": ".x"}, "a file name may not begin or end"),
    ({"run_name": "a/b"}, "a file name may hold letters"),
    ({"run_name": "nul"}, "is a device name on Windows"),
    ({"run_name": "best"}, "choose another name"),
    ({"validation": 0.9}, "validation"),
    ({"preset": "singer"}, "singer"),
    ({"steps": -1}, "steps"),
    ({"warmup": -2.0}, "warmup"),
    ({"rank": 100_000}, "rank"),
    ({"optimizer": "Lion"}, "optimizer"),
    ({"existing_lora": "../x.safetensors"}, "existing_lora"),
    ({"on_cancel": "cry"}, "on_cancel"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=str)
def test_bad_values_are_refused_by_the_server(server, values: dict, words: str) -> None:
    """Each once, on the node and the input that it belongs to."""
    status, body = server.request("/prompt", {"prompt": graph(**values)})
    (name,) = values
    (error,) = json.loads(body)["node_errors"]["train" if name in MAIN else "settings"]["errors"]
    assert status == 400 and words in error["details"] and error["extra_info"]["input_name"] == name


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"offloading": True, "gradient_checkpointing": False}, "offloading needs gradient_checkpointing"),
        ({"sample_every": 5, "run_name": "x", "sample_text": " "}, "sample_every needs a sample_text"),
        ({"sample_every": 5}, "sample_every writes into the run's folder: give a run_name"),
        ({"patience": 2, "validation": 0.0}, "patience needs validations: set validation and validate_every"),
    ],
)
def test_values_that_do_not_go_together_are_refused(server, values: dict, words: str) -> None:
    ended, data = server.run(graph(**values))
    assert ended == "execution_error" and words in data["exception_message"]


@pytest.mark.parametrize(
    ("name", "kind", "value", "words"),
    [
        ("steps", "PrimitiveInt", 10**9, "steps must be 1-1000000, got 1000000000"),
        ("rank", "PrimitiveInt", 10**9, "rank must be 1-256, got 1000000000"),
        ("batch_size", "PrimitiveInt", -1, "batch_size must be 1-10000, got -1"),
        ("grad_accumulation_steps", "PrimitiveInt", 0, "grad_accumulation_steps must be 1-1024, got 0"),
        ("learning_rate", "PrimitiveFloat", -1.0, "learning_rate must be 1e-07-1, got -1.0"),
        ("run_name", "PrimitiveString", "../../x", "a file name may"),
    ],
)
def test_linked_bad_values(server, name: str, kind: str, value: object, words: str) -> None:
    prompt = graph(**{name: ["link", 0]})
    add(prompt, "link", kind, value=value)
    ended, data = server.run(prompt)
    assert ended == "execution_error" and words in data["exception_message"]
    assert str(server.base) not in data["exception_message"]


def test_what_does_not_fit_is_refused_in_words(server) -> None:
    ended, data = server.run(graph(existing_lora="my_omnivoice_lora.safetensors"))
    words = "has rank 3, this training 2: set rank to 3"
    assert ended == "execution_error" and words in data["exception_message"]
    prompt = graph()
    prompt["train"]["inputs"]["dataset"] = {"clips": ()}
    status, body = server.request("/prompt", {"prompt": prompt, "client_id": server.client})
    if status == 200:
        ended, data = list(server.events(json.loads(body)["prompt_id"]))[-1]
        assert ended == "execution_error" and "dataset must come from OmniVoice Dataset" in data["exception_message"]
    else:
        assert status == 400


def test_graph_model_is_bit_identical_whatever_happens(server, checkpoint: Path) -> None:
    """On the real patchers, hashed: trained, failed, cancelled, with a LoRA before; flags and generators as before."""
    pack = next(path for path in (server.base / "custom_nodes").iterdir() if (path / "nodes").is_dir())
    script = Path(__file__).with_name("train_leaves_nothing.py")
    command = [server.python, str(script), str(pack), str(checkpoint), str(CLIPS)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=server.tree, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert all(found.values()), found


def test_the_log_stayed_clean(server) -> None:
    log = server.log_text()
    assert "IMPORT FAILED" not in log and "prompt_worker" not in log and "Prompt executor" not in log
    assert server.process.poll() is None


def test_a_real_whisper_counts_the_words(server) -> None:
    """The tiny random Whisper hears nonsense: no word is right, from the start, so nothing falls."""
    script, folder = Path(__file__).with_name("make_whisper.py"), server.base / "models" / "whisper" / "counting"
    wav = next(CLIPS.glob("*.wav"))
    subprocess.run([server.python, str(script), str(folder), str(wav)], check=True, capture_output=True)
    try:
        found = run(server, graph(run_name="words", stop_words_points=3.0, recogniser="counting"))
    finally:
        shutil.rmtree(folder)  # other tests look at which models there are
    lines = report(found).splitlines()
    assert "right words: 0.0% at best, 0.0% at the last validation" in lines
    assert any(line.startswith("finished at step 4 of 4") for line in lines)
    assert not any("were not counted" in line for line in lines)
    entries = [json.loads(line) for line in (runs(server, "words") / "metrics.jsonl").read_text().splitlines()]
    assert [(e["step"], e["words_right"]) for e in entries if "words_right" in e] == [(0, 0.0), (2, 0.0), (4, 0.0)]
