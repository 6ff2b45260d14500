"""Apply LoRA on a real ComfyUI: heard through the server, and bit for bit on its real patchers."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import urllib.parse
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ASSETS = HERE.parent / "assets" / "lora"
NONE = "none (use the lora input)"
SAMPLES = """
import av, numpy, sys
with av.open(sys.argv[1]) as file:
    frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
sys.stdout.buffer.write(numpy.concatenate(frames, axis=1).tobytes())
"""


@pytest.fixture(scope="module")
def loras(comfy) -> Path:
    """models/loras with two PEFT folders, an image model's LoRA, a pickle, and a damaged file."""
    folder = comfy.base / "models" / "loras"
    for name in ("saved", "llm_only"):
        shutil.copytree(ASSETS / name, folder / name)
    (folder / "voices").mkdir()
    write(folder / "voices" / "image.safetensors", {"lora_unet_down.lora_up.weight": [2, 2]})
    (folder / "damaged.safetensors").write_bytes((ASSETS / "saved" / "adapter_model.safetensors").read_bytes()[:5000])
    (folder / "old.pt").write_bytes(b"\x80\x02")
    return folder


def write(path: Path, shapes: dict[str, list[int]]) -> None:
    """A safetensors file of zeros; this environment may have no torch."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


def prompt(*loras: tuple[str, float], seed: int = 5, dtype: str = "fp32", tag: str = "a") -> dict:
    """Load, the LoRAs in a row, speak, save. Node ids begin with `tag`, but for the loader's."""
    load = {"model_name": "OmniVoice", "dtype": dtype, "graphs": "auto"}
    nodes = {"load": {"class_type": "LoadOmniVoice", "inputs": load}}
    model = "load"
    for number, (name, strength) in enumerate(loras):
        inputs = {"model": [model, 0], "lora_name": name, "strength": strength}
        model = f"{tag}lora{number}"
        nodes[model] = {"class_type": "OmniVoiceApplyLoRA", "inputs": inputs}
    say = {
        "model": [model, 0],
        "text": "Hello there.",
        "seed": seed,
        "preset": "draft",
        "speed": 1.0,
        "duration": 1.0,
        "language": "auto",
    }
    nodes[f"{tag}say"] = {"class_type": "OmniVoiceSynthesize", "inputs": say}
    save = {"audio": [f"{tag}say", 0], "filename_prefix": f"audio/{tag}"}
    return {**nodes, f"{tag}save": {"class_type": "SaveAudio", "inputs": save}}


def sounds(comfy, nodes: dict) -> dict[str, str]:
    """Runs a prompt that must succeed; a hash of the samples for each tag."""
    return heard(comfy, comfy.submit(nodes))


def heard(comfy, prompt_id: str) -> dict[str, str]:
    """Waits for a prompt that must succeed; a hash of the samples for each tag."""
    ended, data = list(comfy.events(prompt_id))[-1]
    assert ended == "execution_success", data
    found = {}
    for file in comfy.files(prompt_id):
        query = urllib.parse.urlencode({k: file[k] for k in ("filename", "subfolder", "type")})
        path = comfy.base / "to_hash"
        path.write_bytes(comfy.request(f"/view?{query}")[1])
        samples = subprocess.run([comfy.python, "-c", SAMPLES, str(path)], capture_output=True, check=True).stdout
        assert len(samples) > 10_000
        found[file["filename"].partition("_")[0]] = hashlib.sha256(samples).hexdigest()
    return found


def sound(comfy, nodes: dict) -> str:
    (one,) = sounds(comfy, nodes).values()
    return one


def refusal(comfy, nodes: dict) -> str:
    ended, data = comfy.run(nodes)
    assert ended == "execution_error"
    assert str(comfy.base) not in data["exception_message"]
    return data["exception_message"]


def test_menu(comfy, loras: Path) -> None:
    info = comfy.get("/object_info/OmniVoiceApplyLoRA")["OmniVoiceApplyLoRA"]
    names = info["input"]["required"]["lora_name"]
    options = names[0] if isinstance(names[0], list) else names[1]["options"]
    options = [name for name in options if "_steps_" not in name]  # those that tests of training saved in output/loras
    # os.sep: ComfyUI names files in subfolders with the system's separator
    image = os.path.join("voices", "image.safetensors")
    assert options == [
        NONE,
        *sorted(["damaged.safetensors", "llm_only", "my_omnivoice_lora.safetensors", "saved", image]),
    ]
    assert info["output"] == ["OMNIVOICE_MODEL", "STRING"]
    assert info["input"]["optional"]["lora"][0] == "LORA_MODEL"


def test_strength_0_and_removal_are_the_base_bit_for_bit(comfy, loras: Path) -> None:
    base = sound(comfy, prompt())
    assert sound(comfy, prompt(("saved", 0.0), tag="zero")) == base
    with_lora = sound(comfy, prompt(("saved", 1.0), tag="with"))
    assert with_lora != base
    assert sound(comfy, prompt(tag="removed", seed=5)) == base
    assert sound(comfy, prompt(("saved", 1.0), tag="again")) == with_lora
    assert sound(comfy, prompt(("saved", 0.5), tag="half")) not in (base, with_lora)


