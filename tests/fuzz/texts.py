"""Texts of every kind, planned and tokenised as `Engine` does it; among them every code point between two letters.

What must hold for each text that is not refused:
- no chunk has a control character, a direction mark, an invisible tag or half of a surrogate pair in it;
- every letter and number of a text without markup is in the chunks, in order, and so is each token of the model's own;
- a prompt has the tokens of the layout once and in order, and of all other added tokens only the model's own;
- a text of twice the length takes less than three times the processor time.
"""

from __future__ import annotations

import contextlib
import json
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from omnivoice import GenerationRequest, VoicePrompt
from omnivoice.errors import OmniVoiceError
from omnivoice.generate.plan import make_plan
from omnivoice.intake.text_in import clean_text
from omnivoice.text.prompt import build_prompt
from omnivoice.text.rules import TextRules
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.types import GenerationPlan
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.messages import UNSEEN, tried
from tests.fuzz.strings import OWN_TOKENS, any_text, plain_pieces

TOKENIZERS = Path(__file__).resolve().parents[1] / "assets" / "text"
LAYOUT = ("lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end")
CODE_POINTS = 0x110000
LANGUAGES = (None, "en", "de", "zh", "ja", "fr", "ko", "yue")
SLOPE_EVERY = 20_001  # texts
SLOPE_CHARS = (500, 1_000, 2_000, 16_000)
MAX_SLOPE = 3.0
LEAST_SECONDS = 0.02  # of processor time, below which a ratio says nothing


@dataclass(frozen=True)
class Model:
    """A tokenizer, and what its model says about text."""

    tokenizer: TextTokenizer
    rules: TextRules

    @cached_property
    def own_texts(self) -> list[str]:
        """The tokens that were added to the tokenizer for this model."""
        return [token.text for token in self.tokenizer.own.tokens]

    def plan(self, text: str, **fields: object) -> GenerationPlan:
        """Return the plan of a text."""
        return make_plan(GenerationRequest(text, seed=1, **fields), self.rules)

    def prompts(self, plan: GenerationPlan) -> list[tuple[int, ...]]:
        """Return the prompt of each chunk, as `generate.run` makes it."""
        voice = plan.request.voice
        return [
            build_prompt(
                self.tokenizer,
                text=chunk.text,
                reference_text=None if voice is None else voice.text,
                language=plan.language,
                instruct=plan.instruct,
                denoise=voice is not None,
            )
            for chunk in plan.chunks
        ]


def attack(run: Run) -> None:
    """Plan the worker's share of all code points and as many random texts as it has time for."""
    models, points = _models(), iter(range(run.worker, CODE_POINTS, CAMPAIGN.workers))
    while run.more():
        model = models[run.inputs >> 1 & 1]
        if run.inputs % 2 == 0 and (code := next(points, None)) is not None:
            _look_at(run, model, ["a", chr(code), "b"])
            run.tally("code points singly")
        elif run.timed and run.inputs % SLOPE_EVERY == SLOPE_EVERY - 1:
            _slope(run, model)
        elif run.rng.random() < 0.4:
            _look_at(run, model, plain_pieces(run.rng, model.own_texts), **_fields(run))
        else:
            _look_at(run, model, [any_text(run.rng)], markup=True, **_fields(run))


def _models() -> list[Model]:
    """Return a model with the published tokenizer, and one whose tokenizer has tokens of its own."""
    published = TextTokenizer.from_json((TOKENIZERS / "tokenizer.json").read_bytes())
    table = json.loads((TOKENIZERS / "small_tokenizer.json").read_bytes())
    first = 1 + max(entry["id"] for entry in table["added_tokens"])
    table["added_tokens"] += [{"id": first + place, "content": token} for place, token in enumerate(OWN_TOKENS)]
    tuned = TextTokenizer.from_json(json.dumps(table).encode())
    return [Model(each, TextRules(each.own)) for each in (published, tuned)]


