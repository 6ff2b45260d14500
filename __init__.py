"""OmniVoice for ComfyUI. Importing this costs nothing: ComfyUI asks the entry point, and that loads the nodes."""

from .nodes import comfy_entrypoint

__all__ = ["comfy_entrypoint"]
