"""The only bridge to ComfyUI. Nothing outside this folder imports `comfy`, `folder_paths` or `server`.

One module a subject; nodes use them as `host.models`, `host.voices` and so on. What the engine can do alone, such as
checking numbers or reading files, stays in the engine.
"""

from . import dataset, download, folders, lora, models, pictures, progress, speech, training, transcribe, values, voices

__all__ = [
    "dataset",
    "download",
    "folders",
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
