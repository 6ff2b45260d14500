"""`Engine`: the one class a caller needs. Load a checkpoint, encode a voice, speak.

It holds the language model, the codec's two halves, the tokenizer and the devices their inputs go to, and joins
the rooms: plan, run, decode, finish. It never moves weights after loading and keeps no cache: a host (ComfyUI) owns
the memory, and passes its own layers as `ops`. Nothing is downloaded, and no global state is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike

import torch
from torch import Tensor

from .audio.finish import finish_speech
from .audio.loudness import SPEECH_RMS, UNVOICED_PEAK
from .audio.reference import LONG_SECONDS, prepare_reference
from .codec import CodecDecoder, CodecEncoder
from .config import CodecConfig
from .constants import SAMPLE_RATE
from .errors import AudioError, InputError, NumericError, TextError
from .generate.budget import free_memory, rows_per_batch
from .generate.estimate import CPU_LIBRARIES, estimate_decoding, estimate_encoding, estimate_run
from .generate.graphs import StepGraphs
from .generate.plan import make_plan
from .generate.run import Runner
from .generate.sample import Sampler
from .intake.limits import MAX_VOICE_FRAMES, MAX_VOICE_TEXT_CHARS, check_text_length, shown
from .intake.text_in import clean_text
from .lm import OmniVoiceLM, TextEmbedding
from .ops import PLAIN_OPS, Ops, cpu_has_fast_bf16, with_fast_linear
from .text.characters import end_punctuation
from .text.clean import speakable
from .text.duration import rate_fault
from .text.tokenizer import TextTokenizer
from .text.vocabulary import vocabulary_warnings
from .types import ALL_SPEEDUPS, GenerationPlan, GenerationRequest, OnStep, Speech, Speedups, VoicePrompt, Waveform
from .weights import load_codec_decoder, load_codec_encoder, load_lm, locate_checkpoint
from .weights.files import CheckpointFiles

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


class Engine:
    """A loaded OmniVoice model.

    lm, decoder, encoder: the modules, for a host that manages their memory. sampler: the loop and its CUDA graphs.
    Made by `Engine.load`.
    """

    def __init__(
        self,
        sampler: Sampler,
        decoder: CodecDecoder,
        load_encoder: Callable[[], CodecEncoder],
        codec_config: CodecConfig,
        tokenizer: TextTokenizer,
        codec_device: torch.device,
        words: Sequence[str] = (),
    ):
        self.lm, self.decoder, self.codec_config, self.tokenizer = sampler.lm, decoder, codec_config, tokenizer
        self.sampler, self._load_encoder, self._codec_device = sampler, load_encoder, codec_device
        self.words = frozenset(words)  # all that it can say, for a model of a small vocabulary; else none

    @cached_property
    def encoder(self) -> CodecEncoder:
        """Sound to codes: read from the file when a recording is first encoded, since speaking does not need it.

        Raises CheckpointError or FileError if the file is damaged or gone.
        """
        return self._load_encoder()

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
        speedups: Speedups = ALL_SPEEDUPS,
    ) -> Engine:
        """Load a snapshot folder straight into `dtype` (None: the device's best) on `device`.

        codec_folder: where the codec is, if not in `folder`/audio_tokenizer. ops: layer library.
        compute_device: where inputs go, if the host moves weights there itself; default `device`. speedups: exact
        shortcuts, all on.
        Raises CheckpointError or FileError, which name what is missing or wrong, InputError for another dtype.
        """
        if dtype is not None and dtype not in DTYPES:
            raise InputError(f"dtype must be torch.float32, bfloat16, float16 or float64, got {dtype}")
        where = torch.device(device)
        target = where if compute_device is None else torch.device(compute_device)
        files = locate_checkpoint(folder, codec_folder)
        tokenizer = TextTokenizer.from_json(files.tokenizer_json())
        ops = with_fast_linear(ops) if speedups.fast_linear else ops
        lm, text = load_lm(
            files.lm_config,
            files.lm_weights,
            ops=ops,
            device=where,
            dtype=dtype or best_dtype(target),
            used_ids=tokenizer.used_ids,
            fused=speedups.fused_linears,
        )
        sampler = Sampler(lm, text, target, speedups, StepGraphs(mode="auto" if speedups.graphs else "off"))
        return cls._with_codec(sampler, files, tokenizer, ops, where)

    @classmethod
    def around(
        cls,
        lm: OmniVoiceLM,
        text: TextEmbedding,
        files: CheckpointFiles,
        tokenizer: TextTokenizer,
        device: torch.device,
    ) -> Engine:
        """An engine that speaks with a language model as it is, one in training too, and the codec of `files`."""
        return cls._with_codec(_sampler_of(lm, text, device), files, tokenizer, with_fast_linear(PLAIN_OPS), device)

    @classmethod
    def _with_codec(
        cls, sampler: Sampler, files: CheckpointFiles, tokenizer: TextTokenizer, ops: Ops, where: torch.device
    ) -> Engine:
        """The decoder of `files` read to `where`, and the encoder when it is asked for: its names and shapes are
        checked with the decoder's."""
        where = codec_device(where)
        decoder = load_codec_decoder(files.codec_config, files.codec_weights, ops=ops, device=where)
        encoder = partial(load_codec_encoder, files.codec_config, files.codec_weights, ops=ops, device=where)
        target = codec_device(sampler.device)
        return cls(sampler, decoder, encoder, files.codec_config, tokenizer, target, files.words)

    def with_lm(self, lm: OmniVoiceLM, text: TextEmbedding, device: torch.device | None = None) -> Engine:
        """This codec and tokenizer around another, unfused language model, such as one in training. device: where it
        computes, if not where this one does."""
        return Engine(
            _sampler_of(lm, text, device or self.sampler.device),
            self.decoder,
            self._load_encoder,
            self.codec_config,
            self.tokenizer,
            self._codec_device,
            tuple(self.words),
        )

    @torch.no_grad()  # not inference_mode: its tensors could be neither changed nor trained on by the caller
    def encode_voice(self, waveform: Waveform, text: str = "") -> VoicePrompt:
        """Prepare and encode a reference recording [C, N] of any rate; `text` is what it says.

        Raises AudioError for a recording that cannot be a reference. What was odd about it, and a transcript
        that is missing or cannot be right, is told in the prompt's `warnings`.
        """
        if not isinstance(waveform, Waveform):
            raise AudioError(f"the reference must be a Waveform, got {shown(waveform)}: Waveform(samples, sample_rate)")
        channels, length = waveform.samples.shape
        if channels > length > 0:
            raise AudioError(f"samples must be [channels, samples], got [{channels}, {length}]: transpose them")
        text = _transcript(text)
        prepared = prepare_reference(waveform, has_text=bool(text))
        warnings = list(prepared.warnings)
        codes = self.encoder.encode(prepared.samples.to(self._codec_device)).cpu()
        if text:
            warnings += _rate_warnings(text, prepared.samples.shape[1] / SAMPLE_RATE)
        else:
            warnings.append("no transcript of the reference was given: pace and likeness suffer; add what it says")
        return VoicePrompt(codes=codes, text=text, rms=prepared.rms, warnings=tuple(warnings))

    def generate(
        self,
        requests: Sequence[GenerationRequest],
        *,
        on_step: OnStep | None = None,
        generator: torch.Generator | None = None,
    ) -> list[Speech]:
        """Speak every request; results in order. Modes may be mixed; each request has its own seed.

        generator: one shared CPU generator instead, drawn in upstream's order. on_step(done, total) may raise.
        Raises InputError before any model runs, NumericError if the model's output is not finite.
        """
        return self.generate_plans(self.plan(requests), on_step=on_step, generator=generator)

    def plan(self, requests: Sequence[GenerationRequest]) -> list[GenerationPlan]:
        """Check the requests and decide chunks and lengths, without running anything. Raises InputError."""
        if isinstance(requests, GenerationRequest):
            raise InputError("generate takes a list of requests, got one GenerationRequest: put it in [ ]")
        plans = [make_plan(request) for request in requests]
        for plan in plans:
            self._check_voice(plan.request.voice)
        return [self._with_vocabulary(plan) for plan in plans]

    def _with_vocabulary(self, plan: GenerationPlan) -> GenerationPlan:
        told = vocabulary_warnings(" ".join(chunk.text for chunk in plan.chunks), self.words)
        return replace(plan, warnings=(*plan.warnings, *told)) if told else plan

    @torch.no_grad()
    def generate_plans(
        self,
        plans: Sequence[GenerationPlan],
        *,
        on_step: OnStep | None = None,
        generator: torch.Generator | None = None,
        free_bytes: int | None = None,
    ) -> list[Speech]:
        """Run plans made by `plan`; otherwise as `generate`.

        free_bytes: memory that is free for it beside the weights, which decides how much runs together and changes no
        token; None: what CUDA says, and a fixed bound elsewhere.
        """
        if generator is not None and not (isinstance(generator, torch.Generator) and generator.device.type == "cpu"):
            raise InputError(
                f"generator must be a torch.Generator on the CPU, got {shown(generator)}; for a seed, use seed"
            )
        codes = self._runner(free_bytes).run(plans, generator, on_step)
        return [self._finish(plan, chunks) for plan, chunks in zip(plans, codes)]

    def estimate_bytes(self, plans: Sequence[GenerationPlan], *, free_bytes: int | None = None) -> int:
        """Working memory on the device that `generate_plans(plans, free_bytes=free_bytes)` needs beside the weights."""
        if not plans:
            return 0
        on_cpu = self.sampler.device.type == "cpu"
        return CPU_LIBRARIES * on_cpu + estimate_run(
            plans,
            self._runner(free_bytes).batches(plans),
            self.lm.config,
            self.codec_config,
            self.lm.get_dtype().itemsize,
            on_cpu=on_cpu,
        )

    def estimate_encode_bytes(self, waveform: Waveform, text: str = "") -> int:
        """Working memory on the device that `encode_voice(waveform, text)` needs beside the weights, at most."""
        seconds = waveform.seconds if text.strip() else min(waveform.seconds, LONG_SECONDS)  # then it is trimmed
        on_cpu = self._codec_device.type == "cpu"
        return CPU_LIBRARIES * on_cpu + estimate_encoding(seconds, self.codec_config, on_cpu=on_cpu)

    @torch.no_grad()
    def decode_voice(self, voice: VoicePrompt) -> Waveform:
        """What a voice sounds like: its codes as [1, N] at 24,000 Hz, at the level they were encoded with.

        Raises InputError for a voice that was made for another model.
        """
        self._check_voice(voice)
        return Waveform(self._decode(voice.codes), SAMPLE_RATE)

    def estimate_decode_bytes(self, voice: VoicePrompt) -> int:
        """Working memory that `decode_voice(voice)` needs beside the weights."""
        on_cpu = self._codec_device.type == "cpu"
        return CPU_LIBRARIES * on_cpu + estimate_decoding(voice.frames, self.codec_config, on_cpu=on_cpu)

    def _runner(self, free_bytes: int | None) -> Runner:
        device = self.sampler.device
        rows = rows_per_batch(
            free_memory(device) if free_bytes is None else free_bytes,
            self.lm.config,
            self.lm.get_dtype().itemsize,
            on_cpu=device.type == "cpu",
        )
        return Runner(self.sampler, self.tokenizer, rows)

    def _check_voice(self, voice: VoicePrompt | None) -> None:
        if voice is None:
            return
        if voice.frames > MAX_VOICE_FRAMES:
            raise InputError(
                f"a voice must be at most {MAX_VOICE_FRAMES} frames long, got {voice.frames}: encode 3-10 s of speech"
            )
        check_text_length(voice.text, name="voice text", limit=MAX_VOICE_TEXT_CHARS)
        codebooks, size = self.lm.config.codebooks, self.codec_config.codebook_size
        if voice.codes.shape[0] != codebooks or int(voice.codes.max()) >= size:
            raise InputError(
                f"this voice has {voice.codes.shape[0]} codebooks and codes up to {int(voice.codes.max())}, the model "
                f"{codebooks} and {size - 1}: it was made for another model; encode the recording again"
            )

    def _finish(self, plan: GenerationPlan, codes: Sequence[Tensor]) -> Speech:
        request, decoded = plan.request, [self._decode(chunk) for chunk in codes]
        samples = finish_speech(
            decoded,
            sample_rate=SAMPLE_RATE,
            reference_rms=None if request.voice is None else request.voice.rms,
            post_process=request.post_process,
            pad_seconds=request.pad_seconds,
            fade_seconds=request.fade_seconds,
            target_samples=plan.target_samples,
            pauses=[*(chunk.pause_samples for chunk in plan.chunks), plan.tail_samples],
        )
        waveform = Waveform(samples, SAMPLE_RATE)
        texts = tuple(chunk.text for chunk in plan.chunks)
        voice = request.voice or _voice_of(plan, codes[0], peak=float(decoded[0].abs().max()))
        return Speech(waveform, tuple(codes), texts, waveform.seconds, plan.seed, voice, plan.warnings)

    def _decode(self, codes: Tensor) -> Tensor:
        """Codes [K, T] -> samples [1, N] on the CPU, finite."""
        samples = self.decoder.decode(codes.to(self._codec_device), windows=self.sampler.speedups.windows).cpu()
        if not bool(torch.isfinite(samples).all()):
            raise NumericError(
                f"the codec produced NaN or Inf in {torch.float32} on {self._codec_device.type}: check the model's "
                "audio_tokenizer files, and try the CPU"
            )
        return samples


def _sampler_of(lm: OmniVoiceLM, text: TextEmbedding, device: torch.device) -> Sampler:
    """For an unfused model whose weights may change, so that no step of it can be recorded as a graph."""
    speedups = replace(ALL_SPEEDUPS, fused_linears=False, graphs=False)
    return Sampler(lm, text, device, speedups, StepGraphs(mode="off"))


def _voice_of(plan: GenerationPlan, codes: Tensor, *, peak: float) -> VoicePrompt:
    """The first chunk as a voice, so that a described or automatic one can be kept; peak: of its decoded samples.

    Its level makes later speech as loud as this one, whose peak was brought to 0.5. Beyond a voice's length limit the
    end is cut, and the text left out, since it would say more than the sound.
    """
    text = plan.chunks[0].text if codes.shape[1] <= MAX_VOICE_FRAMES else ""
    rms = SPEECH_RMS * UNVOICED_PEAK / max(peak, UNVOICED_PEAK)
    return VoicePrompt(codes[:, :MAX_VOICE_FRAMES].clone(), text, rms, language=plan.language or "")


def _transcript(text: str) -> str:
    """What a recording says, as the model will read it: clean, with an end mark; empty if there is none."""
    text = clean_text(text, name="transcript", limit=MAX_VOICE_TEXT_CHARS)
    if not text.strip():
        return ""
    try:
        return end_punctuation(speakable(text))
    except TextError:
        raise TextError("the transcript has no word in it: write what the recording says, or leave it empty") from None


def _rate_warnings(text: str, seconds: float) -> list[str]:
    """A transcript spoken impossibly fast or slow belongs to another recording (upstream.md 19)."""
    problem = rate_fault(text, seconds)
    if problem is None:
        return []
    return [
        f"the transcript is {problem} for {seconds:.1f} s of speech: words will be cut off or repeated; "
        "write exactly what the recording says"
    ]


def codec_device(device: torch.device) -> torch.device:
    """Where the codec computes beside a language model on `device`: MPS has no convolution of more than 65,536 output
    channels, so it stays on the CPU there, as upstream's."""
    return torch.device("cpu") if device.type == "mps" else device


def fastest_dtype(device: torch.device) -> torch.dtype:
    """As `best_dtype`, but bfloat16 on a CPU that multiplies it faster than float32."""
    if device.type == "cpu" and cpu_has_fast_bf16(torch.get_num_threads()):
        return torch.bfloat16
    return best_dtype(device)


def best_dtype(device: torch.device) -> torch.dtype:
    """float32 on CPUs and MPS, bfloat16 on GPUs that do it natively, else float16."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
    return torch.bfloat16 if device.type == "xpu" else torch.float32