def _fields(run: Run) -> dict[str, object]:
    """Return fields of a request that change how its text is planned; mostly none."""
    kind = run.rng.random()
    if kind < 0.7:
        return {}
    if kind < 0.74:
        return {"normalise": True, "language": run.rng.choice(LANGUAGES)}
    if kind < 0.9:
        return {"voice": VoicePrompt(torch.zeros(8, 50, dtype=torch.int64), any_text(run.rng, 6), 0.1)}
    chunking = run.rng.choice(("sentences", "upstream"))
    return {"chunk_seconds": 3, "chunk_threshold_seconds": 3, "first_seconds": 1, "chunking": chunking}


def _look_at(run: Run, model: Model, pieces: Sequence[str], *, markup: bool = False, **fields: object) -> None:
    """Plan a text, and look at its chunks and prompts. markup: some of its letters may not be spoken."""
    text = "".join(pieces)
    with tried(run, text):
        plan = model.plan(text, **fields)
        prompts = model.prompts(plan)
        spoken = " ".join(chunk.text for chunk in plan.chunks)
        if UNSEEN.search(spoken) or UNSEEN.search("".join((*plan.warnings, *plan.notes))):
            run.finding(text, "a chunk or a warning has a character that cannot be seen", repr((spoken, plan.warnings)))
        if not all(_is_sound(model.tokenizer, prompt, denoise="voice" in fields) for prompt in prompts):
            run.finding(text, "a prompt has a special token that the text put there, or lacks one")
        if markup or "normalise" in fields:
            return
        own = [token for token in model.tokenizer.own.tokens if token.text in pieces]
        if _letters(spoken) != _letters(clean_text(text)):
            run.finding(text, "a letter, a number or a token of the text is not in the chunks", spoken)
        ids = {token.text: token.id for token in own}
        wanted = [ids[piece] for piece in pieces if piece in ids]
        if "voice" not in fields and wanted != [id_ for ids_ in prompts for id_ in ids_ if id_ in ids.values()]:
            run.finding(text, "a token of the model's own is not in the prompts")


def _is_sound(tokenizer: TextTokenizer, prompt: Sequence[int], *, denoise: bool) -> bool:
    """Whether the prompt has the tokens of the layout once and in order, and no other one that controls the model."""
    layout = [tokenizer.special(name) for name in (*(["denoise"] if denoise else []), *LAYOUT)]
    added = [token for token in prompt if token in tokenizer.special_ids and token not in tokenizer.mark_ids]
    return added == layout and tokenizer.used_ids.issuperset(prompt)


def _letters(text: str) -> str:
    """Return the letters and numbers of a text, without those that only make an Arabic word longer.

    Without their marks, too: a mark joins the letter before it when a symbol between the two is not spoken.
    """
    plain = unicodedata.normalize("NFD", text).replace("\N{ARABIC TATWEEL}", "")
    return "".join(char for char in plain if unicodedata.category(char)[0] in "LN")


def _slope(run: Run, model: Model) -> None:
    """Compare the processor time of a text with that of one that is twice as long."""
    unit, size = any_text(run.rng, 6), run.rng.choice(SLOPE_CHARS)
    text = (unit * (2 * size // len(unit) + 1))[: 2 * size]
    language = run.rng.choice(LANGUAGES)
    with run.input(text, cpu_seconds=20):
        for _ in range(4):  # a busy machine disturbs a single measurement
            half, whole = (_cpu_seconds(model, part, language) for part in (text[:size], text))
            if whole < LEAST_SECONDS or whole < MAX_SLOPE * half:
                break
        else:
            run.finding(text, "twice the text takes more than three times as long", f"{half:.3f} s, {whole:.3f} s")
    run.tally("slopes")


def _cpu_seconds(model: Model, text: str, language: str | None) -> float:
    started = time.process_time()
    with contextlib.suppress(OmniVoiceError):
        model.prompts(model.plan(text, normalise=True, language=language))
    return time.process_time() - started


CAMPAIGN = Campaign(
    name="texts", unit="texts to prompts", goal=1_000_000 + CODE_POINTS, share=8, attack=attack, suite=2_000
)
