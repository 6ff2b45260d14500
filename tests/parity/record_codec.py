"""Record what upstream's codec does, for tests/unit/codec: two tiny random checkpoints, codes and audio, in one file.

Runs in an environment of its own, never in the tests:

    python -m venv upstream && upstream/bin/pip install torch torchaudio transformers==5.3.0
    upstream/bin/python tests/parity/record_codec.py tests/assets/codec/recorded.safetensors

The file holds, for each checkpoint (`published`: the structure of the published one; `varied`: every setting that
may differ, does, the positional convolution's odd kernel among them):

    <name>/weight/<key>            float16, as the checkpoint names them, less what training alone needs
    <name>/codes/<N>               upstream's codes [K, T] int16 of the first N samples
    <name>/decode/<T>/{codes,audio}  random codes [K, T] int16, upstream's float32 samples [1, N]
    samples                        the recording [1, N] int16, full scale 32768

and as metadata `recording`: the version that made it and each checkpoint's config.json. Weights are rounded to
float16 before recording, so nothing is lost.
"""

from __future__ import annotations

import copy
import json
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel

SEED = 20
ENCODED_LENGTHS = (960, 1000, 1591, 1920, 2039, 9600)  # 1591 and 2039: upstream pads the acoustic input
DECODED_FRAMES = (1, 5)
LARGEST_ROUNDING = 2e-6  # float32 audio against float64: the tests allow 1e-5
SMALLEST_MARGIN = 1e-2  # between nearest and second nearest code, as squared distance: rounding stays far below
TRAINING_ONLY = ("decoder_semantic.", "fc1.", ".inited", ".cluster_size", ".embed_avg", "masked_spec_embed")
POSITIONAL = "semantic_model.encoder.pos_conv_embed.conv."

PUBLISHED = {
    "codebook_size": 96,
    "codebook_dim": 6,
    "target_bandwidths": [0.5, 0.9],
    "acoustic_model_config": {
        "model_type": "dac",
        "encoder_hidden_size": 1,
        "decoder_hidden_size": 40,
        "hidden_size": 10,
        "downsampling_ratios": [8, 5, 4, 2, 3],
        "upsampling_ratios": [8, 5, 4, 2, 3],
    },
    "semantic_model_config": {
        "model_type": "hubert",
        "hidden_size": 20,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 28,
        "conv_dim": [8, 8, 12, 12, 10, 10, 14],
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 5,
    },
}
VARIED = {
    "codebook_size": 33,
    "codebook_dim": 4,
    "target_bandwidths": [1.0],
    "downsample_factor": 640,
    "kernel_size": 5,
    "unit_kernel_size": 5,
    "channel_ratios": [2, 1],
    "strides": [2, 1],
    "block_dilations": [1, 2],
    "acoustic_model_config": {
        "model_type": "dac",
        "encoder_hidden_size": 1,
        "decoder_hidden_size": 32,
        "hidden_size": 6,
        "downsampling_ratios": [5, 8, 3, 2, 4],
        "upsampling_ratios": [2, 4, 8, 3, 5],
    },
    "semantic_model_config": {
        "model_type": "hubert",
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "conv_dim": [8] * 7,
        "conv_bias": True,
        "feat_proj_layer_norm": False,
        "layer_norm_eps": 1e-4,
        "num_conv_pos_embeddings": 9,
        "num_conv_pos_embedding_groups": 3,
    },
}


def make_codec(sizes: dict, generator: torch.Generator) -> HiggsAudioV2TokenizerModel:
    """A random codec whose features, codes and audio have a speech-like size; weights exact in float16."""
    codec = HiggsAudioV2TokenizerModel(HiggsAudioV2TokenizerConfig(**json.loads(json.dumps(sizes)))).eval()
    state = codec.state_dict()
    for name, tensor in state.items():
        if name.endswith(("alpha", "norm.weight", "original0")):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("bias"):
            tensor.normal_(0, 0.1, generator=generator)
        elif name.endswith("codebook.embed"):
            tensor.normal_(0, 1, generator=generator)
        elif tensor.ndim > 1:
            calm = 0.4 if "decoder.block" in name and "res_unit" in name else 1.0  # else it amplifies rounding
            tensor.normal_(0, calm * tensor[0].numel() ** -0.5, generator=generator)
    probe = torch.randint(0, codec.config.codebook_size, (1, codec.config.num_quantizers, 20), generator=generator)
    gain = 0.1 / codec.decode(probe).audio_values.square().mean().sqrt()
    for name in ("weight", "bias"):
        state[f"acoustic_decoder.conv2.{name}"].mul_(gain)
    for tensor in state.values():
        tensor.copy_(tensor.half().float())
    return codec


