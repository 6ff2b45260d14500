"""The language model: a bidirectional Qwen3 body over packed documents, audio embeddings and audio heads."""

from .layout import PackedLayout
from .model import OmniVoiceLM, TextEmbedding

__all__ = ["OmniVoiceLM", "PackedLayout", "TextEmbedding"]
