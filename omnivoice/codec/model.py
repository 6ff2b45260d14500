"""The codec: mono audio at 24 kHz to codes [K, T] and back (modeling_higgs_audio_v2_tokenizer.py:453-588).

Encoding joins DAC features of the 24 kHz signal and HuBERT features of the same signal at 16 kHz, and quantizes the
result. Decoding uses the acoustic decoder only. Encoder and decoder are two modules, because speaking does not need
the encoder; the small quantizer is in both. State-dict keys equal the checkpoint's (see `keys`). Weights are not
initialised here; the loader fills every one. Computation is in float32; `ops` decides the device and dtype of stored
weights. There are no buffers and no training parts, and one recording is processed at a time. Levels, silence, cutting
to whole frames and channel mixing are done by the caller (`audio/`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..audio.resample import resample
from ..config import CodecConfig
from ..errors import AudioError, InputError
from ..intake.cancel import hear_cancel
from ..ops import Ops
from .acoustic import AcousticDecoder, AcousticEncoder
from .hubert import Hubert
from .layers import LayerFactory, exact_linear
from .quantizer import ResidualQuantizer
from .semantic import SemanticEncoder
from .tiling import run_tiled

SEMANTIC_PADDING = 160  # zeros on each side of HuBERT's input: half of its hop of 320 samples
# 32 s, more than upstream decodes at once by default (30 s): 0.24 GB of working memory, on a CPU 0.20 GB.
WINDOW_FRAMES = 800


class CodecEncoder(nn.Module):
    """The encoder of the HiggsAudio v2 tokenizer. An encoded frame depends on the whole recording."""

    def __init__(
        self, config: CodecConfig, *, ops: Ops, device: torch.device | str | None = None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        layers = LayerFactory(ops, device, dtype)
        self.config = config
        self.dtype = dtype
        self.acoustic_encoder = AcousticEncoder(config.acoustic, layers)
        self.encoder_semantic = SemanticEncoder(config, layers)
        self.semantic_model = Hubert(config.semantic, layers)
        self.fc = layers.linear(config.hidden_size, config.hidden_size)
        self.quantizer = ResidualQuantizer(config, layers)

    def get_dtype(self) -> torch.dtype:
        """Return the dtype of the weights; ComfyUI's patcher calls this."""
        return self.dtype

    @torch.no_grad()
    def encode(self, samples: Tensor) -> Tensor:
        """Return the codes of a recording: [K, T] int64, K = `config.codebooks`, on the device of `samples`.

        samples: [1, N] float32 at `config.sample_rate` (24 kHz). T = N / hop for whole frames (hop = 960). As in
        upstream, an incomplete last frame may or may not count, so cut to whole frames first. Raises AudioError for
        another shape or dtype, and for less than one frame.
        """
        hop = self.config.hop_length
        if samples.ndim != 2 or samples.shape[0] != 1 or samples.dtype != torch.float32:
            got = f"{list(samples.shape)} {samples.dtype}"
            raise AudioError(f"the codec encodes float32 samples of shape [1, N], got {got}; mix down to mono first")
        if samples.shape[1] < hop:
            raise AudioError(
                f"the recording has {samples.shape[1]} samples at {self.config.sample_rate} Hz, "
                f"the codec needs at least {hop}; use a longer recording"
            )
        hear_cancel()
        semantic = self._semantic(samples)  # [1, E', T]
        hear_cancel()
        if self.acoustic_encoder.frames(samples.shape[1]) != semantic.shape[2]:
            samples = F.pad(samples, (hop // 2, hop // 2))
        acoustic = self.acoustic_encoder(samples[None])  # [1, E'', T]
        fused = exact_linear(self.fc, torch.cat((acoustic, semantic), dim=1).transpose(1, 2))  # [1, T, E]
        return self.quantizer.encode(fused[0])

    def _semantic(self, samples: Tensor) -> Tensor:
        """Return the semantic features: [1, N] -> [1, E', T]."""
        low = resample(samples, self.config.sample_rate, self.config.semantic_sample_rate)
        padded = F.pad(low, (SEMANTIC_PADDING, SEMANTIC_PADDING))
        features = self.semantic_model(padded, self.config.semantic_downsample)  # [1, T, E']
        return self.encoder_semantic(features.transpose(1, 2))


class CodecDecoder(nn.Module):
    """The decoder of the HiggsAudio v2 tokenizer.

    A decoded sample depends on the codes of its own frame, the 10 before it and the 10 after it (`AcousticDecoder`).
    """

    def __init__(
        self, config: CodecConfig, *, ops: Ops, device: torch.device | str | None = None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        layers = LayerFactory(ops, device, dtype)
        self.config = config
        self.dtype = dtype
        self.acoustic_decoder = AcousticDecoder(config.acoustic, layers)
        self.fc2 = layers.linear(config.hidden_size, config.acoustic.hidden_size)
        self.quantizer = ResidualQuantizer(config, layers)

    def get_dtype(self) -> torch.dtype:
        """Return the dtype of the weights; ComfyUI's patcher calls this."""
        return self.dtype

    @torch.no_grad()
    def decode(self, codes: Tensor, *, windows: bool = True) -> Tensor:
        """Return the audio of `codes`: [1, T * hop] float32 at `config.sample_rate`, on the device of the codes.

        codes: [K, T] int64, 0 <= code < `config.codebook_size`. windows: decode long codes in windows of
        `WINDOW_FRAMES`, each with all the context that its samples depend on, so that working memory is bounded; the
        audio is the same up to rounding. Raises InputError for another shape and for codes out of range, which the
        mask is too.
        """
        K, size = self.config.codebooks, self.config.codebook_size
        if codes.ndim != 2 or codes.shape[0] != K or codes.shape[1] == 0 or codes.dtype != torch.int64:
            got = f"{list(codes.shape)} {codes.dtype}"
            raise InputError(f"the codec decodes int64 codes of shape [{K}, T] with T > 0, got {got}")
        low, high = (int(bound) for bound in codes.aminmax())
        if low < 0 or high >= size:
            raise InputError(f"codes must be 0-{size - 1}, got {low} to {high}")
        if not windows:
            return self._decode(codes)
        before, after = self.acoustic_decoder.context_frames()
        return run_tiled(self._decode, codes, WINDOW_FRAMES, before=before, after=after, up=self.config.hop_length)

    def _decode(self, codes: Tensor) -> Tensor:
        """[K, T] -> [1, T * hop]."""
        features = exact_linear(self.fc2, self.quantizer(codes))  # [T, E'']
        return self.acoustic_decoder(features.T[None])[0]
