"""Pronunciation Dictionary: words and how they are spoken, for every node that speaks."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .inputs import preview as inputs_of
from .widgets import Dictionary, with_texts


class PronunciationDictionary(io.ComfyNode):
    """Node `OmniVoiceDictionary`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceDictionary",
                inputs=[
                    io.String.Input("entries", multiline=True, default=inputs_of.ENTRIES, dynamic_prompts=False),
                    Dictionary.Input("dictionary", optional=True),
                ],
                outputs=[Dictionary.Output(display_name="dictionary"), io.String.Output(display_name="report")],
                search_aliases=["pronunciation", "lexicon", "phonemes", "pinyin", "respelling", "replace words"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, entries: object = None) -> bool | str:
        """Check the entries."""
        return inputs_of.validate_entries(entries)

    @classmethod
    @host.values.guarded
    def execute(cls, entries: object, dictionary: object = None) -> io.NodeOutput:
        made, report = inputs_of.dictionary_from(entries, dictionary)
        host.progress.warn((), cls.hidden.unique_id, summary=report)
        return io.NodeOutput(made, report)
