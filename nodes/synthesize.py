"""The Synthesize node: text to speech. Expert values come from Settings; widgets become requests in `inputs`."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS, shortcuts_of
from . import host
from .inputs import synthesize as speech
from .widgets import CATEGORY, Design, Model, Settings, Voice, all_languages, float_input, int_input, language_input

TEXT = "The weather is beautiful today."  # a sentence that the demo voice can say


class Synthesize(io.ComfyNode):
    """Node `OmniVoiceSynthesize`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSynthesize",
            display_name="OmniVoice Synthesize",
            category=CATEGORY,
            description="Speaks a text in a cloned voice, in a described voice, or in a voice that the model chooses. "
            "A list of texts or voices gives a list of recordings.",
            search_aliases=["tts", "text to speech", "speak", "speech", "omnivoice"],
            is_input_list=True,
            inputs=[Model.Input("model", tooltip="From Load OmniVoice."), *_widgets(), *_sockets()],
            outputs=[
                io.Audio.Output(display_name="audio", tooltip="The speech: mono, 24 kHz.", is_output_list=True),
                Voice.Output(
                    display_name="voice",
                    tooltip="The voice of this speech. To keep a voice that you described or that the model chose, "
                    "connect it to another Synthesize or to Save Voice.",
                    is_output_list=True,
                ),
                io.Float.Output(
                    display_name="seconds", tooltip="Length of the speech, in seconds.", is_output_list=True
                ),
                io.String.Output(
                    display_name="report",
                    tooltip="Length, seed, voice, chunks, settings and warnings, as text.",
                    is_output_list=True,
                ),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, text: object = None) -> bool | str:
        """Check the text. No other input is named here, because ComfyUI repeats the message for every named one."""
        return speech.validate_text(text)

    @classmethod
    @host.values.guarded
    def execute(cls, model: list[object], **inputs: list[object]) -> io.NodeOutput:
        loaded = [host.models.loaded(one) for one in model]
        requests = speech.requests_from(inputs)
        spoken = host.speech.speak(host.values.only(loaded, "model"), requests, cls.hidden.unique_id)
        host.progress.warn(speech.warnings_of(spoken), cls.hidden.unique_id, summary=speech.summary(requests, spoken))
        return io.NodeOutput(
            [host.values.audio_from(one.waveform) for one in spoken.values()],
            [one.voice for one in spoken.values()],
            [one.seconds for one in spoken.values()],
            [speech.report(requests[label], one) for label, one in spoken.items()],
        )


def _widgets() -> list[io.Input]:
    return [
        io.String.Input(
            "text",
            multiline=True,
            default=TEXT,
            dynamic_prompts=False,
            tooltip="What to say, in any language of the model. It may contain sounds such as [laughter] and pauses "
            "such as [pause 0.5s].",
        ),
        int_input(
            "seed",
            0,
            "The same seed and settings give the same speech. Another seed gives another reading of the text.",
            control_after_generate=True,
            optional=True,
        ),
        io.Combo.Input("preset", options=[*PRESETS], default=speech.PRESET, tooltip=_preset_tooltip(), optional=True),
        language_input(all_languages(), "The language of the text. auto lets the model infer it."),
        float_input("speed", 1.0, 0.05, "Speaking rate: 2 is twice as fast.", optional=True),
        float_input(
            "duration",
            0.0,
            0.1,
            "Length of the speech in seconds. 0 lets the text decide. Any other value overrides speed.",
            optional=True,
        ),
        _switch("exact_length", "Makes the audio exactly as long as duration, to the sample. Needs a duration."),
        _switch("split_lines", "Speaks each line of the text as a separate recording. The outputs become lists."),
    ]


def _sockets() -> list[io.Input]:
    return [
        Voice.Input(
            "voice",
            optional=True,
            tooltip="A recorded voice to clone, from Reference Audio, Load Voice or another Synthesize.",
        ),
        Design.Input(
            "design",
            optional=True,
            tooltip="A described voice, from Voice Design Attributes. If voice is connected too, the recording "
            "decides.",
        ),
        Settings.Input("settings", optional=True, tooltip="Expert values, from OmniVoice Settings."),
    ]


def _switch(name: str, tooltip: str) -> io.Input:
    return io.Boolean.Input(name, default=False, tooltip=tooltip, optional=True)


def _preset_tooltip() -> str:
    presets = [
        f"{name}: {preset.steps} steps{', approximate' if shortcuts_of(preset) else ''}"
        for name, preset in PRESETS.items()
    ]
    return f"Quality against speed. More steps give better speech and take longer. {'; '.join(presets)}."
