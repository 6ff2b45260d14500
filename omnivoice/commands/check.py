"""`check`: says in plain words what a file tells about synthetic speech and consent. Verifies none of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..intake import voice_files
from ..intake.limits import shown
from ..intake.mark_reader import AudioMarks, read_marks
from ..intake.marks import EDITED, SYNTHETIC
from ..intake.tensors import check_header
from ..voice import consent_kind
from ..weights import lora_write

SUFFIX = ".safetensors"
NOTHING = (
    "no mark found. That says nothing about where the sound comes from: most programs write no mark, and marks are "
    "lost when a file is encoded again"
)
UNVERIFIED = "This is what the file says about itself. Anybody can add, change or remove it."
_TERMS = {
    SYNTHETIC.source: "made by a generative model",
    EDITED.source: "in part made by a generative model",
    "digitalCapture": "a recording",
}


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `check`."""
    parser = commands.add_parser("check", help="show the marks of synthetic speech and the consent note of a file")
    parser.add_argument("file", help=f"audio, video, a voice or a LoRA ({SUFFIX})")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print what the file says; finding nothing is no error."""
    path = Path(options.file)
    if path.suffix.lower() == SUFFIX:
        lines = [*_tensor_lines(check_header(path).metadata)]
    else:
        lines = [*_audio_lines(read_marks(path))]
    print(f"{path.name}: {lines[0] if lines else NOTHING}")
    for line in lines[1:]:
        print(f"  {line}")
    if lines:
        print(UNVERIFIED)


def _audio_lines(marks: AudioMarks) -> Iterator[str]:
    """Yield a verdict and what it rests on; nothing without a mark."""
    if EDITED.source in marks.sources:
        yield "marked as a recording that was edited with AI"
    elif SYNTHETIC.source in marks.sources or SYNTHETIC.comment in marks.comments:
        yield "marked as AI-generated"
    elif marks.sources or marks.comments or marks.nodes or marks.has_c2pa:
        yield "has notes about its origin"
    for comment in marks.comments:
        yield f"comment: {comment}"
    for source in marks.sources:
        yield f"IPTC digital source type: {source} ({_TERMS.get(source, 'see IPTC')})"
    if marks.nodes:
        yield f"a ComfyUI workflow with nodes of this pack: {', '.join(marks.nodes)}"
    if marks.has_c2pa:
        yield "a C2PA manifest, which a C2PA program can verify"


def _tensor_lines(metadata: Mapping[str, str]) -> Iterator[str]:
    """Yield what a voice or a LoRA says; nothing for another file."""
    if metadata.get("format") == voice_files.FORMAT:
        yield "a voice, which OmniVoice speaks with; its recording can be heard again from this file"
    elif lora_write.FORMAT in (metadata.get("format"), metadata.get("writer")):
        yield "a LoRA for OmniVoice, a model of synthetic speech"
    else:
        return
    note = metadata.get("consent", "")
    yield f"consent: {consent_kind(note)}{f', noted as {shown(note)}' if note else ''}"
