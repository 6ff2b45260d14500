"""Settings that a model recommends take effect where the caller left the default; a given setting always wins."""

from __future__ import annotations

from dataclasses import replace

from ..text.languages import language_id
from ..types import GenerationRequest, Sampling
from ..weights.model_settings import ModelSettings, shown_setting

NEUTRAL = {"speed": 1.0}  # means the same as the default, None
NO_LANGUAGE = "this model was trained without languages, and {} may harm the speech: leave language at auto"


def with_recommended(
    request: GenerationRequest, settings: ModelSettings
) -> tuple[GenerationRequest, tuple[str, ...], tuple[str, ...]]:
    """Return (request with the recommended settings, notes, warnings).

    A setting counts as given if it is not the default, or named in `request.given`. One note lists all that took
    effect. A language is warned about if the model recommends auto.
    If no setting takes effect, the request is returned itself.
    """
    plain, plain_sampling = GenerationRequest(text=""), Sampling()
    options: dict[str, float | bool | str] = {}
    sampling: dict[str, float | bool | str] = {}
    for name, value in settings.recommended.items():
        of_sampling = hasattr(plain_sampling, name)
        now, default = (request.sampling, plain_sampling) if of_sampling else (request, plain)
        current = getattr(now, name)
        unset = current in (getattr(default, name), NEUTRAL.get(name)) and name not in request.given
        if name == "language":
            unset = name not in request.given and language_id(current, settings.languages) is None
        if unset and value != current and (name, value) != ("language", "auto"):
            (sampling if of_sampling else options)[name] = value
    if options or sampling:
        changed = replace(request, sampling=replace(request.sampling, **sampling), **options)  # type: ignore[arg-type]
    else:
        changed = request
    notes = [f"recommended by the model: {', '.join(shown_setting(*item) for item in (options | sampling).items())}"]
    spoken = (
        language_id(request.language, settings.languages) if settings.recommended.get("language") == "auto" else None
    )
    warnings = (NO_LANGUAGE.format(spoken),) if spoken else ()
    return changed, tuple(notes if options or sampling else ()), warnings
