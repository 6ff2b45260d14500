"""The ComfyUI nodes (V3 schema). Nothing of ComfyUI, torch or the engine is imported until the entry point runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .extension import OmniVoiceExtension

__all__ = ["comfy_entrypoint"]


async def comfy_entrypoint() -> OmniVoiceExtension:
    """Return the extension. ComfyUI's loader calls this once at start."""
    from .extension import OmniVoiceExtension

    return OmniVoiceExtension()
