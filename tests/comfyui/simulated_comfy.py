"""ComfyUI's own memory code on a simulated GPU. Run by ComfyUI's python in its tree; tells what it saw as JSON.

usage: python simulated_comfy.py PACK MODEL MODE DTYPE
(test_memory.py runs it; MODE: dynamic, legacy or novram; DTYPE: fp32, or fp8 with computation in fp32)

Real are ComfyUI's patchers, its layers and its bookkeeping, the pack's host code, and every value. Pretended are the
device (`tests/simulated_cuda.py`), the native half of comfy_aimdo, which pages weights in and out, and what ComfyUI
asks the driver: how much memory there is. Memory that is taken away is filled with NaN, so that a stale read is heard.
"""

import ctypes
import importlib
import importlib.util
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

PACK, MODEL, MODE, DTYPE = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
sys.argv = ["main.py", "--cpu"]
sys.path.insert(0, str(PACK))
import torch  # noqa: E402

from tests.simulated_cuda import CPU, CUDA, SimulatedCuda, SimulatedTensor  # noqa: E402
from tests.simulated_graphs import SimulatedCapturer  # noqa: E402

sys.path[0] = os.getcwd()
import comfy.options  # noqa: E402
import utils.install_util  # noqa: E402, F401  (ComfyUI's own, before another `utils` is found)

comfy.options.enable_args_parsing()
import comfy.float  # noqa: E402
import comfy.memory_management  # noqa: E402
import comfy.model_management as mm  # noqa: E402
import comfy.model_patcher  # noqa: E402
import comfy.utils  # noqa: E402
import comfy_aimdo.host_buffer  # noqa: E402
import comfy_aimdo.model_vbar  # noqa: E402
import comfy_aimdo.torch  # noqa: E402
import folder_paths  # noqa: E402
import server  # noqa: E402

GIB, PAGE, POISON = 1 << 30, 4096, 0xFF
STEPS = 12  # as many as a capture is worth


