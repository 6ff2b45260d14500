"""OmniVoice for ComfyUI. Importing this costs nothing: ComfyUI asks the entry point, and that loads the nodes."""

from .nodes import comfy_entrypoint

# Help pages, web/docs/<node id>.md, which ComfyUI shows beside a node. There is no JavaScript in it.
WEB_DIRECTORY = "./web"

__all__ = ["comfy_entrypoint"]
