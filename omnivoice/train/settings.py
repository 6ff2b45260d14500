"""The settings of a training run, checked, and two presets.

Settings are plain numbers and strings, so they can be stored as JSON or TOML and compared between runs. The defaults
are upstream's (training/config.py:37 and its LoRA example: rank 16, alpha 32, dropout 0.05, the audio modules in
modules_to_save, AdamW at 1e-4, weight decay 0.01, gradient clipping at 1.0, cosine schedule with 1 % warm-up).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from ..devices import AUTO, DTYPES
from ..errors import InputError
from ..intake.limits import check_choice, check_number, check_switch, shown

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
METHODS = ("lora", "full")
AUDIO, AUDIO_MODULES = ("audio_embeddings", "audio_heads"), ("full", "lora", "frozen")
OPTIMIZERS = ("AdamW", "Adam", "SGD", "RMSprop", "Muon")
SCHEDULES = ("cosine", "constant")
TRAINING_DTYPES = (AUTO, *(name for name in DTYPES if name != "fp16"))  # fp16 would need loss scaling
# Of the voice preset, chosen by words and voice (docs/training.md): steps by the length of the clips.
VOICE_RATE, STEPS_PER_SECOND, MIN_STEPS, MAX_STEPS = 2e-4, 2.0, 100, 1000
ALPHA_PER_RANK = 2  # of both presets


@dataclass(frozen=True)
class Masking:
    """How a clip becomes a training example (upstream data/processor.py:34, training/config.py:45).

    drop_condition: share of clips trained without any text. prompt: smallest and largest share of a clip that serves,
    from its start, as the reference. mask: smallest and largest share of the codes that is masked. language, instruct,
    pinyin: how often each is used when a clip has it. only_instruct: how often a clip with an instruct is trained
    without a reference. by_codebook (not in upstream, off by default): share of clips masked as in the middle of
    decoding, with the lower codebooks mostly known; for models trained from scratch.
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
                raise InputError(f"{name} must be two numbers, the smallest and the largest share, got {shown(pair)}")
            low, high = (check_number("share", end, shown_as=name) for end in pair)
            if low > high or (name == "prompt" and high >= 1):
                ending = " that ends below 1" if name == "prompt" else ""
                raise InputError(f"{name} must be an ascending range{ending}, got {low:g} to {high:g}")
            object.__setattr__(self, name, (low, high))


