"""The pack imported as ComfyUI does it: by path, from a folder with a dash in its name, not on sys.path.

In a process of its own, without ComfyUI. It must be quick, import nothing heavy and leave no trace.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm_children

# ComfyUI names the module after its path (nodes.py, load_custom_node); relative imports hang on that name.
LOAD = """
import importlib, importlib.util, json, os, sys, time
def load(path):
    name = path.replace(".", "_x_")
    spec = importlib.util.spec_from_file_location(name, os.path.join(path, "__init__.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return name, module
path = sys.argv[1]
"""
STATE = """
import logging, random, warnings
import numpy, torch
def state():
    return {
        "path": list(sys.path), "environ": dict(os.environ), "meta_path": len(sys.meta_path), "cwd": os.getcwd(),
        "dtype": str(torch.get_default_dtype()), "device": str(torch.get_default_device()),
        "threads": torch.get_num_threads(), "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(), "deterministic": torch.are_deterministic_algorithms_enabled(),
        "benchmark": torch.backends.cudnn.benchmark, "tf32": torch.backends.cudnn.allow_tf32,
        "matmul": torch.get_float32_matmul_precision(), "flash": torch.backends.cuda.flash_sdp_enabled(),
        "torch_rng": torch.get_rng_state().tolist(), "random_rng": repr(random.getstate()),
        "numpy_rng": repr(numpy.random.get_state()), "filters": repr(warnings.filters),
        "root_log": [logging.root.level, len(logging.root.handlers)],
    }
"""
IMPORT_ALONE = """
before = set(sys.modules)
name, module = load(path)
print(json.dumps({"new": sorted(m for m in set(sys.modules) - before if not m.startswith(name)),
                  "public": module.__all__, "mappings": hasattr(module, "NODE_CLASS_MAPPINGS")}))
"""
IMPORT_ENGINE = """
before, modules = state(), set(sys.modules)
name, module = load(path)
importlib.import_module(name + ".omnivoice.engine")
after = state()
print(json.dumps({"changed": sorted(k for k in before if before[k] != after[k]),
                  "new": sorted(m for m in set(sys.modules) - modules if not m.startswith(name))}))
"""
SPEAK_WITHOUT_LIBRARIES = """
for library in ("soundfile", "huggingface_hub", "av"):
    sys.modules[library] = None
name, module = load(path)
import torch
engine_of = lambda part: importlib.import_module(f"{name}.omnivoice.{part}")
omnivoice = importlib.import_module(name + ".omnivoice")
engine = omnivoice.Engine.load(engine_of("weights.demo").demo_model(), "cpu")
noise = torch.rand(24_000, generator=torch.Generator().manual_seed(0)) - 0.5
voice = engine.encode_voice(omnivoice.Waveform(noise, 24_000), "The weather is beautiful today.")
voice.save("voice.safetensors")
sampling = omnivoice.Sampling(steps=1)
requests = [omnivoice.GenerationRequest(text="The weather is beautiful today.", voice=voice, sampling=sampling)]
speech = engine.generate(requests)[0]
said = []
for call in (lambda: omnivoice.write_wav("x.wav", speech.waveform), lambda: omnivoice.read_audio("voice.wav")):
    open("voice.wav", "wb").write(b"RIFF____WAVE")
    try:
        call()
    except engine_of("errors").OmniVoiceError as error:
        said.append(str(error))
print(json.dumps({"seconds": speech.seconds, "said": said}))
"""
HEAVY = {
    "av",
    "comfy",
    "huggingface_hub",
    "librosa",
    "nodes",
    "omnivoice",
    "pydub",
    "scipy",
    "soundfile",
    "torchaudio",
    "transformers",
}


@pytest.fixture(scope="module")
def run_with_pack(tmp_path_factory: pytest.TempPathFactory, copy_pack: Callable[[Path], Path]) -> Callable[[str], dict]:
    pack = copy_pack(tmp_path_factory.mktemp("custom_nodes") / "omnivoice-nodes-dev")

    def run(script: str) -> dict:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [sys.executable, "-c", script, str(pack)],
            cwd=pack.parent,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


def test_importing_the_pack_is_free(run_with_pack: Callable[[str], dict]) -> None:
    found = run_with_pack(LOAD + IMPORT_ALONE)
    assert found["public"] == ["comfy_entrypoint"]
    assert not found["mappings"]  # its mere presence makes ComfyUI ignore comfy_entrypoint
    assert {m.split(".")[0] for m in found["new"]} <= set(sys.stdlib_module_names)


def test_importing_the_engine_leaves_no_trace(run_with_pack: Callable[[str], dict]) -> None:
    found = run_with_pack(LOAD + STATE + IMPORT_ENGINE)
    assert found["changed"] == []
    assert not {m.split(".")[0] for m in found["new"]} & HEAVY


def test_state_check_sees_a_change() -> None:
    """The check above is not blind: each of these shows."""
    spoil = "os.environ['A']='b'; sys.path.append('x'); torch.manual_seed(1); random.seed(1); torch.set_num_threads(1)"
    script = STATE + f"before = state(); {spoil}; after = state()\n"
    script += "print(json.dumps({'changed': [k for k in before if before[k] != after[k]]}))"
    code, output, errors = warm_children.run("import json, os, sys, torch; torch.set_num_threads(2)\n" + script)
    assert code == 0, errors
    found = json.loads(output)
    assert set(found["changed"]) == {"path", "environ", "torch_rng", "random_rng", "threads"}


def test_speech_needs_neither_soundfile_nor_a_downloader(run_with_pack: Callable[[str], dict]) -> None:
    """Without them the main job in ComfyUI runs; reading and writing files says in one line what to install."""
    found = run_with_pack(LOAD + SPEAK_WITHOUT_LIBRARIES)
    assert found["seconds"] > 0 and len(found["said"]) == 2
    assert all("needs the package soundfile" in line and "pip install soundfile" in line for line in found["said"])


def test_the_manager_finds_every_node_in_the_source(nodes: dict[str, type], root: Path) -> None:
    """ComfyUI-Manager lists a pack's nodes by a literal node_id in a call of Schema inside a subclass of ComfyNode."""
    found = [
        keyword.value.value
        for file in sorted((root / "nodes").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "io.ComfyNode" for base in node.bases)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "io.Schema"
        for keyword in call.keywords
        if keyword.arg == "node_id" and isinstance(keyword.value, ast.Constant)
    ]
    assert sorted(found) == sorted(nodes)
