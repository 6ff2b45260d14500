"""The Settings node: expert values for Synthesize. Ranges, defaults and checks are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.plan import CHUNKING
from . import host
from .inputs import synthesize as speech
from .widgets import CATEGORY, Settings, float_input, int_input

DEFAULTS, SAMPLING = speech.DEFAULTS, speech.DEFAULTS.sampling


class OmniVoiceSettings(io.ComfyNode):
    """Node `OmniVoiceSettings`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSettings",
            display_name="OmniVoice Settings",
            category=CATEGORY,
            description="Expert values for Synthesize. Without this node, Synthesize uses its preset and the defaults "
            "that you see here.",
            search_aliases=["tts settings", "sampling", "steps", "chunking"],
            inputs=[*_sampling_widgets(), *_audio_widgets(), *_chunk_widgets(), *_shortcut_widgets()],
            outputs=[Settings.Output(display_name="settings", tooltip="The settings, for Synthesize.")],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(speech.settings_from(inputs))


def _sampling_widgets() -> list[io.Input]:
    return [
        _whole("steps", "Number of steps. More steps give better speech and take longer. 0 leaves it to the preset."),
        _number(
            "guidance", SAMPLING.guidance, 0.1, "How closely the speech follows the text and the voice. 0 is fastest."
        ),
        _number(
            "t_shift",
            SAMPLING.t_shift,
            0.01,
            "When the audio is decided. Small values leave most of it to the last steps. 1 decides the same amount in "
            "each step.",
        ),
        _number(
            "layer_penalty",
            SAMPLING.layer_penalty,
            0.5,
            "How strongly the coarse part of the audio is decided before the fine part.",
        ),
        _number(
            "position_temperature",
            SAMPLING.position_temperature,
            0.5,
            "Randomness of the order in which the audio is decided. 0 means no randomness.",
        ),
        _number(
            "class_temperature",
            SAMPLING.class_temperature,
            0.1,
            "Randomness of the audio itself. 0 always takes the most likely code. Higher values vary more and may be "
            "less clear.",
        ),
    ]


def _audio_widgets() -> list[io.Input]:
    return [
        _switch("denoise", DEFAULTS.denoise, "Asks for clean speech when the recording of the voice is noisy."),
        _switch("post_process", DEFAULTS.post_process, "Shortens long silences at the ends and inside the speech."),
        _number("pad_seconds", DEFAULTS.pad_seconds, 0.05, "Silence added at each end, in seconds."),
        _number("fade_seconds", DEFAULTS.fade_seconds, 0.05, "Length of the fade at each end, in seconds."),
    ]


def _chunk_widgets() -> list[io.Input]:
    ours, upstream = CHUNKING
    return [
        io.Combo.Input(
            "chunking",
            options=[*CHUNKING],
            default=DEFAULTS.chunking,
            tooltip=f"Where a long text is cut into chunks. {ours} cuts between sentences and clauses. {upstream} cuts "
            "as the original program does.",
            optional=True,
        ),
        _number("chunk_seconds", DEFAULTS.chunk_seconds, 0.5, "Length of a chunk of a long text, in seconds."),
        _number(
            "chunk_threshold_seconds",
            DEFAULTS.chunk_threshold_seconds,
            0.5,
            "Texts that take up to this many seconds are not cut.",
        ),
    ]


def _shortcut_widgets() -> list[io.Input]:
    return [
        _whole(
            "unconditional_every",
            "Approximate and faster: recomputes the unconditional half of guidance only every N steps. 1 is exact. 0 "
            "leaves it to the preset.",
        ),
        _whole(
            "prefix_every",
            "Approximate and faster: recomputes the keys and values of the text and the voice only every N steps. 1 is "
            "exact. 0 leaves it to the preset.",
        ),
    ]


def _whole(name: str, tooltip: str) -> io.Input:
    """Return the input of a value that 0 leaves to the preset."""
    return int_input(name, 0, tooltip, low=0, optional=True)


def _number(name: str, default: float, step: float, tooltip: str) -> io.Input:
    return float_input(name, default, step, tooltip, optional=True)


def _switch(name: str, default: bool, tooltip: str) -> io.Input:
    return io.Boolean.Input(name, default=default, tooltip=tooltip, optional=True)