@dataclass(frozen=True)
class TrainSettings:
    """The settings of one run.

    method: "lora", or "full" to train every weight. rank, alpha, dropout, rslora, targets: of the LoRA. audio_modules:
    how audio embeddings and heads are trained: "full" (PEFT's modules_to_save), with a "lora", or "frozen".
    steps; batch_tokens: text tokens and frames in one batch; batch_size: most clips in one batch;
    grad_accumulation_steps: batches in one step; learning_rate; schedule; warmup: share of the steps; weight_decay;
    max_grad_norm: gradient clipping, 0 for none; optimizer: Muon trains the matrices of the layers and AdamW the other
    weights; seed. training_dtype: of the base model; LoRA and optimizer are always float32. gradient_checkpointing:
    less memory for a third more time. offloading: keep the base model on the CPU.
    validation: share of the clips set aside. validate_every, save_every, sample_every: in steps, 0 for never.
    patience: stop after that many validations in a row without improvement, 0 for never. stop_words_points: at each
    validation count the right words of speech from the model, and stop when their share is more than so many
    percentage points below the best so far; 0: do not count. sample_text: text of the spoken samples.
    """

    method: str = "lora"
    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.05
    rslora: bool = False
    targets: tuple[str, ...] = LINEARS
    audio_modules: str = "full"
    steps: int = 1000
    learning_rate: float = 1e-4
    schedule: str = "cosine"
    warmup: float = 0.01
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    optimizer: str = "AdamW"
    batch_tokens: int = 8192
    batch_size: int = 64
    grad_accumulation_steps: int = 1
    seed: int = 0
    training_dtype: str = "auto"
    gradient_checkpointing: bool = True
    offloading: bool = False
    validation: float = 0.05
    validate_every: int = 100
    save_every: int = 100
    sample_every: int = 0
    patience: int = 0
    stop_words_points: float = 0.0
    sample_text: str = ""
    masking: Masking = field(default_factory=Masking)

    def __post_init__(self) -> None:
        for name, limit in _NUMBERS.items():
            object.__setattr__(self, name, check_number(limit, getattr(self, name), shown_as=name))
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        for name in ("rslora", "gradient_checkpointing", "offloading"):
            check_switch(name, getattr(self, name))
        if not isinstance(self.targets, (tuple, list)) or any(t not in LINEARS for t in self.targets):
            raise InputError(f"targets must be some of {', '.join(LINEARS)}, got {shown(self.targets)}")
        object.__setattr__(self, "targets", tuple(part for part in LINEARS if part in self.targets))
        if not isinstance(self.sample_text, str):
            raise InputError(f"sample_text must be a text, got {shown(self.sample_text)}")
        if not isinstance(self.masking, Masking):
            raise InputError(f"masking must be a table, got {shown(self.masking)}")
        self._check_together()

    def _check_together(self) -> None:
        if self.method == "lora" and not self.targets and self.audio_modules == "frozen":
            raise InputError("there is nothing to train: name targets, or train the audio modules")
        if self.offloading and not self.gradient_checkpointing:
            raise InputError("offloading needs gradient_checkpointing: switch it on too")
        if self.offloading and self.method == "full":
            raise InputError("offloading moves frozen weights to the CPU, and with method full no weight is frozen")
        if self.sample_every and not self.sample_text.strip():
            raise InputError("sample_every needs a sample_text: write one, or set sample_every to 0")
        for name in ("patience", "stop_words_points"):
            if getattr(self, name) and not (self.validate_every and self.validation):
                raise InputError(f"{name} needs validations: set validation and validate_every, or set {name} to 0")

    @property
    def scale(self) -> float:
        """The factor that the product of LoRA A and B is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)

    @property
    def lora_parts(self) -> tuple[str, ...]:
        """The layers that get a LoRA, by the last part of their names."""
        return () if self.method == "full" else (*self.targets, *(AUDIO if self.audio_modules == "lora" else ()))

    @property
    def full_parts(self) -> tuple[str, ...]:
        """The layers that are fully trained in addition to a LoRA."""
        return AUDIO if (self.method, self.audio_modules) == ("lora", "full") else ()

    def as_table(self) -> dict[str, object]:
        """Return every setting by name, ready for JSON; stop_words_points only if it is on, as in older files."""
        table = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "stop_words_points"}
        table |= {"stop_words_points": self.stop_words_points} if self.stop_words_points else {}
        return {**table, "masking": {f.name: getattr(self.masking, f.name) for f in fields(self.masking)}}


def settings_from(table: Mapping[str, object], base: TrainSettings | None = None) -> TrainSettings:
    """Return `base` (or the defaults) with the entries of `table`, a JSON or TOML object.

    Raises InputError for an unknown name or a value that is not allowed.
    """
    start = base or TrainSettings()
    masking = table.get("masking", {})
    if not isinstance(masking, Mapping):
        raise InputError(f"masking must be a table, got {shown(masking)}")
    for given, known, place in ((masking, Masking, "masking."), (table, TrainSettings, "")):
        unknown = sorted(set(given) - {f.name for f in fields(known)})
        if unknown:
            names = ", ".join(sorted(f.name for f in fields(known)))
            raise InputError(f"unknown setting {place}{unknown[0]}: known are {names}")
    changed = {**table, "masking": replace(start.masking, **masking)}
    return replace(start, **changed)  # type: ignore[arg-type]  # every value is checked


def settings_for(preset: str, seconds: float, table: Mapping[str, object]) -> TrainSettings:
    """Return the settings of a run on `seconds` of clips: the entries of `table`, and the preset's for all others.

    With a rank and no alpha, alpha is twice that rank, as in the presets. Raises InputError.
    """
    base = PRESETS[check_choice("preset", preset, tuple(PRESETS))](seconds)
    settings = settings_from(table, base)
    return settings if "alpha" in table else replace(settings, alpha=float(ALPHA_PER_RANK * settings.rank))


def voice_preset(seconds: float) -> TrainSettings:
    """Return settings for one voice, from minutes of clips, `seconds` in total."""
    steps = round(min(max(STEPS_PER_SECOND * seconds, MIN_STEPS), MAX_STEPS))
    return TrainSettings(
        steps=steps,
        learning_rate=VOICE_RATE,
        warmup=0.05,
        batch_tokens=4096,
        batch_size=16,
        masking=Masking(language=1.0),
    )


def language_preset(seconds: float) -> TrainSettings:
    """Return settings for a language or a way of speaking, from hours of clips by several speakers."""
    return TrainSettings(rank=32, alpha=64.0, steps=5000, masking=Masking(language=1.0))


PRESETS = MappingProxyType({"voice": voice_preset, "language": language_preset})
# What the presets decide when it is not given.
BY_PRESET = ("steps", "learning_rate", "rank", "alpha", "batch_size", "batch_tokens", "warmup")

_CHOICES = {
    "method": METHODS,
    "audio_modules": AUDIO_MODULES,
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "training_dtype": TRAINING_DTYPES,
}
# Name -> entry of the table of limits.
_OWN = ("dropout", "learning_rate", "max_grad_norm", "batch_tokens", "batch_size", "grad_accumulation_steps", "seed")
_NUMBERS = {
    **{name: name for name in (*_OWN, "validation", "patience")},
    **dict.fromkeys(("warmup", "weight_decay"), "share"),
    **dict.fromkeys(("validate_every", "save_every", "sample_every"), "every"),
    "stop_words_points": "points",
    "rank": "lora_rank",
    "alpha": "lora_alpha",
    "steps": "training_steps",
}
