"""Writes upstream_prompt.pt beside this file with upstream's own class; run where upstream 0.2.1 is installed."""

from pathlib import Path

import torch
from omnivoice.models.omnivoice import VoiceClonePrompt

codes = (torch.arange(8 * 30).reshape(8, 30) * 37) % 1024
prompt = VoiceClonePrompt(ref_audio_tokens=codes, ref_text="Hello there, \u4f60\u597d.", ref_rms=0.0812345678901234)
prompt.save(str(Path(__file__).parent / "upstream_prompt.pt"))
