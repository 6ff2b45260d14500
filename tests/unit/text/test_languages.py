"""Languages: all of upstream's ids and names in any case, tags and aliases, warnings for the rest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from omnivoice.errors import InputError
from omnivoice.intake.tables import load_table
from omnivoice.text.languages import language_options, resolve_language


def test_the_table_is_upstreams(asset: Callable) -> None:
    recorded = asset("languages.json")
    pairs = sorted((name.lower(), language) for language, name in language_options())
    assert len(pairs) == recorded["count"] == 646
    assert hashlib.sha256(json.dumps(pairs).encode()).hexdigest() == recorded["sha256_of_sorted_name_id_pairs"]


def test_every_id_and_name_resolves_in_any_case() -> None:
    for language, name in language_options():
        for written in (language, language.upper(), name, name.upper(), f" {name.lower()} "):
            assert resolve_language(written) == (language, []), written


def test_every_alias_leads_to_a_language() -> None:
    names, aliases = (load_table("text/languages.json")[key] for key in ("names", "aliases"))
    assert len(aliases) > 300
    assert set(aliases.values()) <= set(names)
    assert [alias for alias, language in aliases.items() if resolve_language(alias.upper()) != (language, [])] == []
    assert not set(aliases) & set(names)


@pytest.mark.parametrize(
    ("written", "language"),
    [
        ("EN", "en"),
        ("en-US", "en"),
        ("English", "en"),
        ("en_GB", "en"),
        ("eng", "en"),
        ("English (US)", "en"),
        ("zh-CN", "zh"),
        ("zh_TW", "zh"),
        ("zh-Hans", "zh"),
        ("zh-Hant-TW", "zh"),
        ("Mandarin", "zh"),
        ("cmn", "zh"),
        ("zh-yue", "yue"),
        ("zh-min-nan", "nan"),
        ("Cantonese", "yue"),
        ("pt-BR", "pt"),
        ("por", "pt"),
        ("ar", "arb"),
        ("Arabic", "arb"),
        ("ar-EG", "arb"),
        ("Egyptian Arabic", "arz"),
        ("jp", "ja"),
        ("Farsi", "fa"),
        ("Tagalog", "fil"),
        ("ne", "npi"),
        ("Punjabi", "pa"),
        ("ger", "de"),
        ("iw", "he"),
        ("Voro", "vro"),
        ("es-419", "es"),
        ("sr-Latn-RS", "sr"),
        ("no", "no"),
        ("nb-NO", "nb"),
        ("Brazilian_Portuguese", "pt"),
    ],
)
def test_aliases_and_tags(written: str, language: str) -> None:
    assert resolve_language(written) == (language, [])


def test_native_names(samples: dict) -> None:
    for written, language in samples["languages"]:
        assert resolve_language(written) == (language, []), written


@pytest.mark.parametrize("written", [None, "", "  ", "auto", "Auto", "none", "None", "AUTO"])
def test_unspecified_is_quiet(written: str | None) -> None:
    assert resolve_language(written) == (None, [])


@pytest.mark.parametrize("written", ["xx-nope", "Klingon", "q", "x" * 100_000, "\ud800", "-", "_-_", "()"])
def test_unknown_is_told(written: str) -> None:
    language, warnings = resolve_language(written)
    assert language is None
    assert len(warnings) == 1 and "is not known and is left open" in warnings[0] and len(warnings[0]) < 400


def test_close_matches_are_named() -> None:
    assert "Portuguese (pt)" in resolve_language("Portugese")[1][0]
    assert "Quechua" in resolve_language("quechua of cusco, quechua")[1][0] or resolve_language("Quechuan")[1]
    assert "Ayacucho Quechua (quy)" in resolve_language("Quechu")[1][0]


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="language must be a string or None, got 5"):
        resolve_language(5)


def test_menus() -> None:
    assert ("en", "English") in language_options()
