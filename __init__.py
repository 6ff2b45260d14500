"""OmniVoice for ComfyUI. Importing this costs nothing: ComfyUI asks the entry point, and that loads the nodes."""

from .nodes import comfy_entrypoint

# Help pages, web/docs/<node id>.md, and one script, which makes the text box of a new Synthesize higher.
WEB_DIRECTORY = "./web"

__all__ = ["comfy_entrypoint"]
