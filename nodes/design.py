"""Voice Design Attributes: turns menus and free words into a described voice. The words are in text/design.json.

Accents and dialects share one menu, because a voice has one of them and never both.
"""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.text.design import design_from_attributes, design_options
from ..omnivoice.text.free_design import design_from_free_text
from . import host
from .widgets import Design, with_texts

AUTO = "auto"


def menus() -> dict[str, list[str]]:
    """Return {input: the words of its menu}."""
    options = {name: list(words) for name, words in design_options().items()}
    options["accent"] += options.pop("dialect")
    return {name: [AUTO, *words] for name, words in options.items()}


class VoiceDesignAttributes(io.ComfyNode):
    """Node `OmniVoiceVoiceDesignAttributes`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceVoiceDesignAttributes",
                inputs=[
                    *(
                        io.Combo.Input(name, options=words, default=AUTO, optional=True)
                        for name, words in menus().items()
                    ),
                    io.String.Input("description", default="", optional=True),
                ],
                outputs=[Design.Output(display_name="design")],
                search_aliases=["voice design", "voice attributes", "speaker"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, description: object = None, **attributes: object) -> io.NodeOutput:
        if attributes.get("accent") in design_options()["dialect"]:
            attributes["dialect"] = attributes.pop("accent")
        chosen = design_from_attributes(**attributes)
        design, ignored = design_from_free_text("" if description is None else description, chosen)
        host.progress.warn(ignored, cls.hidden.unique_id)
        return io.NodeOutput(design)
