"""Record what upstream does with text into tests/assets/text: ids, frames, chunks, weights, designs, languages.

Runs in an environment of its own that holds upstream (omnivoice==0.2.1, transformers==5.3.0), not ours:
    python tests/parity/record_text_tables.py PUBLISHED_FOLDER SMALL_FOLDER
Both folders hold a tokenizer.json and tokenizer_config.json: the published one (11 MB) and the tiny checkpoint's.
From the published one, `tokenizer.json` keeps all bytes, but of the merges only those that the recorded texts use,
with their ids: BPE takes the merge of lowest rank among those present, so leaving out merges that never won
changes nothing on these texts. The script checks that before it writes. Other texts give other ids there.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

from omnivoice.models.omnivoice import (
    _NONVERBAL_PATTERN,
    OmniVoice,
    _combine_text,
    _resolve_instruct,
    _resolve_language,
    _tokenize_with_nonverbal_tags,
)
from omnivoice.utils.duration import RuleDurationEstimator
from omnivoice.utils.lang_map import LANG_NAME_TO_ID
from omnivoice.utils.text import add_punctuation, chunk_text_punctuation
from omnivoice.utils.voice_design import _INSTRUCT_ALL_VALID, _ZH_RE
from tokenizers import Tokenizer
from transformers import AutoTokenizer

ASSETS = Path(__file__).resolve().parents[1] / "assets" / "text"
SEED = 20_240
CHUNK_CASES, DESIGN_CASES = 100, 200
ALPHABET = [*"abcXYZ  .,;:!?", "Mr.", " e.g. ", "No. ", "...", "3.14", "\n", "\u4f60\u597d", "\u3002", "\uff01"]
ALPHABET += ["\uff0c", "\u201d", "\u300d", "\uff09", '"', "'", "]", ")", "\u0928\u092e", "\u0964", "\u061f"]


class Estimator:
    """Upstream's frame estimate, without a model around it."""

    duration_estimator = RuleDurationEstimator()
    frames = OmniVoice._estimate_target_tokens


def record_row(case: dict, tokenizers: dict) -> dict:
    text, reference, instruct = case["text"], case.get("ref_text"), case.get("instruct")
    language = _resolve_language(case.get("language"))
    resolved = _resolve_instruct(instruct, use_zh=bool(_ZH_RE.search(text))) if instruct else None
    transcript = add_punctuation(reference) if reference else None
    style = ("<|denoise|>" if reference else "") + f"<|lang_start|>{language or 'None'}<|lang_end|>"
    style += f"<|instruct_start|>{resolved or 'None'}<|instruct_end|>"
    wrapped = f"<|text_start|>{_combine_text(ref_text=transcript, text=text)}<|text_end|>"
    row = dict(case, language_id=language, instruct_resolved=resolved, transcript=transcript)
    for name, tokenizer in tokenizers.items():
        spoken = _tokenize_with_nonverbal_tags(wrapped, tokenizer)[0].tolist()
        row[f"{name}_ids"] = [tokenizer(style).input_ids, spoken]
    row["frames"] = Estimator().frames(text, transcript, case.get("ref_frames"))
    row["frames_fast"] = Estimator().frames(text, transcript, case.get("ref_frames"), speed=1.5)
    if "chunk_len" in case:
        row["chunks"] = chunk_text_punctuation(text, case["chunk_len"], 3)
    return row


def encoded_pieces(rows: list[dict]) -> set[str]:
    """Every string that is encoded in one go for these rows."""
    pieces = {"None"}
    for row in rows:
        pieces.update(filter(None, (row["language_id"], row["instruct_resolved"])))
        text = _combine_text(ref_text=row["transcript"], text=row["text"])
        pieces.update(_NONVERBAL_PATTERN.split(text))  # the odd pieces are tag names
        pieces.update(match.group() for match in _NONVERBAL_PATTERN.finditer(text))
    return pieces


