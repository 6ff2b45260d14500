"""Voice Design Attributes: drop-downs and free words -> a described voice. Words are the engine's (text/design.json).

What is unusual: accents and dialects share one menu, so that no choice can be a wrong one.
"""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.errors import InputError
from ..omnivoice.intake.limits import shown
from ..omnivoice.text.design import MAX_CHARS, design_from_attributes, design_options
from ..omnivoice.text.free_design import design_from_free_text
from . import host
from .widgets import CATEGORY, Design

AUTO = "auto"
TOOLTIPS = {
    "gender": "Gender of the voice.",
    "age": "Age of the speaker.",
    "pitch": "How high the voice is.",
    "style": "whisper: whispered instead of spoken.",
    "accent": "Accent of English speech, or dialect of Chinese speech.",
}


def menus() -> dict[str, list[str]]:
    """{input: its words}."""
    options = {name: list(words) for name, words in design_options().items()}
    options["accent"] += options.pop("dialect")
    return options


class VoiceDesignAttributes(io.ComfyNode):
    """Node `OmniVoiceVoiceDesignAttributes`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceVoiceDesignAttributes",
            display_name="OmniVoice Voice Design Attributes",
            category=CATEGORY,
            description="Describes a voice, with no recording needed. Works for English and Chinese speech.",
            search_aliases=["voice design", "voice attributes", "speaker"],
            inputs=[
                *(
                    io.Combo.Input(
                        name, options=[AUTO, *words], default=AUTO, tooltip=f"{TOOLTIPS[name]} auto: left to the model."
                    )
                    for name, words in menus().items()
                ),
                io.String.Input(
                    "description",
                    default="",
                    tooltip='The same in free words, such as "a deep voice, British lady". If a menu says something '
                    "else, the menu counts. A warning names the words that were not understood.",
                    optional=True,
                ),
            ],
            outputs=[Design.Output(display_name="design", tooltip="The described voice, for Synthesize.")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, description: object = "", **attributes: object) -> io.NodeOutput:
        chosen = design_from_attributes(**checked_attributes(attributes))
        if not isinstance(description, str):
            raise InputError(
                f"description must be a string of at most {MAX_CHARS} characters, got {shown(description)}"
            )
        design, ignored = design_from_free_text(description, chosen)
        host.progress.tell(ignored, cls.hidden.unique_id)
        return io.NodeOutput(design)


def checked_attributes(given: dict[str, object]) -> dict[str, str]:
    """The engine's attributes; raises InputError for what is in no menu."""
    found = {}
    for name, words in menus().items():
        value = given.get(name, AUTO)
        if not isinstance(value, str) or value not in (AUTO, *words):
            raise InputError(f"{name} must be one of {', '.join((AUTO, *words))}, got {shown(value)}")
        if value != AUTO:
            found["dialect" if name == "accent" and value in design_options()["dialect"] else name] = value
    return found
