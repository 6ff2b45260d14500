"""The values that pass through the engine: waveform, request, plan, speech. They are frozen dataclasses.

Shape letters: C channels, N samples, K codebooks, T audio frames. Ranges of numbers are not checked here but in
`generate/plan.py`, from the table in `intake/limits.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Protocol

import torch
from torch import Tensor

from .errors import AudioError
from .voice import VoiceDesign as VoiceDesign
from .voice import VoicePrompt as VoicePrompt


class OnStep(Protocol):
    """Called after every decoding step with the steps done and their total; may raise to cancel."""

    def __call__(self, done: int, total: int, /) -> None: ...


@dataclass(frozen=True, eq=False)
class Waveform:
    """Audio: samples [C, N] float32 on the CPU, about -1 to 1, and the sample rate in Hz.

    [N] becomes one channel, and other float dtypes are converted. Raises AudioError for anything else, including
    integer samples, whose scale is unknown. N may be 0 and samples may be NaN; functions that use them check that.
    """

    samples: Tensor
    sample_rate: int

    def __post_init__(self) -> None:
        samples = self.samples
        if not isinstance(samples, Tensor) or samples.ndim not in (1, 2) or not samples.is_floating_point():
            got = f"{tuple(samples.shape)} {samples.dtype}" if isinstance(samples, Tensor) else type(samples).__name__
            raise AudioError(f"samples must be a float tensor [C, N] or [N], got {got}")
        if samples.ndim == 2 and samples.shape[0] == 0:
            raise AudioError("samples must have at least one channel, got [0, N]")
        rate = self.sample_rate
        if isinstance(rate, bool) or not isinstance(rate, Integral) or rate < 1:  # numpy's integers are accepted
            raise AudioError(f"sample_rate must be a whole number of Hz >= 1, got {rate!r}")
        object.__setattr__(self, "sample_rate", int(rate))
        flat = samples.detach().to(device="cpu", dtype=torch.float32)
        object.__setattr__(self, "samples", flat[None] if flat.ndim == 1 else flat)

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.samples.shape[1] / self.sample_rate


@dataclass(frozen=True)
class Sampling:
    """How the masked tokens are revealed; defaults are upstream's (models/omnivoice.py:174).

    steps: forward passes. guidance: classifier-free guidance scale, 0 = none. t_shift: time shift; smaller values
    reveal more of the tokens in the last steps. layer_penalty: how strongly lower codebooks come first.
    position_temperature: randomness of where tokens are revealed; class_temperature: of which token; 0 = greedy.

    unconditional_every, prefix_every: approximations, see `generate/approximate.py`. The unconditional half of
    guidance, and the keys and values of prompt and reference, are recomputed every N steps; 1 = exact.

    codebook_steps: for speech that is filled into a recording, the forward passes of each codebook, which are revealed
    one after the other, in place of `steps`; () = all codebooks together, as upstream generates.
    """

    steps: int = 32
    guidance: float = 2.0
    t_shift: float = 0.1
    layer_penalty: float = 5.0
    position_temperature: float = 5.0
    class_temperature: float = 0.0
    unconditional_every: int = 1
    prefix_every: int = 1
    codebook_steps: tuple[int, ...] = ()

    @property
    def passes(self) -> int:
        """The number of forward passes."""
        return sum(self.codebook_steps) or self.steps


@dataclass(frozen=True)
class Speedups:
    """Exact shortcuts: none changes a token. All are on; they can be switched off to measure one or to find a fault.

    packed: all documents in one forward pass, not one after another. targets_only: the last layer and the heads run
    on target rows only. skip_unguided: no unconditional documents at guidance 0. early_stop: no forward pass once
    nothing is masked. one_pass_guidance: one softmax instead of three. fused_linears: query, key and value are one
    product, gate and up another. fast_linear: float32 products on a CPU use the faster of torch's two libraries.
    windows: long codes are decoded in overlapping windows. graphs: steps are replayed as CUDA graphs.
    """

    packed: bool = True
    targets_only: bool = True
    skip_unguided: bool = True
    early_stop: bool = True
    one_pass_guidance: bool = True
    fused_linears: bool = True
    fast_linear: bool = True
    windows: bool = True
    graphs: bool = True


ALL_SPEEDUPS = Speedups()


@dataclass(frozen=True)
class DictionaryEntry:
    """A word, or several, and what is spoken for it: a respelling, pinyin, or CMU phonemes in brackets.

    language: an id; None = any. exact_case: capitals must be as in `word`; otherwise any case will do. line: where it
    is in its list, from 1.
    """

    word: str
    replacement: str
    language: str | None = None
    exact_case: bool = False
    line: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary:
    """Pronunciations; `text.dictionary_reader` makes one from a list, and `text.dictionary` applies it."""

    entries: tuple[DictionaryEntry, ...] = ()

    @cached_property
    def _digest(self) -> str:
        entries = [(one.word, one.replacement, one.language, one.exact_case) for one in self.entries]
        return hashlib.sha256(repr(entries).encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        return f"Dictionary({len(self.entries)} entries, {self._digest})"


@dataclass(frozen=True)
class GenerationRequest:
    """One text to speak, and how. `generate/plan.py` checks every value.

    voice: the voice to clone. design: a described voice, as attributes or as a string of them. With both, the voice has
    more influence; with neither, the model chooses a voice. language: an id, a tag such as en-US, a name or an alias;
    None = the model guesses from the text. seed: up to 64 bits; None = a new one, which is reported. speed: a factor,
    None = 1. duration: seconds; overrides speed. exact_length: make the output exactly round(duration * 24000) samples
    long, including pads and gaps. denoise: ask for clean speech where the voice's recording is noisy. post_process:
    shorten silences. pad_seconds, fade_seconds: silence added at each end, and the fade there. chunking: "sentences" or
    "upstream"; a text estimated at more than chunk_threshold_seconds is split into chunks of about chunk_seconds.
    first_seconds: end the first chunk of "sentences" with the first sentence that brings it to this length, so that it
    is ready early; 0 = as the others. text_as_written: speak the text as it is written, with every symbol and without
    reading pauses from it; None: as the model says, which is False for the published one. normalise: speak numbers,
    symbols and abbreviations as words, by the rules of the language. dictionary: replaces words of the text before
    anything else is done to it. given: names of settings, also of `sampling`, that must stay although they are
    defaults; a model may recommend others in place of those.
    """

    text: str
    voice: VoicePrompt | None = None
    design: VoiceDesign | str | None = None
    language: str | None = None
    seed: int | None = None
    speed: float | None = None
    duration: float | None = None
    exact_length: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    denoise: bool = True
    post_process: bool = True
    pad_seconds: float = 0.1
    fade_seconds: float = 0.1
    chunking: str = "sentences"
    chunk_seconds: float = 15.0
    chunk_threshold_seconds: float = 30.0
    first_seconds: float = 0.0
    text_as_written: bool | None = None
    normalise: bool = False
    dictionary: Dictionary | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class Change:
    """One replacement by a dictionary or by normalisation: `original` stood between `start` and `end` of the text."""

    start: int
    end: int
    original: str
    spoken: str


@dataclass(frozen=True)
class Chunk:
    """A piece of text that is generated in one go, in `frames` audio frames.

    follows_first: uses chunk 0 as its voice (several chunks without a given voice). pause_samples: zeros that the text
    asks for before this chunk; 0 = an ordinary join.
    """

    text: str
    frames: int
    follows_first: bool = False
    pause_samples: int = 0


@dataclass(frozen=True)
class GenerationPlan:
    """A checked request that is ready to run.

    language, instruct: the strings that the prompt receives, or None. seed: the one to use. chunked: the text was
    estimated above the threshold or contains pauses; it may still be one chunk. tail_samples: zeros that the text asks
    for at its end. target_samples: the exact output length, or None. notes: what the model's recommendations, the
    dictionary and the normalisation changed. respelled, normalised: every change of the dictionary and of the
    normalisation, with its place in the request's text without its invisible characters (`intake.text_in`).
    used_entries: those of the dictionary that the text has words for.
    """

    request: GenerationRequest
    chunks: tuple[Chunk, ...]
    language: str | None
    instruct: str | None
    seed: int
    chunked: bool = False
    tail_samples: int = 0
    target_samples: int | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    respelled: tuple[Change, ...] = ()
    normalised: tuple[Change, ...] = ()
    used_entries: frozenset[DictionaryEntry] = frozenset()


@dataclass(frozen=True, eq=False)
class Speech:
    """Generated speech.

    waveform: [1, N] at 24,000 Hz. codes: one [K, T] int64 tensor for each chunk, on the CPU. chunks: the text of each
    chunk. seconds: length of the waveform. seed: the one used. voice: the given voice, or else the first chunk as a
    voice, for more speech in the same voice. warnings: everything the user should know. notes: how it was computed.
    request: with what the model recommended. respelled, normalised, used_entries: as in the plan.
    """

    waveform: Waveform
    codes: tuple[Tensor, ...]
    chunks: tuple[str, ...]
    seconds: float
    seed: int
    voice: VoicePrompt
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    request: GenerationRequest | None = None
    respelled: tuple[Change, ...] = ()
    normalised: tuple[Change, ...] = ()
    used_entries: frozenset[DictionaryEntry] = frozenset()
