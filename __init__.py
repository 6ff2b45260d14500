"""OmniVoice for ComfyUI. Importing this module loads nothing; the entry point, which ComfyUI calls, loads the nodes."""

from .nodes import comfy_entrypoint

# Help pages (web/docs/<node id>.md) and one script, which makes the text box of a new Synthesize node taller.
WEB_DIRECTORY = "./web"

__all__ = ["comfy_entrypoint"]
