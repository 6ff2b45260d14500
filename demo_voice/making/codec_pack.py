"""Writes the trained codec as an audio_tokenizer/ folder in the published layout, in float16.

HuBERT and the semantic encoder are small and keep random weights, and `fc` ignores their output. The entries that a
codebook of 64 does not use are copies of its other entries, placed far away in one more dimension that decoding drops.
So encoding never picks a copy, and a copy that the language model picks decodes as its original. What only training
needs (the semantic decoder, the moving averages) is left out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from demo_voice.making.codec_model import CODES, SIZES, WIDTH, DemoCodec, codec_config
from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.codec.keys import WEIGHT_NORM_PAIRS, WEIGHT_NORM_TARGET
from omnivoice.codec.quantizer import Stage

FAR = 100.0
SPREAD = 0.1  # standard deviation of the random weights that have no effect


def pack_codec(codec: DemoCodec, folder: Path) -> None:
    """Write config.json and preprocessor_config.json to the folder, and then model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.to(torch.float16).contiguous() for name, tensor in codec_tensors(codec).items()}
    assert all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())
    (folder / "config.json").write_text(json.dumps(published_config(), indent=2) + "\n", encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR, indent=2) + "\n", encoding="utf-8")
    save_file(tensors, folder / "new-model.safetensors", metadata={"format": "pt"})
    os.replace(folder / "new-model.safetensors", folder / "model.safetensors")


def codec_tensors(codec: DemoCodec) -> dict[str, Tensor]:
    """Return every tensor by its published name, in float32."""
    config = codec_config()
    encoder = CodecEncoder(config, ops=nn, dtype=torch.float32)
    decoder = CodecDecoder(config, ops=nn, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in encoder.modules():
            if isinstance(module, (nn.Conv1d, nn.Linear)):
                module.weight.normal_(0, SPREAD, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()
        _identity(encoder.fc)
        _identity(decoder.fc2)
        for k, stage in enumerate(encoder.quantizer.quantizers):
            assert isinstance(stage, Stage)
            _identity(stage.project_in)
            _identity(stage.project_out)
            stage.codebook.embed.copy_(_entries(codec.books.vectors[k], SIZES[k]))
    encoder.acoustic_encoder.load_state_dict(codec.acoustic_encoder.state_dict())
    decoder.acoustic_decoder.load_state_dict(codec.acoustic_decoder.state_dict())
    decoder.quantizer.load_state_dict(encoder.quantizer.state_dict())
    tensors = {**encoder.state_dict(), **decoder.state_dict()}
    kernel = tensors.pop(WEIGHT_NORM_TARGET)
    gain, direction = WEIGHT_NORM_PAIRS[0]
    tensors[gain] = torch.linalg.vector_norm(kernel, dim=(0, 1), keepdim=True)
    tensors[direction] = kernel
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _identity(layer: nn.Module) -> None:
    """Make a layer pass on its first WIDTH inputs and ignore the others."""
    assert isinstance(layer, nn.Linear)
    layer.weight.zero_()
    layer.weight[:WIDTH, :WIDTH] = torch.eye(WIDTH)
    layer.bias.zero_()


def _entries(vectors: Tensor, used: int) -> Tensor:
    """Return [CODES, WIDTH + 1]: the first `used` vectors, and copies of them, FAR away in the last dimension."""
    entries = torch.zeros(CODES, WIDTH + 1)
    entries[:, :WIDTH] = vectors[torch.arange(CODES) % used]
    entries[used:, WIDTH] = FAR
    return entries


PREPROCESSOR: dict[str, object] = {
    "feature_extractor_type": "DacFeatureExtractor",
    "feature_size": 1,
    "hop_length": 960,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24000,
}


def published_config() -> dict[str, object]:
    """Return config.json: the sizes under their published names."""
    config = codec_config()
    acoustic, semantic = config.acoustic, config.semantic
    return {
        "architectures": ["HiggsAudioV2TokenizerModel"],
        "model_type": "higgs_audio_v2_tokenizer",
        "dtype": "float16",
        "acoustic_model_config": {
            "model_type": "dac",
            "encoder_hidden_size": acoustic.encoder_hidden_size,
            "decoder_hidden_size": acoustic.decoder_hidden_size,
            "hidden_size": acoustic.hidden_size,
            "downsampling_ratios": list(acoustic.downsampling_ratios),
            "upsampling_ratios": list(acoustic.upsampling_ratios),
        },
        "semantic_model_config": {
            "model_type": "hubert",
            "hidden_size": semantic.hidden_size,
            "intermediate_size": semantic.intermediate_size,
            "num_hidden_layers": semantic.num_hidden_layers,
            "num_attention_heads": semantic.num_attention_heads,
            "conv_dim": list(semantic.conv_dim),
            "num_conv_pos_embeddings": semantic.num_conv_pos_embeddings,
            "num_conv_pos_embedding_groups": semantic.num_conv_pos_embedding_groups,
        },
        "sample_rate": config.sample_rate,
        "semantic_sample_rate": config.semantic_sample_rate,
        "downsample_factor": config.downsample_factor,
        "codebook_size": config.codebook_size,
        "codebook_dim": config.codebook_dim,
        "target_bandwidths": list(config.target_bandwidths),
        "strides": list(config.strides),
        "channel_ratios": list(config.channel_ratios),
        "block_dilations": list(config.block_dilations),
        "kernel_size": config.kernel_size,
        "unit_kernel_size": config.unit_kernel_size,
    }
