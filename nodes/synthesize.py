"""Synthesize: text -> speech. Builds the engine's request from the widgets; everything else is the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.errors import InputError
from ..omnivoice.intake.limits import check_number, check_whole, shown
from ..omnivoice.text.languages import language_options
from ..omnivoice.types import GenerationRequest, Sampling, VoiceDesign, VoicePrompt
from . import host
from .numbers import real, whole
from .sockets import CATEGORY, Design, Model, Voice

AUTO = "auto"


class Synthesize(io.ComfyNode):
    """Node `OmniVoiceSynthesize`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSynthesize",
            display_name="OmniVoice Synthesize",
            category=CATEGORY,
            description="Speaks a text: in a cloned voice, in a described one, or in one of the model's own choice.",
            search_aliases=["tts", "text to speech", "speak", "speech", "omnivoice"],
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice."),
                *_widgets(),
                Voice.Input("voice", optional=True, tooltip="A recorded voice to clone, from Reference Audio."),
                Design.Input(
                    "design",
                    optional=True,
                    tooltip="A described voice, from Voice Design Attributes. With a voice too, the recording leads.",
                ),
            ],
            outputs=[io.Audio.Output(display_name="audio", tooltip="The speech, mono, 24 kHz.")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    @host.guarded
    def execute(cls, model: object, voice: object = None, design: object = None, **widgets: object) -> io.NodeOutput:
        loaded = host.checked(host.LoadedModel, model, "model", "Load OmniVoice")
        request = speech_request(voice, design, **widgets)
        speech = host.speak(loaded, request)
        host.tell(speech.warnings, cls.hidden.unique_id)
        return io.NodeOutput(host.audio_from(speech.waveform))


def _widgets() -> list[io.Input]:
    """In the order that saved workflows rely on: new ones go to the end."""
    return [
        io.String.Input(
            "text",
            multiline=True,
            default="Hello, this is OmniVoice.",
            dynamic_prompts=False,
            tooltip="What to say, in any of the languages. [laughter], [sigh] and the other tags are spoken as sounds.",
        ),
        whole("seed", 0, "Same seed, same speech.", control_after_generate=True),
        whole("steps", 32, "Decoding steps: 16 is quick, 32 is good."),
        real("guidance", 2.0, 0.1, "How strongly the text and the voice are followed; 0 is quicker and looser."),
        real("speed", 1.0, 0.05, "Speaking rate: 2 is twice as fast."),
        real("duration", 0.0, 0.1, "Length in seconds; 0 lets the text decide. Overrides speed."),
        io.Combo.Input(
            "language",
            options=[AUTO, *(name for _, name in language_options())],
            default=AUTO,
            tooltip="The language of the text; auto leaves it to the model.",
        ),
    ]


def speech_request(
    voice: object, design: object, *, text: object, seed: object = 0, steps: object = 32, guidance: object = 2.0,
    speed: object = 1.0, duration: object = 0.0, language: object = AUTO,
) -> GenerationRequest:  # fmt: skip
    """The engine's request, with every value checked here once more: linked ones skip ComfyUI's own checks.

    Raises InputError that names the input.
    """
    if not isinstance(language, str):
        raise InputError(f"language must be a name from the list, got {shown(language)}")
    if not isinstance(text, str):
        raise InputError(f"text must be a string, got {shown(text)}")
    if voice is not None:
        voice = host.checked(VoicePrompt, voice, "voice", "Reference Audio")
    if design is not None:
        design = host.checked(VoiceDesign, design, "design", "Voice Design Attributes")
    return GenerationRequest(
        text=text,
        voice=voice,
        design=design,
        language=None if language == AUTO else language,
        seed=check_whole("seed", seed),
        speed=check_number("speed", speed),
        # 0 stands for "not given"; anything else must be a duration, so -1 and NaN are refused.
        duration=None if type(duration) in (int, float) and duration == 0 else check_number("duration", duration),
        sampling=Sampling(steps=check_whole("steps", steps), guidance=check_number("guidance", guidance)),
    )
