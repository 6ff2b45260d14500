"""Everything that a training run can be told, checked; and two ready-made sets of it.

Unusual: settings are plain numbers and words, so that they travel as JSON and TOML, and two runs can be compared by
them. Sources of defaults: upstream training/config.py:37 and its LoRA example (r 16, alpha 32, dropout 0.05, audio
modules trained whole, AdamW 1e-4, weight decay 0.01, clip 1.0, cosine with 1 % warm-up). Reads no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from ..errors import InputError
from ..intake.limits import check_number, shown

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
METHODS = ("lora", "full")
AUDIO_MODULES = ("whole", "lora", "frozen")
OPTIMIZERS = ("AdamW", "Adam", "SGD", "RMSprop", "Muon")
SCHEDULES = ("cosine", "constant")
DTYPES = ("auto", "bf16", "fp32")
STEPS_PER_SECOND, FEWEST_STEPS, MOST_STEPS = 3.0, 300, 1500  # of a voice, by the length of its clips


@dataclass(frozen=True)
class Masking:
    """How a clip becomes something to learn (upstream data/processor.py:34, training/config.py:45).

    drop_condition: share of clips learnt without any text. prompt: range of the share of a clip's beginning that is
    shown. mask: range of the share of codes that is hidden. language, instruct, pinyin: how often each is used where
    a clip has it. only_instruct: how often a clip with an instruct is learnt without a shown beginning.

    by_codebook (not upstream's, off): share of clips hidden as decoding finds them, mostly the lower codebooks known
    first, and more often little than much; for models that begin from nothing.
    """

    drop_condition: float = 0.1
    prompt: tuple[float, float] = (0.0, 0.3)
    mask: tuple[float, float] = (0.0, 1.0)
    language: float = 0.8
    instruct: float = 1.0
    only_instruct: float = 0.5
    pinyin: float = 0.3
    by_codebook: float = 0.0

    def __post_init__(self) -> None:
        for name in ("drop_condition", "language", "instruct", "only_instruct", "pinyin", "by_codebook"):
            object.__setattr__(self, name, check_number("share", getattr(self, name), shown_as=name))
        for name in ("prompt", "mask"):
            pair = getattr(self, name)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise InputError(f"{name} must be two numbers, the least and the largest share, got {shown(pair)}")
            low, high = (check_number("share", end, shown_as=name) for end in pair)
            if low > high or (name == "prompt" and high >= 1):
                raise InputError(f"{name} must go upwards, and leave something to learn, got {shown(pair)}")
            object.__setattr__(self, name, (low, high))


@dataclass(frozen=True)
class TrainSettings:
    """One run.

    method: "lora", or "full" for every weight. rank, alpha, dropout, rslora, targets: of the pairs. audio_modules:
    audio embeddings and heads are trained "whole", by "lora", or stay "frozen".
    steps, batch_tokens (rows of text and sound in one batch), batch_size (clips in one batch, at most), accumulation
    (batches a step), learning_rate, schedule, warmup (share of the steps), weight_decay, max_grad_norm (0: no
    clipping), optimizer (Muon: for the matrices of the layers, AdamW for the rest), seed. training_dtype: what the base
    computes in; pairs and optimizer are always float32. gradient_checkpointing: less memory for a third more time.
    offloading: the base stays on the CPU.
    validation: share of the clips set aside. validate_every, save_every, sample_every: steps, 0 = never. patience:
    stop when that many validations in a row were no better, 0 = never. sample_text: what the samples say.
    """

    method: str = "lora"
    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    rslora: bool = False
    targets: tuple[str, ...] = LINEARS
    audio_modules: str = "whole"
    steps: int = 1000
    learning_rate: float = 1e-4
    schedule: str = "cosine"
    warmup: float = 0.01
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    optimizer: str = "AdamW"
    batch_tokens: int = 8192
    batch_size: int = 64
    accumulation: int = 1
    seed: int = 0
    training_dtype: str = "auto"
    gradient_checkpointing: bool = True
    offloading: bool = False
    validation: float = 0.05
    validate_every: int = 100
    save_every: int = 100
    sample_every: int = 0
    patience: int = 0
    sample_text: str = ""
    masking: Masking = field(default_factory=Masking)

    def __post_init__(self) -> None:
        for name, limit in _NUMBERS.items():
            object.__setattr__(self, name, check_number(limit, getattr(self, name), shown_as=name))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, got {shown(getattr(self, name))}")
        for name in ("rslora", "gradient_checkpointing", "offloading"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, got {shown(getattr(self, name))}")
        if not isinstance(self.targets, (tuple, list)) or any(t not in LINEARS for t in self.targets):
            raise InputError(f"targets must be some of {', '.join(LINEARS)}, got {shown(self.targets)}")
        object.__setattr__(self, "targets", tuple(part for part in LINEARS if part in self.targets))
        if not isinstance(self.sample_text, str) or not isinstance(self.masking, Masking):
            raise InputError("sample_text must be a text, and masking a table")
        self._check_together()

    def _check_together(self) -> None:
        if self.method == "lora" and not self.targets and self.audio_modules == "frozen":
            raise InputError("nothing would be trained: name targets, or train the audio modules")
        if self.offloading and not self.gradient_checkpointing:
            raise InputError("offloading needs gradient_checkpointing: switch it on too")
        if self.offloading and self.method == "full":
            raise InputError("offloading keeps frozen weights off the device; with method full there are none")
        if self.sample_every and not self.sample_text.strip():
            raise InputError("sample_every needs a sample_text: write what the samples say, or set it to 0")
        if self.patience and not (self.validate_every and self.validation):
            raise InputError("patience needs validations: set validation and validate_every")

    @property
    def scale(self) -> float:
        """What a pair's product is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)

    def as_table(self) -> dict[str, object]:
        """For JSON: everything, by name."""
        table = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**table, "masking": {f.name: getattr(self.masking, f.name) for f in fields(self.masking)}}


