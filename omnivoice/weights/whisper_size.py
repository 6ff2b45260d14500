"""A Whisper folder, checked before transformers builds the model that its config describes.

transformers makes every weight that the config names, also one that no file holds. So a config of a kilobyte could ask
for any amount of memory.
"""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import CheckpointError
from ..intake.limits import MAX_CONFIG_BYTES, MAX_UNSTORED_WEIGHTS, WHISPER_LIMITS, shown
from ..intake.paths import shown_name
from ..intake.strict_json import read_json
from ..intake.tensors import check_header

# transformers 5.3.0, configuration_whisper.py: what a config leaves out
_DEFAULTS = {
    "d_model": 384,
    "vocab_size": 51_865,
    "num_mel_bins": 80,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_ffn_dim": 1_536,
    "decoder_ffn_dim": 1_536,
    "max_source_positions": 1_500,
    "max_target_positions": 448,
}


def check_whisper_size(folder: Path) -> None:
    """Raise CheckpointError for a Whisper folder whose numbers are out of range, or describe far more weights than its
    safetensors files hold; FileError for a file that cannot be read. Reads no weight."""
    sizes = _DEFAULTS | _numbers(folder / "config.json")
    if (folder / "preprocessor_config.json").is_file():
        _numbers(folder / "preprocessor_config.json")
    headers = [check_header(path) for path in sorted(folder.glob("*.safetensors"))]
    stored = sum(math.prod(tensor.shape) for header in headers for tensor in header.info.values())
    described = _weights(sizes)
    if described > stored + MAX_UNSTORED_WEIGHTS:
        raise CheckpointError(
            f"the config.json of {shown_name(folder)} describes a model of {described} weights, its files hold "
            f"{stored}: they do not belong together; download the folder again"
        )


def _numbers(path: Path) -> dict[str, int]:
    """Return the numbers in a config that decide sizes."""
    config = read_json(path, limit=MAX_CONFIG_BYTES)
    where = f"{path.name} of {shown_name(path.parent)}"
    if not isinstance(config, dict):
        raise CheckpointError(f"{where} must be a JSON object: download the folder again")
    if config.get("quantization_config") is not None:
        raise CheckpointError(f"{where} describes a quantized model, which is not supported: take the original one")
    given = {key: config[key] for key in WHISPER_LIMITS if key in config}
    for key, value in given.items():
        if type(value) is not int or not 1 <= value <= WHISPER_LIMITS[key]:
            raise CheckpointError(
                f"{where}: {key} must be a whole number from 1 to {WHISPER_LIMITS[key]}, got {shown(value)}"
            )
    return given


def _weights(size: dict[str, int]) -> int:
    """Return the number of weights in the matrices of a Whisper model."""
    width = size["d_model"]
    rows = 3 * size["num_mel_bins"] + 3 * width + size["vocab_size"]
    rows += size["max_source_positions"] + size["max_target_positions"]
    rows += size["encoder_layers"] * (4 * width + 2 * size["encoder_ffn_dim"])
    rows += size["decoder_layers"] * (8 * width + 2 * size["decoder_ffn_dim"])
    return width * rows
