"""`download`: the published model, pinned to one revision, checked byte for byte.

huggingface_hub fetches (it resumes, and honours HF_ENDPOINT) but does not compare hashes, so every file's
size and SHA-256 are compared with `manifest.json` here. No other repository or revision can be named.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TypedDict, cast

from ..errors import FileError
from ..intake.downloads import discard, make_folder, sha256_of
from ..intake.tables import load_table
from .models import model_roots

MANIFEST = "commands/manifest.json"
FOLDER = "OmniVoice"


class Entry(TypedDict):
    """One file of the manifest: its path in the repository, bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str


class Manifest(TypedDict):
    """The published model: where it is, under which licences, and its files."""

    repository: str
    revision: str
    license: dict[str, str]
    files: list[Entry]


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `download`."""
    parser = commands.add_parser("download", help="fetch the published model (3.3 GB)")
    parser.add_argument("--to", metavar="FOLDER", help=f"default: models/omnivoice/{FOLDER}")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Show size and licences, fetch what is missing or different, verify everything."""
    manifest = cast(Manifest, load_table(MANIFEST))
    target = Path(options.to) if options.to else model_roots()[-1] / FOLDER
    size = sum(entry["size"] for entry in manifest["files"]) / 1e9
    licence = manifest["license"]
    print(f"{manifest['repository']} at {manifest['revision'][:12]}, {size:.2f} GB, to {target}")
    print(f"licences: code {licence['code']}, WEIGHTS {licence['weights']} (no commercial use),")
    print(f"          audio_tokenizer {licence['audio_tokenizer']}")
    make_folder(target)
    for entry in manifest["files"]:
        fetch(manifest, entry, target)
    print(f'done. Speak with: python -m omnivoice speak "Hello" --model {target}')


def fetch(manifest: Manifest, entry: Entry, target: Path) -> None:
    """One file: kept if it is right already, fetched and verified otherwise."""
    path = target / entry["path"]
    if is_right(path, entry):
        print(f"  {entry['path']}: already here")
        return
    try:  # imported here: it brings an HTTP client that nothing else in the package needs
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise FileError(f"download needs huggingface_hub ({error}): pip install -U huggingface_hub") from error

    print(f"  {entry['path']}: {entry['size'] / 1e6:.1f} MB", file=sys.stderr)
    try:
        hf_hub_download(
            manifest["repository"], entry["path"], revision=manifest["revision"], local_dir=target, token=False,
            force_download=path.exists(),
        )  # fmt: skip
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise FileError(
            f"{entry['path']} could not be fetched ({reason}). Run the command again to resume; if the hub is "
            "blocked here, set HF_ENDPOINT to a mirror"
        ) from error
    if not is_right(path, entry):
        discard(path)
        raise FileError(f"{entry['path']} arrived with other bytes than published and was removed: run it again")


def is_right(path: Path, entry: Entry) -> bool:
    """Whether the file is there with the size and hash of the manifest."""
    return path.is_file() and path.stat().st_size == entry["size"] and sha256_of(path) == entry["sha256"]
