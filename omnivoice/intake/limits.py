"""Every range and every cap in one table, shared by the engine, the nodes and the command line.

ComfyUI does not check what reaches a node: linked values skip ranges, and NaN passes min and max. So a number is
trusted only after `check_number` or `check_integer`. This file checks plain values and opens nothing.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..constants import FRAME_RATE
from ..errors import AudioError, InputError, TextError

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Blank or joining characters that Python calls printable: combining grapheme joiner, fillers, empty Braille.
INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159]")

# Text, in characters.
MAX_TEXT_CHARS = 200_000
MAX_RUN_CHARS = 500_000  # of all texts that are spoken together: twice what is said in four hours
MAX_REQUESTS = 10_000  # texts that are spoken together
MAX_ORDER_CHARS = 20_000  # of a list of numbers, such as seeds or times
MAX_EDITS = 500  # places of one recording that are edited in one run
MAX_TIMED_WORDS = 100_000  # twice what is said in four hours
MAX_TIMINGS_CHARS = 16_000_000  # of their JSON: each word takes about 110
MAX_REFERENCES = 64  # recordings that become voices in one run of a node
MAX_VOICE_TEXT_CHARS = 2_000
MAX_LABEL_CHARS = 120
MAX_CONSENT_CHARS = 500
MAX_NOTICE_CHARS = 1_000  # of a spoken notice that a recording was made with AI
MAX_LORA_TEXT_CHARS = 2_000  # of one entry of its metadata
MAX_NAME_BYTES = 120
MAX_PAUSES = 2_000
MAX_PAUSE_SECONDS = 30
MAX_PAUSES_SECONDS = 600
MAX_SPEAKERS = 64
MAX_SPEAKER_CHARS = 64
MAX_SCRIPT_LINES = 1_000
MAX_SUBTITLE_CHARS = 2_000_000
MAX_CUES = 10_000
MAX_CUE_CHARS = 10_000
MAX_DICTIONARY_ENTRIES = 20_000
MAX_DICTIONARY_CHARS = 4_000_000
MAX_ENTRY_CHARS = 200  # of a word, and of its replacement

# Audio.
MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 384_000
MAX_CHANNELS = 8
MAX_AUDIO_SECONDS = 600
MAX_AUDIO_BYTES = 256 * MIB  # as decoded float32
MAX_TOTAL_SECONDS = 4 * 3600
# The work of a run: frames x steps x attempts, where a text that may be spoken again counts once for each attempt. Four
# hours in the quality preset (32 steps) with all 16 retries are 195.8 million, and so are 16 takes of 15 minutes. With
# 256 steps, four hours fit with one retry. Lists of the command line's batch are longer: there it holds for the rows
# that are spoken together, because the list resumes after a stop.
MAX_RUN_WORK = 200_000_000
# The work for a recording. A packet of Opus has at least 120 samples, and decoders make many millions in a second.
MAX_SEARCH_SECONDS = 1  # of processor time in which a decoder finds no audio
MIN_SAMPLES_PER_SECOND = 1_000_000  # of processor time, on average
MAX_PACKETS_WITHOUT_AUDIO = 1_000
MIN_PACKET_SAMPLES = 64  # of a packet, on average
MIN_VOICE_SECONDS = 0.5
MAX_VOICE_SECONDS = 60
MIN_CLIP_SECONDS = 0.5  # of a recording to train on
MAX_CLIP_SECONDS = 30

# MP4 files: the boxes, the bytes of those without audio, and the samples in an index, for each of which FFmpeg takes
# 35 bytes. Ten minutes have 30,000 samples, and 36,000 of a video.
MAX_MP4_BOXES = 100_000
MAX_MP4_TABLE_BYTES = 32 * MIB
MAX_MP4_SAMPLES = 1_000_000

# Batch lists.
MAX_BATCH_ROWS = 200_000

# Codec codes.
MAX_VOICE_FRAMES = MAX_VOICE_SECONDS * FRAME_RATE
MAX_CODEBOOKS = 64
CODEBOOK_SIZE = 1_024

# Numbers in the config of a model, by key: what its layers are built from. Those of lists are for each entry.
MAX_CONFIG_ENTRIES = 8  # of a list that has one entry for each layer or stage
MAX_LAYERS = 256
CONFIG_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "vocab_size": 1_000_000,
        "audio_vocab_size": 65_536,
        "audio_mask_id": 65_536,
        "hidden_size": 65_536,
        "intermediate_size": 262_144,
        "head_dim": 1_024,
        "num_hidden_layers": MAX_LAYERS,
        "num_attention_heads": 1_024,
        "num_key_value_heads": 1_024,
        "num_audio_codebook": MAX_CODEBOOKS,
        "encoder_hidden_size": 4_096,
        "decoder_hidden_size": 65_536,
        "conv_dim": 65_536,
        "channel_ratios": 64,
        "codebook_size": 65_536,
        "codebook_dim": 65_536,
        "downsample_factor": 65_536,
        "sample_rate": MAX_SAMPLE_RATE,
        "semantic_sample_rate": MAX_SAMPLE_RATE,
    }
)
MAX_CONFIG_NUMBER = 1_024  # of every other key: kernels, strides, dilations, groups

# As CONFIG_LIMITS, for a Whisper model and its feature extractor.
WHISPER_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "d_model": 65_536,
        "vocab_size": 1_000_000,
        "num_mel_bins": 1_024,
        "encoder_layers": MAX_LAYERS,
        "decoder_layers": MAX_LAYERS,
        "encoder_ffn_dim": 262_144,
        "decoder_ffn_dim": 262_144,
        "encoder_attention_heads": 1_024,
        "decoder_attention_heads": 1_024,
        "max_source_positions": 65_536,
        "max_target_positions": 65_536,
        "feature_size": 1_024,
        "n_fft": 4_096,
        "hop_length": 4_096,
        "chunk_length": 60,
        "sampling_rate": 48_000,
    }
)
MAX_UNSTORED_WEIGHTS = 50_000_000  # of a Whisper model, beyond those in its files: the smallest one has 38 million

# Files, in bytes.
MAX_TABLE_BYTES = 32 * MIB
MAX_CONFIG_BYTES = MIB
MAX_INDEX_BYTES = 8 * MIB
MAX_TOKENIZER_BYTES = 20 * MIB
MAX_TENSORS_BYTES = 512 * MIB  # files that are read into memory: voices, LoRAs
MAX_MODEL_BYTES = 64 * GIB
MAX_VOICE_BYTES = 16 * MIB
MAX_PROMPT_BYTES = 16 * MIB
MAX_MANIFEST_BYTES = 256 * MIB
MAX_TRANSCRIPT_BYTES = 64 * KIB
MAX_SUBTITLE_BYTES = 16 * MIB
MAX_DICTIONARY_BYTES = 16 * MIB
MAX_CODES_BYTES = MIB  # of one clip

# Training data.
MAX_DATASET_ROWS = 1_000_000
MAX_DATASET_FILES = 2_000_000
MAX_UNUSABLE_ROWS = 5_000  # at the start of a list in which no row before them can be used
MAX_ROW_CHARS = 64 * KIB

# JSON of any kind, which is built in memory as a whole: 60-250 bytes for each value.
MAX_JSON_VALUES = 1_000_000
MAX_JSON_CONTAINERS = 1_000_000  # lists and objects

# Safetensors headers.
MAX_HEADER_BYTES = 8 * MIB
MAX_TENSORS = 4_096
MAX_DIMENSIONS = 8
MAX_TENSOR_NAME_CHARS = 256


@dataclass(frozen=True)
class Limit:
    """A closed range [low, high]. integer: whole numbers only. above_low: `low` itself is not allowed."""

    low: float
    high: float
    integer: bool = False
    above_low: bool = False

    def __str__(self) -> str:
        if self.above_low:
            return f"above {self.low} and at most {self.high}"
        between = " to " if self.low < 0 else "-"
        return f"{'a whole number ' if self.integer else ''}{self.low}{between}{self.high}"


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "steps": Limit(1, 256, integer=True),
        "guidance": Limit(0, 10),
        "t_shift": Limit(0.01, 10),
        "layer_penalty": Limit(0, 100),
        "position_temperature": Limit(0, 100),
        "class_temperature": Limit(0, 10),
        "unconditional_every": Limit(1, 64, integer=True),
        "prefix_every": Limit(1, 64, integer=True),
        "strength": Limit(-10, 10),
        "lora_rank": Limit(1, 256, integer=True),
        "lora_alpha": Limit(0, 10_000, above_low=True),
        "dropout": Limit(0, 0.9),
        "training_steps": Limit(1, 1_000_000, integer=True),
        "learning_rate": Limit(1e-7, 1),
        "share": Limit(0, 1),
        "validation": Limit(0, 0.5),
        "max_grad_norm": Limit(0, 1_000),
        "batch_tokens": Limit(1, 1_000_000, integer=True),
        "batch_size": Limit(1, 10_000, integer=True),
        "grad_accumulation_steps": Limit(1, 1_024, integer=True),
        "every": Limit(0, 1_000_000, integer=True),
        "patience": Limit(0, 1_000, integer=True),
        "points": Limit(0, 100),
        "speed": Limit(0.25, 4),
        "duration": Limit(0, 600, above_low=True),
        "seed": Limit(0, 2**64 - 1, integer=True),
        "retries": Limit(0, 16, integer=True),
        "clips": Limit(1, 10_000, integer=True),
        "takes": Limit(1, 16, integer=True),
        "take": Limit(0, 16, integer=True),
        "pad_seconds": Limit(0, 10),
        "fade_seconds": Limit(0, 10),
        "chunk_seconds": Limit(3, 60),
        "chunk_threshold_seconds": Limit(3, 120),
        "first_seconds": Limit(0, 60),
        "context_seconds": Limit(0, 30),
        "gap_seconds": Limit(0, 60),
        "total_seconds": Limit(0, MAX_TOTAL_SECONDS),
        "slowest_rate": Limit(0, 1),
        "seconds": Limit(0, 86_400),
        "fps": Limit(0.01, 1_000),
        "video_frames": Limit(0, 86_400_000, integer=True),
        "image_width": Limit(256, 4_096, integer=True),
        "image_height": Limit(192, 2_160, integer=True),
    }
)


def check_integer(name: str, value: object, *, shown_as: str = "") -> int:
    """Return `value` as a Python int within `LIMITS[name]`; raises InputError, which calls it `shown_as` if given.

    Refuses bool, float (even 3.0) and str: something has already converted such a number.
    """
    limit = LIMITS[name]
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, numbers.Integral)):
        raise InputError(f"{shown_as or name} must be {limit}, got {shown(value)}")
    number = operator.index(value)
    if not limit.low <= number <= limit.high:
        raise InputError(f"{shown_as or name} must be {limit.low}-{limit.high}, got {shown(value)}")
    return number


def check_number(name: str, value: object, *, shown_as: str = "") -> float | int:
    """Return `value` as a Python float (int where the limit is integer) within `LIMITS[name]`; raises InputError.

    Takes any real number, numpy scalars included. Refuses bool, str, NaN, Inf and numbers that do not fit a float.
    """
    limit = LIMITS[name]
    if limit.integer:
        return check_integer(name, value, shown_as=shown_as)
    number = math.nan
    if type(value) is float:  # the usual case; looking for an abstract class takes longer
        number = value
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError, ValueError):
            number = float(value)
    inside = limit.low < number if limit.above_low else limit.low <= number
    if not math.isfinite(number) or not inside or number > limit.high:
        raise InputError(f"{shown_as or name} must be {limit}, got {shown(value)}")
    return number


def check_choice(name: str, value: object, allowed: Collection[str]) -> str:
    """Return `value` if it is one of `allowed`; raises InputError, which calls it `name`."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    return value


