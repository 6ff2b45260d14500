"""Synthesize: text -> speech. The widgets, in an order that saved workflows rely on; the rest is `speech`'s."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS, compared
from ..omnivoice.text.languages import language_options
from . import host
from .inputs import synthesize as speech
from .inputs.synthesize import AUTO, CUSTOM, EXPERIMENTAL, STEPS
from .widgets import CATEGORY, Design, Model, Voice, float_input, int_input


class Synthesize(io.ComfyNode):
    """Node `OmniVoiceSynthesize`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSynthesize",
            display_name="OmniVoice Synthesize",
            category=CATEGORY,
            description="Speaks a text: in a cloned voice, in a described one, or in one of the model's own choice. "
            "A list of texts or voices gives a list of recordings.",
            search_aliases=["tts", "text to speech", "speak", "speech", "omnivoice"],
            is_input_list=True,
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice."),
                *_widgets(),
                Voice.Input(
                    "voice",
                    optional=True,
                    tooltip="A recorded voice to clone, from Reference Audio, Load Voice or another Synthesize.",
                ),
                Design.Input(
                    "design",
                    optional=True,
                    tooltip="A described voice, from Voice Design Attributes. With a voice too, the recording leads.",
                ),
                *_later_widgets(),
                *_expert_widgets(),
            ],
            outputs=[
                io.Audio.Output(display_name="audio", tooltip="The speech, mono, 24 kHz.", is_output_list=True),
                Voice.Output(
                    display_name="voice",
                    tooltip="The voice it spoke with. Connect it to another Synthesize, or save it, to keep a voice "
                    "that was described or chosen by the model.",
                    is_output_list=True,
                ),
                io.Float.Output(display_name="seconds", tooltip="Length of the speech.", is_output_list=True),
                io.String.Output(
                    display_name="report", tooltip="Seed, frames, chunks, settings and warnings.", is_output_list=True
                ),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, text: object = None, duration: object = None, exact_length: object = None) -> bool | str:
        return speech.refusal(text, duration, exact_length)

    @classmethod
    @host.values.guarded
    def execute(cls, model: list[object], **inputs: list[object]) -> io.NodeOutput:
        loaded = [host.models.loaded(one) for one in model]
        requests = speech.requests_from(inputs)
        spoken = host.speech.speak(host.values.only(loaded, "model"), requests)
        warnings = [*speech.steps_warnings(inputs, requests), *(w for one in spoken for w in one.warnings)]
        host.progress.tell(tuple(dict.fromkeys(warnings)), cls.hidden.unique_id)
        return io.NodeOutput(
            [host.values.audio_from(one.waveform) for one in spoken],
            [one.voice for one in spoken],
            [one.seconds for one in spoken],
            [speech.report(request, one) for request, one in zip(requests, spoken)],
        )


def _widgets() -> list[io.Input]:
    """The first ones. Saved values are positional, so new ones go to the end of `_expert_widgets`."""
    return [
        io.String.Input(
            "text",
            multiline=True,
            default="Hello, this is OmniVoice.",
            dynamic_prompts=False,
            tooltip="What to say, in any of the languages. [laughter], [sigh] and the other tags are spoken as sounds.",
        ),
        int_input(
            "seed",
            0,
            "Same seed and settings: same speech. Another seed: another reading.",
            control_after_generate=True,
        ),
        int_input("steps", STEPS, "Decoding steps: 16 is quick, 32 is good. Counts only if preset is custom."),
        float_input("guidance", 2.0, 0.1, "How strongly the text and the voice are followed; 0 is quicker and looser."),
        float_input("speed", 1.0, 0.05, "Speaking rate: 2 is twice as fast."),
        float_input("duration", 0.0, 0.1, "Length in seconds; 0 lets the text decide. Overrides speed."),
        io.Combo.Input(
            "language",
            options=[AUTO, *(name for _, name in language_options())],
            default=AUTO,
            tooltip="The language of the text; auto leaves it to the model.",
        ),
    ]


def _later_widgets() -> list[io.Input]:
    """Optional, since prompts saved before them lack them."""
    return [
        io.Combo.Input("preset", options=[CUSTOM, *PRESETS], default=CUSTOM, tooltip=_preset_tooltip(), optional=True),
        _switch("exact_length", False, "Make the speech exactly as long as duration says, to the sample.", False),
        _switch("split_lines", False, "Speak every line as a recording of its own: the outputs become lists.", False),
    ]


def _expert_widgets() -> list[io.Input]:
    more = {"advanced": True, "optional": True}
    ours, upstream = speech.CHUNKING
    return [
        _switch("denoise", True, "Ask for clean speech where the reference is noisy.", True),
        _switch("post_process", True, "Shorten long silences at the ends and inside.", True),
        float_input("pad_seconds", 0.1, 0.05, "Silence added at each end.", **more),
        float_input("fade_seconds", 0.1, 0.05, "Fade in and out at each end.", **more),
        float_input("chunk_seconds", 15.0, 0.5, "Long texts are spoken in pieces of about this length.", **more),
        float_input("chunk_threshold_seconds", 30.0, 0.5, "Texts up to this length are spoken in one piece.", **more),
        io.Combo.Input(
            "chunking",
            options=[*speech.CHUNKING],
            default=ours,
            tooltip=f"Where long texts are cut: {ours} cuts between sentences and clauses, {upstream} as the original "
            "package does.",
            **more,
        ),
        float_input(
            "t_shift",
            0.1,
            0.01,
            "Small values decide most of the speech in the last steps; 1: as much in each step.",
            **more,
        ),
        float_input("layer_penalty", 5.0, 0.5, "How strongly the coarse part of the sound is decided first.", **more),
        float_input(
            "position_temperature", 5.0, 0.5, "Randomness of the order in which the sound is decided; 0: none.", **more
        ),
        float_input(
            "class_temperature", 0.0, 0.1, "Randomness of the sound itself; 0: always the likeliest sound.", **more
        ),
        int_input(
            "unconditional_every",
            1,
            "EXPERIMENTAL, changes the speech. Do the second half of the work of guidance only at every Nth step; "
            "1 = at each step: exact. Without effect at guidance 0. 2 is 1.16 times as fast (32 steps, CPU); a small "
            "test model then got 81 % of the words right, exact 85 %.",
            prefix=EXPERIMENTAL,
            **more,
        ),
        int_input(
            "prefix_every",
            1,
            "EXPERIMENTAL, changes the speech. Recompute what the model worked out for text and reference only every "
            "N steps; 1 = at each step: exact.",
            prefix=EXPERIMENTAL,
            **more,
        ),
    ]


def _switch(name: str, default: bool, tooltip: str, advanced: bool) -> io.Input:
    return io.Boolean.Input(name, default=default, tooltip=tooltip, optional=True, advanced=advanced)


def _preset_tooltip() -> str:
    steps = ", ".join(f"{name} = {preset.steps}" for name, preset in PRESETS.items())
    measured = "; ".join(compared(name) for name, preset in PRESETS.items() if preset.steps != STEPS)
    return (
        f"More steps speak better and take longer: {steps} steps, whatever the steps widget says; {CUSTOM} = the steps "
        f"widget counts. Measured by the model's authors (arXiv 2604.00688, table 9, three test sets), against "
        f"{STEPS} steps: {measured}. UTMOS is a score for natural speech, 1 to 5."
    )
