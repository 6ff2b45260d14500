"""One side of bench_upstream.py: loads a checkpoint, then times what it is told to, one JSON line each way.

usage: bench_worker.py upstream|ours FOLDER DTYPE THREADS    (not meant to be started by hand)
The upstream side runs in upstream's environment and must not see this repository.
"""

import hashlib
import json
import sys
import time
import warnings
from pathlib import Path

import torch

STYLE_TEXT = "en"


def digest(tensors):
    return hashlib.sha256(b"".join(t.to(torch.int32).contiguous().numpy().tobytes() for t in tensors)).hexdigest()[:16]


def reference_codes(frames):
    return torch.randint(0, 1024, (8, frames), generator=torch.Generator().manual_seed(1)) if frames else None


class Upstream:
    def __init__(self, folder, dtype):
        from omnivoice.models.omnivoice import GenerationTask, OmniVoice, OmniVoiceGenerationConfig

        self.task, self.config = GenerationTask, OmniVoiceGenerationConfig
        self.model = OmniVoice.from_pretrained(folder, device_map="cpu", dtype=dtype)

    def tokens(self, case):
        codes = reference_codes(case["reference"])
        n = case.get("batch", 1)
        task = self.task(
            batch_size=n, texts=[case["text"]] * n, target_lens=[case["frames"]] * n, langs=[STYLE_TEXT] * n,
            instructs=[None] * n, ref_texts=[case["reference_text"] if codes is not None else None] * n,
            ref_audio_tokens=[codes] * n, ref_rms=[0.1] * n,
        )  # fmt: skip
        config = self.config(num_step=case["steps"], guidance_scale=case["guidance"])
        torch.manual_seed(7)
        return self.model._generate_iterative(task, config)

    def encode(self, samples):
        return [self.model.audio_tokenizer.encode(samples[None]).audio_codes[0]]

    def decode(self, codes):
        return self.model.audio_tokenizer.decode(codes[None]).audio_values


class Ours:
    def __init__(self, folder, dtype):
        sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
        from omnivoice import Engine, GenerationRequest, Sampling, VoicePrompt
        from omnivoice.generate.run import Runner
        from omnivoice.types import Chunk, GenerationPlan

        self.plan, self.chunk, self.request = GenerationPlan, Chunk, GenerationRequest
        self.sampling, self.voice = Sampling, VoicePrompt
        self.engine = Engine.load(folder, dtype=dtype)
        self.runner = Runner(self.engine.lm, self.engine.tokenizer, torch.device("cpu"))

    def tokens(self, case):
        codes = reference_codes(case["reference"])
        voice = None if codes is None else self.voice(codes=codes, text=case["reference_text"], rms=0.1)
        sampling = self.sampling(steps=case["steps"], guidance=case["guidance"])
        request = self.request(text=case["text"], voice=voice, sampling=sampling)
        plan = self.plan(request, (self.chunk(case["text"], case["frames"]),), STYLE_TEXT, None, 7)
        generator = torch.Generator().manual_seed(7)
        return [codes[0] for codes in self.runner.run([plan] * case.get("batch", 1), generator, None)]

    def encode(self, samples):
        return [self.engine.codec.encode(samples)]

    def decode(self, codes):
        return self.engine.codec.decode(codes)


def timed(side, case):
    if case["kind"] == "encode":
        samples = torch.randn(1, case["frames"] * 960, generator=torch.Generator().manual_seed(3)) * 0.1
        call = lambda: side.encode(samples)  # noqa: E731
    elif case["kind"] == "decode":
        codes = reference_codes(case["frames"])
        call = lambda: (side.decode(codes), [codes])[1]  # noqa: E731
    else:
        call = lambda: side.tokens(case)  # noqa: E731
    start = time.perf_counter()
    result = call()
    return {"seconds": time.perf_counter() - start, "digest": digest(result)}


def main():
    kind, folder, dtype, threads = sys.argv[1:5]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(threads))
    start = time.perf_counter()
    side = {"upstream": Upstream, "ours": Ours}[kind](folder, getattr(torch, dtype))
    print(json.dumps({"loaded": time.perf_counter() - start}), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            print(json.dumps(timed(side, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
