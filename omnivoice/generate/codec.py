"""The codec of an engine: both halves, the device they compute on, and the fingerprint that voices remember.

The decoder is loaded with the model, the encoder when the first recording is encoded, because generating speech does
not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import torch
from torch import Tensor

from ..codec import CodecDecoder, CodecEncoder
from ..codec.quantizer import codebook_fingerprint
from ..config import CodecConfig
from ..devices import device_errors_in_words
from ..errors import NumericError
from ..ops import Ops
from ..weights import load_codec_decoder, load_codec_encoder
from ..weights.files import CheckpointFiles


class Codec:
    """device: where inputs go; a host may keep the weights somewhere else."""

    def __init__(
        self, config: CodecConfig, decoder: CodecDecoder, load_encoder: Callable[[], CodecEncoder], device: torch.device
    ):
        self.config, self.decoder, self.device = config, decoder, device
        self._load_encoder = load_encoder

    @classmethod
    def load(
        cls, files: CheckpointFiles, *, ops: Ops, device: torch.device, compute_device: torch.device | None = None
    ) -> Codec:
        """Load the decoder to `device` and check the names and shapes of the encoder's tensors as well.

        Raises CheckpointError or FileError.
        """
        decoder = load_codec_decoder(files.codec_config, files.codec_weights, ops=ops, device=device)
        encoder = partial(load_codec_encoder, files.codec_config, files.codec_weights, ops=ops, device=device)
        return cls(files.codec_config, decoder, encoder, compute_device or device)

    @cached_property
    def encoder(self) -> CodecEncoder:
        """The encoder, read from the file at first use. Raises CheckpointError or FileError."""
        return self._load_encoder()

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the codebooks, see `codebook_fingerprint`."""
        return codebook_fingerprint(self.decoder.quantizer)

    def encode(self, samples: Tensor) -> Tensor:
        """Samples [1, N] float32 at 24 kHz -> codes [K, T] int64 on the CPU. Raises as `decode` does for devices."""
        with device_errors_in_words(self.device):
            return self.encoder.encode(samples.to(self.device)).cpu()

    def decode(self, codes: Tensor, *, windows: bool = True) -> Tensor:
        """Codes [K, T] -> samples [1, N] float32 on the CPU.

        Raises NumericError if they are not finite, DeviceMemoryError if memory runs out, DeviceError.
        """
        with device_errors_in_words(self.device):
            samples = self.decoder.decode(codes.to(self.device), windows=windows).cpu()
        if not bool(torch.isfinite(samples).all()):
            raise NumericError(
                f"the codec produced NaN or Inf in {torch.float32} on {self.device.type}: check the model's "
                "audio_tokenizer files, and try the CPU"
            )
        return samples
