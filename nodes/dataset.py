"""Dataset: recordings and what they say -> clips to train on. Files, checks and codes are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.text.languages import language_options
from . import host
from .widgets import CATEGORY, Model, TrainingData


class Dataset(io.ComfyNode):
    """Node `OmniVoiceDataset`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceDataset",
            display_name="OmniVoice Dataset",
            category=CATEGORY,
            description="Makes recordings and their transcripts ready to train on: checks each clip, encodes it once, "
            "and reports which cannot be used, and why.",
            search_aliases=["training data", "fine-tune", "lora training", "ljspeech"],
            inputs=[*_inputs(), *_optional_inputs()],
            outputs=[
                TrainingData.Output(display_name="dataset", tooltip="The clips, for training."),
                io.String.Output(
                    display_name="report", tooltip="Clips, hours, languages, and each clip that is not used."
                ),
                io.Int.Output(display_name="clips", tooltip="How many clips can be used."),
                io.Float.Output(display_name="seconds", tooltip="How long they are together."),
            ],
            hidden=[io.Hidden.unique_id],
            is_input_list=True,
        )

    @classmethod
    def validate_inputs(cls, folder: object = None) -> bool | str:
        return host.dataset.refusal(folder)

    @classmethod
    def fingerprint_inputs(cls, folder: object = None, **others: object) -> str:
        return host.dataset.fingerprint(folder)

    @classmethod
    @host.values.guarded
    def execute(
        cls,
        model: list,
        folder: list,
        language: list = (host.dataset.AUTO,),
        instruct: list = ("",),
        audio: list | None = None,
        text: list | None = None,
    ) -> io.NodeOutput:
        loaded = host.values.checked(
            host.models.LoadedModel, host.values.only(model, "model"), "model", "Load OmniVoice"
        )
        rows = host.dataset.rows_from(host.values.only(folder, "folder"), audio, text)
        made = host.dataset.encode(
            loaded, rows, host.values.only(language, "language"), host.values.only(instruct, "instruct")
        )
        host.progress.tell(host.dataset.warnings(made), cls.hidden.unique_id)
        return io.NodeOutput(made, made.report(), len(made.clips), made.seconds)


def _inputs() -> list[io.Input]:
    return [
        Model.Input("model", tooltip="From Load OmniVoice. Its codec turns the recordings into codes."),
        io.Combo.Input(
            "folder",
            options=host.dataset.folder_names(),
            default=host.dataset.NO_FOLDER,
            tooltip="A folder in ComfyUI's input or datasets folder: audio files with a transcript of the same name "
            "beside each (.txt or .lab), or with a metadata.csv or .jsonl list. Press R after adding one.",
        ),
        io.Combo.Input(
            "language",
            options=[host.dataset.AUTO, *(name for _, name in language_options())],
            default=host.dataset.AUTO,
            tooltip="The language of clips whose list does not say it. auto: none is noted.",
        ),
    ]


def _optional_inputs() -> list[io.Input]:
    return [
        io.String.Input(
            "instruct",
            default="",
            optional=True,
            tooltip="A description of the voice, or a name for it, for clips whose list has none. Empty: none.",
        ),
        io.Audio.Input("audio", optional=True, tooltip="Recordings, as a list or a batch, in place of a folder."),
        io.String.Input(
            "text",
            multiline=True,
            default="",
            dynamic_prompts=False,
            optional=True,
            tooltip="What the recordings of the audio input say: a list of texts, or one line for each.",
        ),
    ]
