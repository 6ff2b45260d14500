"""One side of upstream.py: loads a checkpoint, then runs one case per line of JSON and answers with its time.

usage: upstream_worker.py upstream|ours FOLDER DTYPE THREADS perf_counter|process_time    (upstream.py starts it)
The upstream side runs in upstream's environment and must not import this repository, so nothing of it is imported at
the top. Every answer has the anonymous memory before the work and its peak since the last answer, in bytes (null where
Linux does not tell it). A case with "count" is profiled instead of timed: it counts the operator calls of a step.
"""

import hashlib
import json
import sys
import threading
import time
import warnings
from pathlib import Path

import torch

STYLE_TEXT = "en"
WATCH_SECONDS = 0.005


def digest(tensors):
    return hashlib.sha256(b"".join(t.to(torch.int32).contiguous().numpy().tobytes() for t in tensors)).hexdigest()[:16]


def reference_codes(frames):
    return torch.randint(0, 1024, (8, frames), generator=torch.Generator().manual_seed(1)) if frames else None


class Upstream:
    grad = torch.inference_mode

    def __init__(self, folder, dtype):
        from omnivoice.models import omnivoice

        self.code = omnivoice
        self.model = omnivoice.OmniVoice.from_pretrained(folder, device_map="cpu", dtype=dtype)

    def config(self, case):
        return self.code.OmniVoiceGenerationConfig(
            num_step=case["steps"], guidance_scale=case["guidance"], postprocess_output=False
        )

    def tokens(self, case):
        codes = reference_codes(case["reference"])
        n = case.get("batch", 1)
        task = self.code.GenerationTask(
            batch_size=n,
            texts=[case["text"]] * n,
            target_lens=[case["frames"]] * n,
            langs=[STYLE_TEXT] * n,
            instructs=[None] * n,
            ref_texts=[case["reference_text"] if codes is not None else None] * n,
            ref_audio_tokens=[codes] * n,
            ref_rms=[0.1] * n,
        )
        torch.manual_seed(7)
        return self.model._generate_iterative(task, self.config(case))

    def speak(self, case):
        prompt = self.code.VoiceClonePrompt(reference_codes(case["reference"]), case["reference_text"], 0.1)
        torch.manual_seed(7)
        audio = self.model.generate(
            case["text"], language=STYLE_TEXT, voice_clone_prompt=prompt, generation_config=self.config(case)
        )
        return len(audio[0]) / 24000

    def encode(self, samples):
        return [self.model.audio_tokenizer.encode(samples[None]).audio_codes[0]]

    def decode(self, codes):
        return self.model.audio_tokenizer.decode(codes[None]).audio_values


class Ours:
    grad = torch.no_grad

    def __init__(self, folder, dtype):
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from omnivoice import Engine, GenerationRequest, Sampling, VoicePrompt
        from omnivoice.generate import sample
        from omnivoice.generate.run import Runner
        from omnivoice.types import Chunk, GenerationPlan

        self.plan, self.chunk, self.request = GenerationPlan, Chunk, GenerationRequest
        self.sampling, self.voice, self.sample, self.runner_class = Sampling, VoicePrompt, sample, Runner
        self.load, self.folder = Engine.load, folder
        self.engine = Engine.load(folder, dtype=dtype)
        self.runner = Runner(self.engine.sampler, self.engine.tokenizer)

    def request_of(self, case):
        codes = reference_codes(case["reference"])
        voice = None if codes is None else self.voice(codes=codes, text=case["reference_text"], rms=0.1)
        sampling = self.sampling(steps=case["steps"], guidance=case["guidance"])
        return self.request(
            text=case["text"], voice=voice, sampling=sampling, language=STYLE_TEXT, seed=7, post_process=False
        )

    def tokens(self, case, runner=None):
        plan = self.plan(self.request_of(case), (self.chunk(case["text"], case["frames"]),), STYLE_TEXT, None, 7)
        generator = torch.Generator().manual_seed(7)
        runs = (runner or self.runner).run([plan] * case.get("batch", 1), generator, None)
        return [codes[0] for codes in runs]

    def speak(self, case):
        return self.engine.generate([self.request_of(case)])[0].seconds

    def encode(self, samples):
        return [self.engine.codec.encoder.encode(samples)]

    def decode(self, codes):
        return self.engine.codec.decoder.decode(codes)

    def agreement(self, case):
        """Return the masked cells of all steps whose best token is the same in float32, and their total."""
        exact, rounded = self.load(self.folder, dtype=torch.float32), self.engine.sampler
        predict, pack_items, mask_id = self.sample.predict, self.sample.pack_items, exact.lm.config.audio_mask_id
        packed, found = [], torch.zeros(2, dtype=torch.int64)

        def pack_both(lm, text, items, **options):
            packed[:] = [pack_items(rounded.lm, rounded.text, items, **options)]
            return pack_items(lm, text, items, **options)

        def predict_both(lm, items, guidance, speedups, codes, base):
            scores = predict(lm, items, guidance, speedups, codes, base)  # [T, K, V]
            other = predict(rounded.lm, packed[0], guidance, speedups, codes, packed[0].base)
            masked = codes.t() == mask_id  # [T, K]
            same = scores.argmax(-1) == other.argmax(-1)
            found.add_(torch.stack(((same & masked).sum(), masked.sum())))
            return scores

        self.sample.predict, self.sample.pack_items = predict_both, pack_both
        try:
            self.tokens(case, self.runner_class(exact.sampler, exact.tokenizer))
        finally:
            self.sample.predict, self.sample.pack_items = predict, pack_items
        return found.tolist()