class Pages:
    """Stands in for ModelVBAR: a range of addresses whose pages are mapped when they are asked for.

    As in comfy_aimdo's src/model-vbar.c: pins are counted, a page that is mapped anew has a new serial, memory is taken
    from the end of the range, and what lies beyond the watermark cannot be had until the range is prioritised again.
    """

    every: ClassVar[list] = []
    room = 1 << 40  # bytes for all ranges together
    unpinned_twice = 0

    def __init__(self, size, device):
        count = int(size) // PAGE + 1
        self.memory = torch.full((count * PAGE,), POISON, dtype=torch.uint8)
        self.base, self.used, self.watermark = self.memory.data_ptr(), 0, count
        self.mapped, self.pins, self.serials = [False] * count, [0] * count, [0] * count
        Pages.every.append(self)

    def prioritize(self, *_):
        self.watermark = len(self.mapped)

    def set_watermark_limit(self, *_):
        pass

    def alloc(self, size):
        start = (self.used + 511) // 512 * 512
        self.used = start + size
        assert self.used <= len(self.memory)
        return self, self.base + start, size

    def _pages(self, address, size):
        start = address - self.base
        return range(start // PAGE, (start + size + PAGE - 1) // PAGE)

    def fault(self, address, size):
        pages = self._pages(address, size)
        missing = sum(not self.mapped[page] for page in pages)
        if pages.stop > self.watermark or resident() + missing * PAGE > Pages.room:
            return None
        for page in pages:
            if not self.mapped[page]:
                self.mapped[page] = True
                self.serials[page] += 1
            self.pins[page] += 1
        return (ctypes.c_uint32 * (size // PAGE + 2))(*(self.serials[page] for page in pages))

    def unpin(self, address, size):
        for page in self._pages(address, size):
            Pages.unpinned_twice += not self.pins[page]
            self.pins[page] = max(0, self.pins[page] - 1)
            if page >= self.watermark:
                self._unmap(page)

    def _unmap(self, page):
        gone = self.mapped[page] and not self.pins[page]
        if gone:
            self.mapped[page] = False
            self.memory[page * PAGE : (page + 1) * PAGE].fill_(POISON)
        return gone

    def free_memory(self, size):
        freed = 0
        while freed < size and self.watermark:
            self.watermark -= 1
            freed += PAGE * self._unmap(self.watermark)
        return freed

    def loaded_size(self):
        return PAGE * sum(self.mapped)


def resident(*_):
    return sum(pages.loaded_size() for pages in Pages.every)


class HostBuffer:
    """Stands in for pinned memory, of which there is none here."""

    def __init__(self, *_):
        self.size = 0

    def truncate(self, *_, **__):
        pass


def pretend(cuda):
    """Let ComfyUI find a GPU of 12 GiB that is `cuda`."""
    mm.get_torch_device = lambda: CUDA
    mm.unet_offload_device = lambda: CPU
    mm.cpu_state, mm.lowvram_available, mm.NUM_STREAMS = mm.CPUState.GPU, True, 0
    mm.vram_state = mm.VRAMState.NO_VRAM if MODE == "novram" else mm.VRAMState.NORMAL_VRAM
    mm.get_free_memory = lambda dev=None, torch_free_too=False: (8 * GIB, 0) if torch_free_too else 8 * GIB
    mm.get_total_memory = lambda *_, **__: 12 * GIB
    mm.should_use_fp16 = mm.should_use_bf16 = lambda *_, **__: False  # LoRAs are merged in float32
    mm.soft_empty_cache = lambda *_, **__: None
    torch.cuda.synchronize = lambda *_: None
    torch.__future__.set_overwrite_module_params_on_conversion(True)  # the simulated device cannot change one in place
    comfy_aimdo.model_vbar.ModelVBAR = Pages
    comfy_aimdo.model_vbar.vbars_analyze = resident
    comfy_aimdo.torch.aimdo_to_tensor = lambda alloc, device: cuda.tensor(
        alloc[0].memory[alloc[1] - alloc[0].base :][: alloc[2]]
    )
    comfy_aimdo.host_buffer.HostBuffer = HostBuffer
    comfy.float.stochastic_rounding = partial(rounded, cuda, comfy.float.stochastic_rounding)
    if MODE == "dynamic":
        comfy.model_patcher.CoreModelPatcher = comfy.model_patcher.ModelPatcherDynamic
        comfy.memory_management.aimdo_enabled = True
    server.PromptServer.instance = None


def rounded(cuda, round_on_cpu, value, dtype, seed=0):
    """`comfy.float.stochastic_rounding`, which needs a generator that there is no CUDA for."""
    on_device = isinstance(value, SimulatedTensor)
    result = round_on_cpu(value.held if on_device else value, dtype, seed=seed)
    return cuda.tensor(result) if on_device else result


def load_pack():
    name = "pack-dev"
    spec = importlib.util.spec_from_file_location(name, PACK / "__init__.py", submodule_search_locations=[str(PACK)])
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return {part: importlib.import_module(f"{name}.{part}") for part in PARTS}


PARTS = (
    "nodes.host",
    "omnivoice",
    "omnivoice.ops",
    "omnivoice.generate.graphs",
    "omnivoice.weights.lora",
    "omnivoice.weights.lora_read",
)


class Stage:
    """The pack in a ComfyUI that believes in the simulated device, and a plain engine on the CPU to compare with."""

    def __init__(self, parts, cuda):
        self.parts, self.host, self.omnivoice, self.cuda = parts, parts["nodes.host"], parts["omnivoice"], cuda
        self.plain = self.load_plain()
        self.expected = self.plain.generate([self.request()])[0].codes[0]

    def load_plain(self):
        """A plain engine with the same weights."""
        engine = self.omnivoice.Engine.load(MODEL, "cpu", torch.float32)
        for name, weight in engine.lm.named_parameters():
            if DTYPE == "fp8" and name.endswith("_proj.weight"):
                weight.copy_(weight.to(torch.float8_e4m3fn))
        return engine

    def load(self, dtype=DTYPE, graphs=True):
        """A model whose graphs are captured on the simulated device."""
        model = self.host.models.load_model("M", dtype, "auto")
        graphs = self.parts["omnivoice.generate.graphs"].StepGraphs(SimulatedCapturer(self.cuda), enabled=graphs)
        object.__setattr__(model.engine.sampler, "graphs", graphs)
        return model

    def request(self, steps=STEPS):
        sampling = self.omnivoice.Sampling(steps=steps)
        return self.omnivoice.GenerationRequest("Good morning everyone.", seed=11, duration=0.6, sampling=sampling)

    def speak(self, model, expected=None):
        """What a run looked like, above all whether its tokens are those of the plain engine."""
        capturer = model.engine.sampler.graphs._capturer
        before = capturer.captured, capturer.replayed
        speech = self.host.speech.speak(model, {"": self.request()})[""]
        return {
            "equal": torch.equal(speech.codes[0], self.expected if expected is None else expected),
            "captured": capturer.captured - before[0],
            "replayed": capturer.replayed - before[1],
            "report": [*speech.notes],
            "pinned": sum(sum(pages.pins) for pages in Pages.every),
        }

    def half_precision(self):
        """Whether graphs change no token in float16."""
        spoken = []
        for graphs in (True, False):
            speech = self.host.speech.speak(self.load("fp16", graphs), {"": self.request()})[""]
            spoken.append((speech.codes[0], *speech.notes))
        return [torch.equal(spoken[0][0], spoken[1][0]), spoken[0][1], spoken[1][1]]

    def few_steps(self, model):
        """A run that is too short for graphs."""
        speech = self.host.speech.speak(model, {"": self.request(steps=2)})[""]
        return {"report": [*speech.notes], "pinned": sum(sum(pages.pins) for pages in Pages.every)}

    def same_voice(self, model):
        """Whether a recording becomes the same codes."""
        wave = torch.linspace(0, 900, 24_000).sin()[None] * 0.3
        recording = self.omnivoice.Waveform(wave, 24_000)
        voice = self.host.speech.encode_voices(model, [recording], ["Good morning."])[0]
        return torch.equal(voice.codes, self.plain.encode_voice(recording, "Good morning.").codes)

    def cancel(self, model):
        """What is pinned after a run that was cancelled."""
        mm.interrupt_current_processing(True)
        try:
            self.host.speech.speak(model, {"": self.request()})
        except mm.InterruptProcessingException:
            return {"pinned": sum(sum(pages.pins) for pages in Pages.every)}
        raise AssertionError("the run was not cancelled")

    def take_away(self, model):
        """Another program needs all the memory."""
        if MODE == "dynamic":
            for pages in Pages.every:
                pages.free_memory(1 << 40)
            assert resident() == 0
        else:
            old = [weight for weight in model.engine.lm.parameters() if isinstance(weight, SimulatedTensor)]
            mm.unload_all_models()
            kept = {id(weight) for weight in model.engine.lm.parameters()}
            for weight in old:
                assert id(weight) not in kept, "a weight stays on the device after it was unloaded"
                weight.held.view(torch.uint8).fill_(POISON)


def lora_tensors(stage):
    """A LoRA on every attention and MLP matrix."""
    generator, found = torch.Generator().manual_seed(3), {}
    for name, (rows, columns) in stage.parts["omnivoice.weights.lora"].lora_targets(stage.plain.lm.config).items():
        if "proj" in name:
            found[f"{name}.lora_A.weight"] = torch.randn(4, columns, generator=generator) * 0.2
            found[f"{name}.lora_B.weight"] = torch.randn(rows, 4, generator=generator) * 0.2
            found[f"{name}.alpha"] = torch.tensor(4.0)
    return found


def merged_tokens(stage, tensors):
    """Tokens of the plain engine with the LoRA merged into its weights.

    Where ComfyUI stores the result in 8 bits, it is rounded as ComfyUI does.
    """
    engine = stage.load_plain()
    lora = stage.parts["omnivoice.weights.lora_read"].lora_from_tensors(tensors, engine.lm.config)
    weights = dict(engine.lm.named_parameters())
    for _, name, rows, change in stage.parts["omnivoice.weights.lora"].placed(lora, engine.lm.config, fused=True):
        part = weights[name] if rows is None else weights[name].narrow(0, *rows)
        part.add_(change.change(part))
    if DTYPE == "fp8" and MODE != "novram":
        for name, weight in weights.items():
            if name.endswith("_proj.weight"):
                seed = comfy.utils.string_to_seed(name)
                weight.copy_(comfy.float.stochastic_rounding(weight, torch.float8_e4m3fn, seed=seed))
    return engine.generate([stage.request()])[0].codes[0]


def story(stage):
    """Run after run, and what each looked like."""
    told, first = {}, stage.load()
    told["patcher"] = type(first.lm).__name__
    told["graphs"] = MODE == "legacy" or (MODE == "dynamic" and hasattr(comfy, "model_prefetch"))
    told["once"], told["again"] = stage.speak(first), stage.speak(first)
    told["weights on the CPU"] = sum(weight.device == CPU for weight in first.engine.lm.parameters())
    stage.take_away(first)
    told["after eviction"] = stage.speak(first)
    second = stage.load()
    told["second model"], told["first model again"] = stage.speak(second), stage.speak(first)
    tensors = lora_tensors(stage)
    merged = merged_tokens(stage, tensors)
    adapted = stage.host.lora.apply_lora(first, stage.host.lora.NO_FILE, tensors, 1.0).model
    told["LoRA differs"] = not torch.equal(merged, stage.expected)
    told["LoRA"], told["LoRA again"] = stage.speak(adapted, merged), stage.speak(adapted, merged)
    stage.take_away(first)
    told["LoRA after eviction"] = stage.speak(adapted, merged)
    told["without LoRA"] = stage.speak(first)
    told["half precision"] = stage.half_precision()
    told["voice"] = stage.same_voice(first)
    told["few steps"] = stage.few_steps(stage.load())
    told["cancelled"] = stage.cancel(first)
    if MODE == "dynamic":
        stage.take_away(first)
        with patch.object(Pages, "room", 600_000):  # some of the layers
            told["room for some weights"] = stage.speak(first)
        with patch.object(
            mm, "get_free_memory", lambda dev=None, torch_free_too=False: (0, 0) if torch_free_too else 0
        ):
            told["no room beside the weights"] = stage.speak(first)
        told["room again"] = stage.speak(first)
        told["unpinned twice"] = Pages.unpinned_twice
    return told


def main(base):
    folder_paths.models_dir = str(base)
    (base / "omnivoice").mkdir()
    (base / "omnivoice" / "M").symlink_to(MODEL.resolve())
    parts = load_pack()
    parts["nodes.host"].models.register_model_folder()
    ops = parts["omnivoice.ops"]
    ops.PLAIN_TENSORS = (*ops.PLAIN_TENSORS, SimulatedTensor)
    with torch.inference_mode(), SimulatedCuda() as cuda:
        pretend(cuda)
        print(json.dumps(story(Stage(parts, cuda))))


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