def test_base_and_lora_in_one_graph_in_any_order(comfy, loras: Path) -> None:
    alone = {
        tag: sound(comfy, prompt(*use, seed=7, tag=tag))
        for tag, use in (("base", ()), ("one", (("saved", 1.0),)), ("two", (("saved", 1.0), ("llm_only", -0.5))))
    }
    assert len(set(alone.values())) == 3
    together = {
        **prompt(seed=7, tag="base"),
        **prompt(("saved", 1.0), seed=7, tag="one"),
        **prompt(("saved", 1.0), ("llm_only", -0.5), seed=7, tag="two"),
    }
    for node in together.values():  # not from the cache: another text, then the old one
        node["inputs"].update({"text": "Something else."} if "text" in node["inputs"] else {})
    sounds(comfy, together)
    for tag in ("two", "base", "one"):
        together[f"{tag}say"]["inputs"]["text"] = "Hello there."
        comfy.request("/free", {"unload_models": tag == "base", "free_memory": tag == "base"})
    assert sounds(comfy, dict(reversed(together.items()))) == alone


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_halves(comfy, loras: Path, dtype: str) -> None:
    base = sound(comfy, prompt(dtype=dtype, tag="plain"))
    assert sound(comfy, prompt(("llm_only", 1.0), dtype=dtype, tag="with")) != base
    assert sound(comfy, prompt(("llm_only", 0.0), dtype=dtype, tag="zero")) == base


def test_report(comfy, loras: Path) -> None:
    nodes = prompt(("saved", 1.0), tag="r")
    nodes["show"] = {"class_type": "PreviewAny", "inputs": {"source": ["rlora0", 1]}}
    prompt_id = comfy.submit(nodes)
    assert list(comfy.events(prompt_id))[-1][0] == "execution_success"
    comfy.files(prompt_id)  # waits for the history
    (text,) = comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"]["show"]["text"]
    assert text.strip('"').startswith(
        "LoRA saved: applied to 7 of 23 modules at strength 1; changes their weights by 34."
    )


REFUSED = [
    (os.path.join("voices", "image.safetensors"), "image.safetensors is not an OmniVoice LoRA: none of its tensors"),
    ("damaged.safetensors", "damaged.safetensors"),
    (NONE, "no LoRA given: choose one in lora_name, or connect the lora input"),
]


@pytest.mark.parametrize(("name", "message"), REFUSED)
def test_wrong_loras_are_refused_and_the_next_prompt_runs(comfy, loras: Path, name: str, message: str) -> None:
    assert message in refusal(comfy, prompt((name, 1.0), tag="bad"))
    sound(comfy, prompt(tag="next"))


@pytest.mark.parametrize("name", ["old.pt", "../loras/saved", "/etc/passwd", "absent", ""])
def test_a_name_outside_the_list(comfy, loras: Path, name: str) -> None:
    status, body = comfy.request("/prompt", {"prompt": prompt((name, 1.0))})
    assert status == 400 and "lora_name must be one of" in body.decode()


def test_strength_outside_its_range(comfy, loras: Path) -> None:
    status, body = comfy.request("/prompt", {"prompt": prompt(("saved", 11.0))})
    assert status == 400 and "value_bigger_than_max" in body.decode()
    nodes = prompt(("saved", 1.0), tag="far")
    nodes["number"] = {"class_type": "PrimitiveFloat", "inputs": {"value": 1e9}}
    nodes["farlora0"]["inputs"]["strength"] = ["number", 0]
    assert "strength must be -10 to 10, got 1000000000.0" in refusal(comfy, nodes)


@pytest.mark.parametrize("literal", [{"x.lora_A.weight": [[1.0]]}, "text", 3, [[0.0]]], ids=repr)
def test_a_literal_on_the_lora_socket(comfy, loras: Path, literal: object) -> None:
    nodes = prompt((NONE, 1.0), tag="lit")
    nodes["litlora0"]["inputs"]["lora"] = literal
    status, body = comfy.request("/prompt", {"prompt": nodes, "client_id": comfy.client})
    if status == 200:
        ended, data = list(comfy.events(json.loads(body)["prompt_id"]))[-1]
        assert ended == "execution_error" and "the lora input" in data["exception_message"]
    else:
        assert status == 400
    sound(comfy, prompt(tag="after"))


def test_a_changed_adapter_is_read_anew(comfy, loras: Path) -> None:
    before = sound(comfy, prompt(("llm_only", 1.0), seed=9, tag="before"))
    config = loras / "llm_only" / "adapter_config.json"
    old = config.read_text()
    config.write_text(old.replace('"lora_alpha": 6', '"lora_alpha": 3'))
    assert sound(comfy, prompt(("llm_only", 1.0), seed=9, tag="after")) != before
    config.write_text(old)


def test_patches_on_real_patchers(comfy, checkpoint: Path) -> None:
    """Tokens as PEFT's model gives them, applied at once or at run time; removed bit for bit; stacked as the sum."""
    pack = next(path for path in (comfy.base / "custom_nodes").iterdir() if (path / "nodes").is_dir())
    command = [comfy.python, str(HERE / "lora_patches.py"), str(pack), str(checkpoint), str(ASSETS)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=comfy.tree, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    functions = {
        "plain": 12,
        "saved": 4,
        "patterns": 14,
        "llm_only": 9,
        "rslora": 3,
    }  # fused weights, heads and embeddings
    for name, count in functions.items():
        assert found[name].pop("functions") == count
        assert found[name] == dict.fromkeys(("tokens", "patched", "base_after", "lowvram", "removed"), True), name
    assert found["error"] == {"error": "planted", "patched": [True] * 3, "tokens": True, "bits": True}
    assert found["zero"]
    for core in found["core"]:  # our single file in core's own loader, and one tensor that is not ours
        assert core["left"] == ["lora key not loaded: stray.diff"] and core["worst"] < 1e-5
    assert found["fp32"] < 1e-5 and found["fp16"] < 2**-9 and found["bf16"] < 2**-6
