"""Node `OmniVoiceDataset`: recordings and their transcripts become clips to train on."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY, Model, TrainingData, all_languages, language_input


class Dataset(io.ComfyNode):
    """OmniVoice Dataset."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceDataset",
            display_name="OmniVoice Dataset",
            category=CATEGORY,
            description="Prepares recordings and their transcripts for training: checks and encodes each clip once, "
            "and reports which clips cannot be used, and why.",
            search_aliases=["training data", "fine-tune", "lora training", "ljspeech"],
            inputs=[*_inputs(), *_optional_inputs()],
            outputs=[
                TrainingData.Output(display_name="dataset", tooltip="The clips, for Train LoRA."),
                io.String.Output(
                    display_name="report", tooltip="Clips, length, languages, and every clip that is not used."
                ),
                io.Int.Output(display_name="clips", tooltip="The number of usable clips."),
                io.Float.Output(display_name="seconds", tooltip="Their total length, in seconds."),
            ],
            hidden=[io.Hidden.unique_id],
            is_input_list=True,
        )

    @classmethod
    def validate_inputs(cls, folder: object = None) -> bool | str:
        return host.values.validate_each(host.dataset.dataset_folder, folder)

    @classmethod
    def fingerprint_inputs(cls, folder: object = None, **others: object) -> str:
        return host.dataset.fingerprint(folder)

    @classmethod
    @host.values.guarded
    def execute(
        cls,
        model: list,
        folder: list,
        language: Sequence[object] = (None,),
        instruct: Sequence[object] = (None,),
        audio: list | None = None,
        text: list | None = None,
    ) -> io.NodeOutput:
        only = host.values.only
        loaded = host.models.loaded(only(model, "model"))
        rows = host.dataset.rows_from(only(folder, "folder"), audio, text)
        dataset = host.dataset.encode(loaded, rows, only(language, "language"), only(instruct or (None,), "instruct"))
        host.progress.warn(host.dataset.warnings(dataset), cls.hidden.unique_id)
        return io.NodeOutput(dataset, dataset.report(), len(dataset.clips), dataset.seconds)


def _inputs() -> list[io.Input]:
    return [
        Model.Input("model", tooltip="From Load OmniVoice. Its codec turns the recordings into codes."),
        io.Combo.Input(
            "folder",
            options=host.dataset.folder_names(),
            default=host.dataset.NO_FOLDER,
            tooltip="A folder in ComfyUI's input or datasets folder: audio files with transcripts of the same names "
            "(.txt or .lab), or with a metadata.csv or .jsonl list. Press R after you add one.",
        ),
        language_input(all_languages(), "The language of clips without one in the list. auto leaves it unspecified."),
    ]


def _optional_inputs() -> list[io.Input]:
    return [
        io.String.Input(
            "instruct",
            default="",
            optional=True,
            tooltip="A description of the voice, or a name for it, for clips without one in the list.",
        ),
        io.Audio.Input("audio", optional=True, tooltip="Recordings, as a list or a batch, instead of a folder."),
        io.String.Input(
            "text",
            multiline=True,
            default="",
            dynamic_prompts=False,
            optional=True,
            tooltip="The transcripts of the audio input: a list of texts, or one line for each recording.",
        ),
    ]
