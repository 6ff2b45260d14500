"""Makes a tiny random Whisper snapshot and tells what it hears: make_whisper.py FOLDER WAV. Run with ComfyUI's python.

The text is nonsense; a node that handles sound, windows and tokens as it should gives the same nonsense.
"""

from __future__ import annotations

import json
import sys
import wave
from pathlib import Path

import numpy as np
import torch
import torchvision  # noqa: F401  (as in ComfyUI: before transformers)
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>"]


def make(folder: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    end, start, english, german, task, plain = (tokenizer.token_to_id(name) for name in SPECIAL)
    ends = {"eos_token": SPECIAL[0], "bos_token": SPECIAL[0], "pad_token": SPECIAL[0], "unk_token": SPECIAL[0]}
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends).save_pretrained(folder)
    torch.manual_seed(1)
    ids = {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": end, "bos_token_id": end}
    size = {
        f"{half}_{name}": n
        for half in ("encoder", "decoder")
        for name, n in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 32))
    }
    config = hf.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size(),
        d_model=16,
        max_target_positions=64,
        init_std=0.5,
        begin_suppress_tokens=None,
        suppress_tokens=None,
        **size,
        **ids,
    )
    model = hf.WhisperForConditionalGeneration(config)
    model.generation_config = hf.GenerationConfig(
        **ids,
        max_length=24,
        is_multilingual=True,
        lang_to_id={"<|en|>": english, "<|de|>": german},
        task_to_id={"transcribe": task},
        no_timestamps_token_id=plain,
        alignment_heads=[[0, 0], [0, 1]],
        suppress_tokens=[start, english, german, task, plain],
    )
    model.save_pretrained(folder)
    hf.WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)


def hear(folder: Path, clip: Path, language: str) -> str:
    with wave.open(str(clip)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype("float32") / 32_768
    model = hf.WhisperForConditionalGeneration.from_pretrained(folder)
    features = hf.WhisperFeatureExtractor.from_pretrained(folder)(samples, sampling_rate=16_000, return_tensors="pt")
    ids = model.generate(features["input_features"], language=language, task="transcribe")
    return hf.AutoTokenizer.from_pretrained(folder).decode(ids[0], skip_special_tokens=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    print(json.dumps({language: hear(Path(sys.argv[1]), Path(sys.argv[2]), language) for language in ("en", "de")}))
