"""The only bridge to ComfyUI. Nothing outside this folder imports `comfy`, `folder_paths` or `server`.

There is one module for each subject; nodes use them as `host.models`, `host.voices` and so on. What needs no ComfyUI,
such as checking numbers or reading files, belongs to the engine.
"""

from . import (
    dataset,
    download,
    edit,
    folders,
    long_text,
    lora,
    models,
    pictures,
    progress,
    speech,
    training,
    transcribe,
    values,
    voices,
)

__all__ = [
    "dataset",
    "download",
    "edit",
    "folders",
    "long_text",
    "lora",
    "models",
    "pictures",
    "progress",
    "speech",
    "training",
    "transcribe",
    "values",
    "voices",
]
