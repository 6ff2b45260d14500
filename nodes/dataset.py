"""Dataset: turns recordings and their transcripts into clips to train on."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from . import host
from .widgets import Model, TrainingData, all_languages, language_input, with_texts


class Dataset(io.ComfyNode):
    """Node `OmniVoiceDataset`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceDataset",
                inputs=[
                    Model.Input("model"),
                    io.Combo.Input("folder", options=host.dataset.folder_names(), default=host.dataset.NO_FOLDER),
                    language_input(all_languages()),
                    io.String.Input("instruct", default="", optional=True),
                    io.Audio.Input("audio", optional=True),
                    io.String.Input("text", multiline=True, default="", dynamic_prompts=False, optional=True),
                ],
                outputs=[
                    TrainingData.Output(display_name="dataset"),
                    io.String.Output(display_name="report"),
                    io.Int.Output(display_name="clips"),
                    io.Float.Output(display_name="seconds"),
                ],
                search_aliases=["training data", "fine-tune", "lora training", "ljspeech"],
                hidden=[io.Hidden.unique_id],
                is_input_list=True,
            )
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