def check_switch(name: str, value: object) -> bool:
    """Return `value` if it is a bool; raises InputError, which calls it `name`."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {shown(value)}")
    return value


def check_text_length(text: object, *, name: str = "text", limit: int = MAX_TEXT_CHARS) -> str:
    """Return `text` if it is a str of at most `limit` characters; raises TextError. Reads no character."""
    if not isinstance(text, str):
        raise TextError(f"{name} must be a string, got {shown(text)}")
    if len(text) > limit:
        raise TextError(f"{name} must be at most {limit} characters, got {len(text)}: split it into parts")
    return text


def check_run_length(texts: Iterable[object]) -> None:
    """Raise TextError for texts that together are too long to be spoken in one run. Reads no character."""
    chars = sum(len(text) for text in texts if isinstance(text, str))
    if chars > MAX_RUN_CHARS:
        raise TextError(
            f"all texts of one run together must be at most {MAX_RUN_CHARS} characters, got {chars}: split them into "
            "several runs"
        )


def shown(value: object) -> str:
    """Return a short form of any value for a message, on one line; of containers and objects, only the type.

    Printable characters of every script stay. Control, direction and invisible characters are escaped.
    """
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, str):
        return INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], repr(value[:60]))
    if isinstance(value, numbers.Integral):
        number = operator.index(value)
        return str(number) if abs(number) < 10**30 else "a number of more than 30 digits"
    if isinstance(value, numbers.Real):
        return str(value)[:60]
    return type(value).__name__


def shown_size(count: int, *, unlike: int | None = None) -> str:
    """Return a number of bytes with three digits and the unit that shows them: 512 bytes, 3.26 GB.

    With `unlike`, a limit that was exceeded, there are as many digits as tell the two apart.
    """
    digits = 3
    while unlike not in (None, count) and _size_text(count, digits) == _size_text(unlike or 0, digits):
        digits += 1
    return _size_text(count, digits)


def _size_text(count: int, digits: int) -> str:
    if count < 1000:
        return f"{count} {'byte' if count == 1 else 'bytes'}"
    number, unit = count / 1000, "KB"
    for larger in ("MB", "GB", "TB"):
        if float(f"{number:.{digits}g}") < 1000:
            break
        number, unit = number / 1000, larger
    return f"{float(f'{number:.{digits}g}'):.{digits + 3}g} {unit}"


def too_large(name: str, size: int, state: str = "") -> AudioError:
    """Return the error for audio of more than `MAX_AUDIO_BYTES`. state: " decoded" if `size` is that of the samples."""
    got = shown_size(size, unlike=MAX_AUDIO_BYTES)
    return AudioError(f"{name} must be at most {shown_size(MAX_AUDIO_BYTES)}{state}, got {got}: shorten it")


def check_audio_layout(name: str, channels: int, sample_rate: int) -> tuple[int, int]:
    """Return (channels, sample_rate) if both are within the limits; raises AudioError."""
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioError(f"{name} must have 1-{MAX_CHANNELS} channels, got {channels}: convert it first")
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        allowed = f"{MIN_SAMPLE_RATE}-{MAX_SAMPLE_RATE} Hz"
        raise AudioError(f"{name} must have a sample rate of {allowed}, got {sample_rate}: convert it first")
    return channels, sample_rate


def longest_audio(channels: int, sample_rate: int) -> int:
    """Return the most samples per channel that a recording may have."""
    return min(MAX_AUDIO_SECONDS * sample_rate, MAX_AUDIO_BYTES // (4 * channels))


def check_audio_size(name: str, frames: int, channels: int, sample_rate: int) -> None:
    """Raise AudioError for a recording that is too long, or too large once decoded to float32."""
    if frames > MAX_AUDIO_SECONDS * sample_rate:
        raise AudioError(f"{name} must be at most {MAX_AUDIO_SECONDS} seconds long, got {frames / sample_rate:.0f}")
    if 4 * frames * channels > MAX_AUDIO_BYTES:
        raise too_large(name, 4 * frames * channels, " decoded")