def settings_from(table: Mapping[str, object], base: TrainSettings | None = None) -> TrainSettings:
    """`base` (or the defaults) with the entries of `table`, a JSON or TOML object. Raises InputError: an unknown name
    too."""
    start = base or TrainSettings()
    masking = table.get("masking", {})
    if not isinstance(masking, Mapping):
        raise InputError(f"masking must be a table, got {shown(masking)}")
    for given, known, place in ((masking, Masking, "masking."), (table, TrainSettings, "")):
        unknown = sorted(set(given) - {f.name for f in fields(known)})
        if unknown:
            names = ", ".join(sorted(f.name for f in fields(known)))
            raise InputError(f"unknown setting {place}{unknown[0]}: known are {names}")
    whole = {**start.as_table(), **{name: value for name, value in table.items() if name != "masking"}}
    parts = {f.name: masking.get(f.name, getattr(start.masking, f.name)) for f in fields(Masking)}
    build: Callable[..., TrainSettings] = TrainSettings  # every value is checked in there
    make: Callable[..., Masking] = Masking
    return build(**{**whole, "masking": make(**parts)})


def voice_preset(seconds: float) -> TrainSettings:
    """One voice from minutes of clips, `seconds` in all: short, gentle, and the language of every clip is told."""
    steps = round(min(max(STEPS_PER_SECOND * seconds, FEWEST_STEPS), MOST_STEPS))
    return TrainSettings(steps=steps, warmup=0.05, batch_tokens=4096, batch_size=16, masking=Masking(language=1.0))


def language_preset(seconds: float) -> TrainSettings:
    """A language, or a manner of speaking, from hours of clips by several people."""
    return TrainSettings(rank=32, alpha=64.0, steps=5000, masking=Masking(language=1.0))


PRESETS = MappingProxyType({"voice": voice_preset, "language": language_preset})

_CHOICES = {
    "method": METHODS,
    "audio_modules": AUDIO_MODULES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "training_dtype": DTYPES,
}
# Name -> entry of the table of limits.
_NUMBERS = {
    "rank": "lora_rank",
    "alpha": "lora_alpha",
    "dropout": "dropout",
    "steps": "training_steps",
    "learning_rate": "learning_rate",
    "warmup": "share",
    "weight_decay": "share",
    "max_grad_norm": "max_grad_norm",
    "batch_tokens": "batch_tokens",
    "batch_size": "batch_size",
    "accumulation": "grad_accumulation_steps",
    "seed": "seed",
    "validation": "validation",
    "validate_every": "every",
    "save_every": "every",
    "sample_every": "every",
    "patience": "patience",
}