def smallest_margin(codec: HiggsAudioV2TokenizerModel, samples: torch.Tensor) -> float:
    """The least difference of squared distance between the nearest and the next code, over all codebooks."""
    margins, hooks = [], []
    for stage in codec.quantizer.quantizers:

        def measure(_module, _inputs, projected, embed=stage.codebook.embed):
            nearest = torch.cdist(projected, embed).square().topk(2, largest=False).values
            margins.append((nearest[..., 1] - nearest[..., 0]).min().item())

        hooks.append(stage.project_in.register_forward_hook(measure))
    codec.encode(samples)
    for hook in hooks:
        hook.remove()
    return min(margins)


def make_recording(generator: torch.Generator) -> torch.Tensor:
    """[1, 9600] int16: a gliding buzz with noise."""
    seconds = torch.arange(max(ENCODED_LENGTHS)) / 24000
    buzz = sum(torch.sin(2 * torch.pi * 140 * k * seconds * (1 + seconds)) / k for k in range(1, 12))
    noise = torch.randn(seconds.shape, generator=generator)
    return ((0.15 * buzz + 0.03 * noise) * 32768).round().to(torch.int16)[None]


def record(name: str, sizes: dict, recording: torch.Tensor, generator: torch.Generator) -> tuple[dict, dict]:
    """The tensors of one checkpoint, and its config.json."""
    codec = make_codec(sizes, generator)
    tensors = {}
    for key, tensor in codec.state_dict().items():
        if not any(part in key for part in TRAINING_ONLY):
            tensors[f"{name}/weight/{key}"] = tensor.half().contiguous()
    if name == "varied":  # the other spelling of weight norm
        for index, old in enumerate(("weight_g", "weight_v")):
            new = f"parametrizations.weight.original{index}"
            tensors[f"{name}/weight/{POSITIONAL}{old}"] = tensors.pop(f"{name}/weight/{POSITIONAL}{new}")
    for N in ENCODED_LENGTHS:
        samples = (recording[:, :N] / 32768)[None]
        margin = smallest_margin(codec, samples)
        codes = codec.encode(samples).audio_codes[0]
        print(name, N, tuple(codes.shape), f"{codes.unique().numel()} distinct codes, margin {margin:.1e}")
        assert margin > SMALLEST_MARGIN, "take another seed"
        tensors[f"{name}/codes/{N}"] = codes.to(torch.int16).contiguous()
    for T in DECODED_FRAMES:
        shape = (codec.config.num_quantizers, T)
        codes = torch.randint(0, codec.config.codebook_size, shape, generator=generator)
        audio = codec.decode(codes[None]).audio_values[0].contiguous()
        rounding = (audio - copy.deepcopy(codec).double().decode(codes[None]).audio_values[0]).abs().max().item()
        print(name, T, tuple(audio.shape), f"level {audio.std().item():.2f}, rounding {rounding:.1e}")
        assert rounding < LARGEST_ROUNDING, "take another seed"
        tensors[f"{name}/decode/{T}/codes"] = codes.to(torch.int16)
        tensors[f"{name}/decode/{T}/audio"] = audio
    return tensors, codec.config.to_diff_dict() | {"model_type": "higgs_audio_v2_tokenizer"}


def main() -> None:
    generator = torch.Generator().manual_seed(SEED)
    recording = make_recording(generator)
    tensors, configs = {"samples": recording}, {}
    with torch.no_grad():
        for name, sizes in (("published", PUBLISHED), ("varied", VARIED)):
            recorded, configs[name] = record(name, sizes, recording, generator)
            tensors |= recorded
    # One entry, since safetensors writes several in no fixed order.
    about = {"made_by": f"transformers {transformers.__version__}", "configs": configs}
    save_file(tensors, sys.argv[1], metadata={"recording": json.dumps(about)})


if __name__ == "__main__":
    main()
