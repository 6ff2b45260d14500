"""`Engine`: the one class a caller needs. Load a checkpoint, encode a voice, generate speech.

It holds the language model, the codec and the tokenizer, and joins the stages: plan, run, decode, finish. It never
moves weights after loading and keeps no cache of its own: a host such as ComfyUI owns the memory and supplies its own
layers as `ops`. It downloads nothing and changes no global state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike

import torch
from torch import Tensor

from .audio.finish import finish_speech
from .audio.reference import LONG_SECONDS
from .constants import SAMPLE_RATE
from .devices import COMPUTE_DTYPES, best_dtype, codec_device, heads_dtype
from .errors import InputError
from .generate.addresses import FindAddresses
from .generate.codec import Codec
from .generate.estimate import (
    CPU_LIBRARIES,
    SamplingMemory,
    estimate_decoding,
    estimate_encoding,
    estimate_run,
    free_memory,
)
from .generate.filling import check_filling
from .generate.filling_loss import OpenedSpeech, check_opened
from .generate.graphs import StepGraphs
from .generate.items import naming_item
from .generate.plan import checked_request, limited, plan_checked
from .generate.recommended import with_recommended
from .generate.run import Runner
from .generate.sample import Sampler
from .generate.voices import check_voice, encode_voice, voice_of_speech
from .intake.limits import check_run_length, shown
from .lm import OmniVoiceLM, TextEmbedding
from .ops import PLAIN_OPS, Ops, with_fast_linear
from .text.own_tokens import unlearnt_warnings
from .text.tokenizer import TextTokenizer
from .text.vocabulary import vocabulary_warnings
from .types import ALL_SPEEDUPS, GenerationPlan, GenerationRequest, OnStep, Speech, Speedups, VoicePrompt, Waveform
from .weights import load_lm, locate_checkpoint
from .weights.lora_merge import merge_loras
from .weights.lora_read import read_lora
from .weights.model_settings import NO_SETTINGS, ModelSettings
from .weights.read import zero_rows

OVERFLOWED = "fp16 overflowed, so this model now computes in bf16: set dtype to bf16, or to fp32 for the closest result"
SLOW = "dtype fp16 is for GPUs and takes several times as long as fp32 on a CPU: choose auto or fastest"


class Engine:
    """A loaded OmniVoice model, made by `Engine.load`.

    lm, codec.decoder, codec.encoder: the modules, for a host that manages their memory. sampler: the loop and its CUDA
    graphs. words: every word the model knows, if its vocabulary is limited; otherwise empty. settings: what the model
    says about itself. rules: what it says about texts. has_loras: whether LoRAs were merged in when it was loaded.
    """

    def __init__(
        self,
        sampler: Sampler,
        codec: Codec,
        tokenizer: TextTokenizer,
        words: Iterable[str] = (),
        settings: ModelSettings = NO_SETTINGS,
    ) -> None:
        self.lm, self.sampler, self.codec, self.tokenizer = sampler.lm, sampler, codec, tokenizer
        self.has_loras = False
        self.words, self.settings, self.rules = frozenset(words), settings, settings.rules(tokenizer.own)

    @property
    def codec_fingerprint(self) -> str:
        """Identifies the codec: voices made with it carry the same string."""
        return self.codec.fingerprint

    @classmethod
    def load(
        cls,
        folder: str | PathLike[str],
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
        *,
        codec_folder: str | PathLike[str] | None = None,
        ops: Ops = PLAIN_OPS,
        compute_device: str | torch.device | None = None,
        body_dtype: torch.dtype | None = None,
        speedups: Speedups = ALL_SPEEDUPS,
        loras: Sequence[tuple[str | PathLike[str], float]] = (),
    ) -> Engine:
        """Load a checkpoint folder or single file in `dtype` (None: the best for the device) to `device`.

        codec_folder: where the codec is, if not in `folder`/audio_tokenizer. ops: the layer library.
        compute_device: where inputs go, if the host moves the weights there itself; default `device`.
        body_dtype: how the matrices of the language model's layers are stored, if not in `dtype`; such as float8_e4m3fn
        for `ops` whose layers cast their weights when they run.
        speedups: exact shortcuts, all on by default. loras: (PEFT folder or .safetensors file, strength), merged into
        the weights; their changes add up.
        Raises CheckpointError or FileError, which name what is missing or wrong, LoraError for a LoRA, InputError for a
        dtype or strength.
        """
        if dtype is not None and dtype not in COMPUTE_DTYPES:
            raise InputError(f"dtype must be torch.float32, bfloat16, float16 or float64, got {dtype}")
        if body_dtype is not None and loras:
            raise InputError("weights that are stored in body_dtype take no LoRA: leave out one of the two")
        if body_dtype is not None and ops is PLAIN_OPS:
            raise InputError(f"body_dtype {body_dtype} needs `ops` whose layers cast their weights: leave it out")
        where = torch.device(device)
        target = where if compute_device is None else torch.device(compute_device)
        files = locate_checkpoint(folder, codec_folder)
        added = [(read_lora(path, files.lm_config), amount) for path, amount in loras]
        tokenizer = TextTokenizer.from_json(files.tokenizer_json())
        settings = files.settings(tokenizer.own)
        ops = with_fast_linear(ops) if speedups.fast_linear else ops
        dtype = dtype or best_dtype(target)
        lm, text = load_lm(
            files.lm_config,
            files.lm_weights,
            ops=ops,
            device=where,
            dtype=dtype,
            heads_dtype=heads_dtype(dtype, target),
            body_dtype=body_dtype,
            used_ids=tokenizer.used_ids,
            optional_ids=tokenizer.mark_ids,
            fused=speedups.fused_linears,
        )
        merge_loras(lm, added, fused=speedups.fused_linears)
        sampler = Sampler(lm, text, target, speedups, StepGraphs(enabled=speedups.graphs))
        codec = Codec.load(files, ops=ops, device=codec_device(where), compute_device=codec_device(target))
        engine = cls(sampler, codec, tokenizer, files.words, settings)
        engine.has_loras = bool(added)
        return engine

    @classmethod
    def around(
        cls,
        lm: OmniVoiceLM,
        text: TextEmbedding,
        device: torch.device,
        codec: Codec,
        tokenizer: TextTokenizer,
        words: Iterable[str] = (),
        settings: ModelSettings = NO_SETTINGS,
    ) -> Engine:
        """Return an engine that uses an unfused language model whose weights may change, such as one in training.

        device: where the language model computes. No step is captured as a CUDA graph.
        """
        speedups = replace(ALL_SPEEDUPS, fused_linears=False, graphs=False)
        return cls(Sampler(lm, text, device, speedups, StepGraphs(enabled=False)), codec, tokenizer, words, settings)

    @torch.no_grad()  # not inference_mode: the caller could neither change its tensors nor train on them
    def encode_voice(self, waveform: Waveform, text: str = "") -> VoicePrompt:
        """Return a voice made from a recording [C, N] of any rate; `text` is its transcript.

        Raises AudioError for a recording that cannot be a reference. The voice's `warnings` list what is unusual
        about the recording, and a transcript that is missing or does not fit its length. Raises DeviceMemoryError if
        memory runs out.
        """
        return encode_voice(self.codec, waveform, text, self.rules)

    def generate(
        self,
        requests: Sequence[GenerationRequest],
        *,
        on_step: OnStep | None = None,
        generator: torch.Generator | None = None,
    ) -> list[Speech]:
        """Speak every request and return the results in order. Each request has its own voice and seed.

        generator: one shared CPU generator instead of the seeds, drawn from in upstream's order. on_step(done, total)
        may raise to cancel. Raises InputError before any model runs, NumericError if the output is not finite, and
        DeviceMemoryError if memory runs out; with several requests the message names the one at fault.
        """
        return self.generate_plans(self.plan(requests), on_step=on_step, generator=generator)

    def plan(self, requests: Sequence[GenerationRequest]) -> list[GenerationPlan]:
        """Check the requests and decide chunks and lengths, without running anything.

        Raises InputError, also for more than `MAX_RUN_CHARS` characters or four hours of speech in all.
        """
        if isinstance(requests, GenerationRequest):
            raise InputError("generate takes a list of requests, got one GenerationRequest: put it in [ ]")
        check_run_length(getattr(request, "text", request) for request in requests)
        return [*limited(self._planned(requests))]

    def _planned(self, requests: Sequence[GenerationRequest]) -> Iterator[GenerationPlan]:
        texts = [getattr(request, "text", request) for request in requests]
        for index, request in enumerate(requests):
            with naming_item(index, texts):
                plan = self._plan(request)
            yield plan

    def _plan(self, request: GenerationRequest) -> GenerationPlan:
        given = checked_request(request)
        request, notes, unwise = with_recommended(given, self.settings)
        plan = plan_checked(request if request is given else checked_request(request), self.rules)
        text = self.rules.shielded(" ".join(chunk.text for chunk in plan.chunks))
        unlearnt = unlearnt_warnings(text, self.tokenizer.own, self._zero_ids)
        warnings = (*vocabulary_warnings(text, self.words), *unlearnt)
        if self.lm.get_dtype() == torch.float16 and self.sampler.device.type == "cpu":
            warnings = (*warnings, SLOW)
        if request.voice is not None:
            warnings = (*warnings, *check_voice(request.voice, self.codec))
        return replace(plan, warnings=(*plan.warnings, *unwise, *warnings), notes=(*notes, *plan.notes))

    @cached_property
    def _zero_ids(self) -> frozenset[int]:
        """The ids of the model's own marks whose rows of the text embedding are all zero."""
        ids = sorted(self.tokenizer.mark_ids)
        return frozenset(ids[row] for row in zero_rows(self.sampler.text.weight[ids]).tolist()) if ids else frozenset()

    @torch.no_grad()
    def generate_plans(
        self,
        plans: Sequence[GenerationPlan],
        *,
        on_step: OnStep | None = None,
        generator: torch.Generator | None = None,
        free_bytes: int | None = None,
        addresses: FindAddresses | None = None,
    ) -> list[Speech]:
        """Run plans made by `plan`; otherwise as `generate`.

        free_bytes: memory available in addition to the weights. It decides how much runs together and changes no
        token. None: what CUDA reports, and a fixed limit on other devices. addresses: see `Sampler`, for this run.
        Raises InputError for more than four hours of speech in all.
        """
        plans = [*limited(plans)]
        if generator is not None and not (isinstance(generator, torch.Generator) and generator.device.type == "cpu"):
            raise InputError(
                f"generator must be a torch.Generator on the CPU, got {shown(generator)}; for a seed, use seed"
            )
        self.sampler.graphs.report()  # a run that was cancelled may have left something to report
        codes = self._runner(free_bytes, addresses).run(plans, generator, on_step)
        graphs = self.sampler.graphs.report()
        speeches, texts = [], [plan.request.text for plan in plans]
        for index, (plan, chunks) in enumerate(zip(plans, codes)):
            notes = (*plan.notes, graphs) if graphs else plan.notes
            with naming_item(index, texts):
                told = {name: getattr(plan, name) for name in ("respelled", "normalised", "used_entries")}
                speeches.append(replace(self._finish(plan, chunks), notes=notes, **told))
        return speeches

    @torch.no_grad()
    def fill(
        self,
        plans: Sequence[GenerationPlan],
        codes: Sequence[Tensor],
        *,
        on_step: OnStep | None = None,
        free_bytes: int | None = None,
        addresses: FindAddresses | None = None,
    ) -> list[Tensor]:
        """Fill frames of recordings so that each of them says the text of its plan; return their codes [K, T] int64.

        plans: of one chunk each, as many frames long as the codes; see `generate.filling`. codes: [K, T] int64 on the
        CPU, with the mask in every codebook of the frames to fill. The others come back as they are. Otherwise as
        `generate_plans`.
        """
        check_filling(plans, codes, self.lm.config)
        return [each[0] for each in self._runner(free_bytes, addresses).run(plans, None, on_step, codes)]

    @torch.no_grad()
    def opened_losses(
        self, speech: Sequence[OpenedSpeech], *, on_step: OnStep | None = None, free_bytes: int | None = None
    ) -> list[Tensor]:
        """Return how well the model knows the first codebook of opened frames; see `generate.filling_loss`."""
        check_opened(speech, self.lm.config)
        return self._runner(free_bytes).losses(speech, on_step)

    def _finish(self, plan: GenerationPlan, codes: Sequence[Tensor]) -> Speech:
        request, decoded = plan.request, [self._decode(chunk) for chunk in codes]
        samples = finish_speech(
            decoded,
            reference_rms=None if request.voice is None else request.voice.rms,
            post_process=request.post_process,
            pad_seconds=request.pad_seconds,
            fade_seconds=request.fade_seconds,
            target_samples=plan.target_samples,
            pauses=[*(chunk.pause_samples for chunk in plan.chunks), plan.tail_samples],
        )
        waveform = Waveform(samples, SAMPLE_RATE)
        texts = tuple(chunk.text for chunk in plan.chunks)
        voice = request.voice or voice_of_speech(
            plan, codes[0], peak=float(decoded[0].abs().max()), codec=self.codec_fingerprint, by_lora=self.has_loras
        )
        warnings = (*plan.warnings, OVERFLOWED) if self.lm.overflowed else plan.warnings
        return Speech(waveform, tuple(codes), texts, waveform.seconds, plan.seed, voice, warnings, request=request)

    def _decode(self, codes: Tensor) -> Tensor:
        return self.codec.decode(codes, windows=self.sampler.speedups.windows)

    @torch.no_grad()
    def decode_voice(self, voice: VoicePrompt) -> Waveform:
        """Return the recording of a voice, decoded from its codes: [1, N] at 24,000 Hz, at the level of its encoding.

        Raises InputError for a voice made with another codec.
        """
        check_voice(voice, self.codec)
        return Waveform(self._decode(voice.codes), SAMPLE_RATE)

    def estimate_bytes(self, plans: Sequence[GenerationPlan], *, free_bytes: int | None = None) -> int:
        """Return the working memory of `generate_plans(plans, free_bytes=free_bytes)`, in addition to the weights."""
        if not plans:
            return 0
        memory, batches = self._memory, self._runner(free_bytes).batches(plans)
        return CPU_LIBRARIES * memory.on_cpu + estimate_run(plans, batches, memory, self.codec.config)

    def estimate_encode_bytes(self, waveform: Waveform, text: str = "") -> int:
        """Return the most working memory that `encode_voice(waveform, text)` needs, in addition to the weights."""
        seconds = waveform.seconds if text.strip() else min(waveform.seconds, LONG_SECONDS)  # trimmed
        on_cpu = self.codec.device.type == "cpu"
        return CPU_LIBRARIES * on_cpu + estimate_encoding(seconds, self.codec.config, on_cpu=on_cpu)

    def estimate_decode_bytes(self, voice: VoicePrompt) -> int:
        """Return the working memory of `decode_voice(voice)` in addition to the weights; raises what it raises."""
        check_voice(voice, self.codec)
        return self.estimate_frames_bytes(voice.frames)

    def estimate_frames_bytes(self, frames: int) -> int:
        """Return the working memory of decoding codes of so many frames, in addition to the weights."""
        on_cpu = self.codec.device.type == "cpu"
        return CPU_LIBRARIES * on_cpu + estimate_decoding(frames, self.codec.config, on_cpu=on_cpu)

    @property
    def _memory(self) -> SamplingMemory:
        device, graphs = self.sampler.device, self.sampler.graphs
        return SamplingMemory(
            self.lm.config, self.lm.get_dtype().itemsize, device.type == "cpu", graphs=graphs.wanted(device)
        )

    def _runner(self, free_bytes: int | None, addresses: FindAddresses | None = None) -> Runner:
        free_bytes = free_memory(self.sampler.device) if free_bytes is None else free_bytes
        sampler = self.sampler if addresses is None else replace(self.sampler, addresses=addresses)
        return Runner(sampler, self.tokenizer, self._memory.rows_within(free_bytes))
