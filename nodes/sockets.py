"""The pack's own socket types. What travels on them are private classes, checked by type where they arrive."""

from __future__ import annotations

from comfy_api.latest import io

Model = io.Custom("OMNIVOICE_MODEL")  # host.LoadedModel
Voice = io.Custom("OMNIVOICE_VOICE")  # omnivoice VoicePrompt: a recorded voice
Design = io.Custom("OMNIVOICE_DESIGN")  # omnivoice VoiceDesign: a described voice
TrainingData = io.Custom("OMNIVOICE_DATASET")  # omnivoice train.clips.Dataset: clips of codes with texts
CATEGORY = "audio/omnivoice"