def reduced_tokenizer(full: dict, pieces: set[str]) -> dict:
    """`full` (a parsed tokenizer.json) with the bytes and the merges that `pieces` need."""
    backend = Tokenizer.from_str(json.dumps(full))
    vocab = full["model"]["vocab"]
    ranks = {tuple(pair): rank for rank, pair in enumerate(full["model"]["merges"])}
    used = set()
    for piece in pieces:
        for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(piece)):
            used |= merges_of(word, ranks)
    merges = sorted(used, key=ranks.__getitem__)
    tokens = {char for char in vocab if len(char) == 1} | {left + right for left, right in merges}
    model = dict(full["model"], vocab={t: vocab[t] for t in sorted(tokens, key=vocab.__getitem__)}, merges=merges)
    return dict(full, model=model)


def merges_of(word: str, ranks: dict) -> set:
    parts, used = list(word), set()
    while True:
        best = min((pair for pair in pairwise(parts) if pair in ranks), key=ranks.__getitem__, default=None)
        if best is None:
            return used
        used.add(best)
        place = 0
        while place < len(parts) - 1:
            if (parts[place], parts[place + 1]) == best:
                parts[place : place + 2] = ["".join(best)]
            place += 1


def character_runs() -> list:
    """[count, category, weight] of runs of code points that have both in common, from U+0000 on."""
    estimator, runs = RuleDurationEstimator(), []
    for code in range(sys.maxunicode + 1):
        kind = [unicodedata.category(chr(code)), estimator._get_char_weight(chr(code))]
        if runs and runs[-1][1:] == kind:
            runs[-1][0] += 1
        else:
            runs.append([1, *kind])
    return runs


def chunk_cases(rng: random.Random) -> list:
    cases = []
    for _ in range(CHUNK_CASES):
        text = "".join(rng.choices(ALPHABET, k=rng.randint(0, 60)))
        length, least = rng.randint(1, 30), rng.choice([1, 3, 3, 5])
        cases.append([text, length, least, chunk_text_punctuation(text, length, least)])
    return cases


def design_cases(rng: random.Random) -> list:
    """[instruct, whether the text is Chinese, result or None where upstream refuses]."""
    words, cases = [*sorted(_INSTRUCT_ALL_VALID), "warm", "deep voice"], []
    for _ in range(DESIGN_CASES):
        chosen = rng.sample(words, rng.randint(1, 4))
        chosen = [rng.choice([str, str.upper, str.title])(word) for word in chosen]
        instruct, chinese = rng.choice([",", ", ", "\uff0c", " , "]).join(chosen), rng.random() < 0.5
        try:
            cases.append([instruct, chinese, _resolve_instruct(instruct, use_zh=chinese)])
        except ValueError:
            cases.append([instruct, chinese, None])
    return cases


def write(name: str, value: object, indent: int | None = 0) -> None:
    (ASSETS / name).write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def main() -> None:
    published, small = Path(sys.argv[1]), Path(sys.argv[2])
    tokenizers = {"published": AutoTokenizer.from_pretrained(published), "small": AutoTokenizer.from_pretrained(small)}
    cases = json.loads((ASSETS / "texts.json").read_text(encoding="utf-8"))
    rows = [record_row(case, tokenizers) for case in cases]
    pieces = encoded_pieces(rows)
    reduced = reduced_tokenizer(json.loads((published / "tokenizer.json").read_text(encoding="utf-8")), pieces)
    plain = Tokenizer.from_str(json.dumps(dict(reduced, added_tokens=[])))
    for piece in pieces:
        assert plain.encode(piece).ids == tokenizers["published"](piece).input_ids, piece
    rng = random.Random(SEED)
    pairs = sorted((name, language) for name, language in LANG_NAME_TO_ID.items())
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    write("rows.json", rows, None)
    write("tokenizer.json", reduced, None)
    shutil.copyfile(small / "tokenizer.json", ASSETS / "small_tokenizer.json")
    write("characters.json", {"unicode": unicodedata.unidata_version, "runs": character_runs()}, None)
    write("chunks.json", chunk_cases(rng))
    write("designs.json", design_cases(rng))
    write("languages.json", {"count": len(pairs), "sha256_of_sorted_name_id_pairs": digest})


if __name__ == "__main__":
    main()
