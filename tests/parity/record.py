"""Make the tests' small random checkpoint and record what upstream does on it: codes, tokens, audio.

Runs upstream, so it needs an environment of its own, never the pack's:
  pip install torch==2.13.0 transformers==5.3.0 accelerate pydub librosa soundfile
  pip install --no-deps omnivoice==0.2.1 torchaudio==2.11.1   (then delete torchaudio/lib/*.so if torch is a CPU build)
usage: python tests/parity/record.py            (writes tests/assets/checkpoint and tests/assets/recorded.safetensors)

The sizes are odd on purpose (heads * head_dim != hidden, three key-value heads), the language model is
stored as float16 to keep the repository small; upstream loads it to float32, as the tests do.
Nothing in the tests imports this file.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import soundfile as sf
import torch
from omnivoice.models.omnivoice import OmniVoice, OmniVoiceConfig
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    DacFeatureExtractor,
    HiggsAudioV2TokenizerConfig,
    HiggsAudioV2TokenizerModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
)

HERE = Path(__file__).parent
ASSETS = HERE.parent / "assets"
SEED = 20260
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LAYOUT = ["denoise", "lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end"]
OWN_KEYS = ("name", "seed", "ref", "ref_text", "audio")


def make_tokenizer(texts):
    """A byte-level BPE in Qwen's form, trained on the cases themselves."""
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tok.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, special_tokens=[]))
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>", *(f"<|{name}|>" for name in LAYOUT)]})
    return fast


def make_lm(tok):
    llm = Qwen3Config(
        vocab_size=1300,
        hidden_size=40,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=3,
        head_dim=16,
        intermediate_size=88,
        max_position_embeddings=40960,
        rope_theta=1000000.0,
        tie_word_embeddings=True,
        rms_norm_eps=1e-6,
        use_sliding_window=False,
        bos_token_id=None,
        eos_token_id=tok.eos_token_id,
        pad_token_id=tok.pad_token_id,
    )
    model = OmniVoice(OmniVoiceConfig(llm_config=llm)).eval()
    with torch.no_grad():  # logits spread far from ties, so that rounding does not choose tokens
        for name, p in model.named_parameters():
            scale = 0.3 if "audio" in name else 0.5 if "embed" in name else p.shape[-1] ** -0.5
            p.normal_(1.0, 0.1) if p.ndim == 1 else p.normal_(0, scale)
    return model.to(torch.float16)


def make_codec():
    ratios = [8, 5, 4, 2, 3]
    acoustic = {
        "model_type": "dac",
        "downsampling_ratios": ratios,
        "upsampling_ratios": ratios,
        "encoder_hidden_size": 3,
        "decoder_hidden_size": 64,
        "hidden_size": 20,
    }
    semantic = {
        "model_type": "hubert",
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 40,
        "conv_dim": [12] * 7,
        "num_conv_pos_embeddings": 14,
        "num_conv_pos_embedding_groups": 3,
    }
    config = HiggsAudioV2TokenizerConfig(codebook_dim=8, acoustic_model_config=acoustic, semantic_model_config=semantic)
    codec = HiggsAudioV2TokenizerModel(config).eval()
    with torch.no_grad():
        for name, p in codec.named_parameters():
            if p.ndim >= 2 and not any(part in name for part in ("embed", "original", "snake", "alpha")):
                p.normal_(0, p[0].numel() ** -0.5)
        for q in codec.quantizer.quantizers:
            q.codebook.embed.normal_(0, 1.0)
        probe = codec.decode(torch.randint(0, 1024, (1, 8, 50))).audio_values
        gain = 0.1 / probe.pow(2).mean().sqrt()  # speech level: no clipping in the 16-bit steps
        codec.acoustic_decoder.conv2.weight.mul_(gain)
        codec.acoustic_decoder.conv2.bias.mul_(gain)
    return codec


def write_checkpoint(folder, texts):
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(SEED)
    tok = make_tokenizer(texts)
    make_lm(tok).save_pretrained(folder)
    tok.save_pretrained(folder)
    make_codec().save_pretrained(folder / "audio_tokenizer")
    DacFeatureExtractor(sampling_rate=24000, hop_length=960).save_pretrained(folder / "audio_tokenizer")


def record(model, case, store, index):
    kw = {key: value for key, value in case.items() if key not in OWN_KEYS}
    entry = index.setdefault(case["name"], {})
    if "ref" in case:
        wav, rate = sf.read(ASSETS / "wav" / case["ref"], dtype="float32", always_2d=True)
        prompt = model.create_voice_clone_prompt((torch.from_numpy(wav.T.copy()), rate), ref_text=case["ref_text"])
        kw["voice_clone_prompt"] = prompt
        store[f"{case['name']}/prompt_codes"] = prompt.ref_audio_tokens.to(torch.int16).contiguous()
        entry["prompt"] = {"text": prompt.ref_text, "rms": prompt.ref_rms}
    calls, original = [], model._generate_iterative

    def spy(task, config):
        result = original(task, config)
        calls.append((list(task.texts), list(task.target_lens), result))
        return result

    model._generate_iterative = spy
    torch.manual_seed(case["seed"])
    audio = model.generate(**kw)
    model._generate_iterative = original
    entry["calls"] = [{"texts": texts, "lens": lens} for texts, lens, _ in calls]
    for i, (_, _, result) in enumerate(calls):
        for j, tokens in enumerate(result):
            store[f"{case['name']}/tokens/{i}/{j}"] = tokens.to(torch.int16).contiguous()
    for i, samples in enumerate(audio if case.get("audio") else []):
        store[f"{case['name']}/audio/{i}"] = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))


def main():
    torch.set_num_threads(2)
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    texts = [t for c in cases for t in (c["text"] if isinstance(c["text"], list) else [c["text"]])]
    write_checkpoint(ASSETS / "checkpoint", texts)
    model = OmniVoice.from_pretrained(str(ASSETS / "checkpoint"), device_map="cpu", dtype=torch.float32)
    store, index = {}, {}
    for case in cases:
        record(model, case, store, index)
    save_file(store, ASSETS / "recorded.safetensors", metadata={"index": json.dumps(index, ensure_ascii=False)})


if __name__ == "__main__":
    main()