class Memory:
    """The anonymous memory of this process, watched by a thread."""

    def __init__(self):
        self.peak = self.now()
        if self.peak is not None:
            threading.Thread(target=self.watch, daemon=True).start()

    def now(self):
        try:
            status = Path("/proc/self/status").read_text(encoding="ascii")
        except OSError:
            return None
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon"))

    def watch(self):
        while True:
            self.peak = max(self.peak, self.now())
            time.sleep(WATCH_SECONDS)

    def take(self):
        peak, self.peak = self.peak, self.now()
        return peak


def work(side, case):
    """Return a function that does the work of a case and returns tensors to compare, or numbers."""
    if case["kind"] == "encode":
        samples = torch.randn(1, case["frames"] * 960, generator=torch.Generator().manual_seed(3)) * 0.1
        return lambda: side.encode(samples)
    if case["kind"] == "decode":
        codes = reference_codes(case["frames"])
        return lambda: (side.decode(codes), [codes])[1]
    return lambda: getattr(side, case["kind"])(case)


def answer(side, case, memory, clock):
    if case.get("count"):
        return operator_calls(side, case)
    call, held = work(side, case), memory.now()
    memory.take()
    start = clock()
    result = call()
    found = {"seconds": clock() - start, "held": held, "peak": memory.take()}
    tensors = isinstance(result, list) and all(isinstance(part, torch.Tensor) for part in result)
    return {**found, "digest": digest(result)} if tensors else {**found, "result": result}


def operator_calls(side, case):
    """Return the calls in one step: the calls of three steps minus those of one, halved.

    aten: all events of that name, including nested ones. mkldnn: oneDNN's own operators. outer: the events of both
    kinds that are inside no other of them.
    """
    one, three = (count_events(work(side, {**case, "steps": steps})) for steps in (1, 3))
    return {name: (three[name] - one[name]) / 2 for name in one}


def count_events(call):
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    events = [event for event in profile.events() if is_operator(event)]
    return {
        "aten": sum(event.name.startswith("aten::") for event in events),
        "outer": sum(not has_outer(event) for event in events),
        "mkldnn": sum(event.name.startswith("mkldnn::") for event in events),
    }


def is_operator(event):
    return event.name.startswith(("aten::", "mkldnn::"))


def has_outer(event):
    parent = event.cpu_parent
    while parent is not None and not is_operator(parent):
        parent = parent.cpu_parent
    return parent is not None


def main():
    kind, folder, dtype, threads, clock = sys.argv[1:6]
    clock = getattr(time, clock)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(threads))
    memory = Memory()
    start = clock()
    side = {"upstream": Upstream, "ours": Ours}[kind](folder, getattr(torch, dtype))
    print(json.dumps({"loaded": clock() - start, "peak": memory.take()}), flush=True)
    with side.grad():
        for line in sys.stdin:
            print(json.dumps(answer(side, json.loads(line), memory, clock)), flush=True)


if __name__ == "__main__":
    main()
