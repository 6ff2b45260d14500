"""Turns the inputs of Preview Text into a plan, and those of Pronunciation Dictionary into a dictionary."""

from __future__ import annotations

from collections.abc import Mapping

from ...omnivoice.generate.plan import make_plan
from ...omnivoice.generate.preview import estimated_seconds as estimated_seconds
from ...omnivoice.generate.preview import preview_report
from ...omnivoice.generate.preview import spoken_text as spoken_text
from ...omnivoice.text.dictionary import merged
from ...omnivoice.text.dictionary_reader import parse_dictionary
from ...omnivoice.text.vocabulary import named
from ...omnivoice.types import Dictionary, GenerationPlan
from .. import host
from .synthesize import request_from
from .synthesize import validate_text as validate_text

TEXT = "The weather is beautiful today."
ENTRIES = "nginx = engine x"
SOURCE = "OmniVoice Pronunciation Dictionary"


def preview_from(inputs: Mapping[str, object]) -> tuple[GenerationPlan, str]:
    """Return the plan that Synthesize makes of the same inputs, and the report about it; raises InputError."""
    given = {name: value for name, value in inputs.items() if value is not None}
    model = given.pop("model", None)
    request = request_from(given)
    if model is None:
        plan = make_plan(request)
        return plan, preview_report(plan)
    engine = host.models.loaded(model).engine
    (plan,) = engine.plan([request])
    return plan, preview_report(plan, engine.rules.tags)


def dictionary_from(entries: object, dictionary: object) -> tuple[Dictionary, str]:
    """Return the entries, added to a dictionary if one is given, and a line about them; raises InputError."""
    own = parse_dictionary(entries, "entries")
    if dictionary is None:
        return own, _counted(own)
    both, changed = merged(host.values.checked(Dictionary, dictionary, "dictionary", SOURCE), own)
    return both, _counted(both) + (f", replaced here: {named(changed)}" if changed else "")


def validate_entries(entries: object) -> bool | str:
    """Return True, or why the entries cannot be read. None is a linked value, which ComfyUI does not know yet."""
    return host.values.validate(lambda text: parse_dictionary(text, "entries"), entries)


def _counted(dictionary: Dictionary) -> str:
    count = len(dictionary.entries)
    return f"{count} {'entry' if count == 1 else 'entries'}"
