"""Languages: all of upstream's ids and names in any case, tags and aliases; all others are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from omnivoice.errors import InputError
from omnivoice.intake.tables import load_table
from omnivoice.text.languages import (
    language_id,
    language_label,
    language_options,
    own_languages,
    whisper_language_id,
    whisper_languages,
)


def test_the_table_is_upstreams(asset: Callable) -> None:
    recorded = asset("languages.json")
    pairs = sorted((name.lower(), language) for language, name in language_options())
    assert len(pairs) == recorded["count"] == 646
    assert hashlib.sha256(json.dumps(pairs).encode()).hexdigest() == recorded["sha256_of_sorted_name_id_pairs"]


def test_every_id_and_name_resolves_in_any_case() -> None:
    for language, name in language_options():
        for written in (language, language.upper(), name, name.upper(), f" {name.lower()} "):
            assert language_id(written) == language, written


def test_every_alias_leads_to_a_language() -> None:
    names, aliases = (load_table("text/languages.json")[key] for key in ("names", "aliases"))
    assert len(aliases) > 300
    assert set(aliases.values()) <= set(names)
    assert [alias for alias, language in aliases.items() if language_id(alias.upper()) != language] == []
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
        ("zh-cmn-Hans-CN", "zh"),
        ("ZH_hant_tw", "zh"),
        ("de-CH-1901", "de"),
        ("sl-rozaj-biske", "sl"),
        ("ca-ES-valencia", "ca"),
        ("CA_es_VALENCIA", "ca"),
        ("en-US-u-hc-h12", "en"),
        ("en-GB-x-foo", "en"),
        ("de_DE.UTF-8", "de"),
        ("ca_ES@valencia", "ca"),
        ("zh-HK", "yue"),
        ("zh_MO", "yue"),
        ("zh-Hant-HK", "yue"),
        ("zho-Hant-MO", "yue"),
        ("zh_HK.UTF-8", "yue"),
        ("Chinese (Hong Kong)", "yue"),
        ("Chinese (Traditional, Hong Kong SAR)", "yue"),
        ("Chinese (Macau)", "yue"),
        ("chinese_macao", "yue"),
        ("中文（香港）", "yue"),
        ("中文 (澳門)", "yue"),
        ("yue-HK", "yue"),
        ("zh-cmn-Hant-HK", "zh"),
        ("cmn-HK", "zh"),
        ("en-HK", "en"),
        ("pt-MO", "pt"),
        ("zh-SG", "zh"),
    ],
)
def test_aliases_and_tags(written: str, language: str) -> None:
    assert language_id(written) == language


def test_native_names(samples: dict) -> None:
    for written, language in samples["languages"]:
        assert language_id(written) == language, written


@pytest.mark.parametrize("written", [None, "", "  ", "auto", "Auto", "none", "None", "mul", "ZXX", "und-Latn"])
def test_unspecified_is_quiet(written: str | None) -> None:
    assert language_id(written) is None
    assert written is None or whisper_language_id(written) is None


@pytest.mark.parametrize("written", ["xx-nope", "Klingon", "q", "x" * 100_000, "\ud800", "-", "_-_", "()"])
def test_an_unknown_language_is_refused(written: str) -> None:
    with pytest.raises(InputError, match="is not known") as refused:
        language_id(written)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("written", "close"), [("Portugese", "Portuguese (pt)"), ("Quechuan", "Quechua"), ("Quechu", "(quy)")]
)
def test_close_matches_are_named(written: str, close: str) -> None:
    with pytest.raises(InputError) as refused:
        language_id(written)
    assert close in str(refused.value)


@pytest.mark.parametrize(
    ("written", "language"),
    [
        ("id:la", "la"),
        ("ID:LA", "la"),
        (" id: xx ", "xx"),
        ("id:grc", "grc"),
        ("id:sa-deva", "sa-deva"),
        ("id:en", "en"),
    ],
)
def test_a_language_of_ones_own(written: str, language: str) -> None:
    assert language_id(written) == language
    assert language_id(language_label(language)) == language
    assert bool(own_languages([language, "en", None, language])) is (language != "en")


@pytest.mark.parametrize("written", ["id:", "id:a b", "id:<|denoise|>", "id:toolonglanguage", "id:la-", "la"])
def test_a_language_of_ones_own_is_a_short_id(written: str) -> None:
    with pytest.raises(InputError, match=r"is not known: .*id:la"):
        language_id(written)
    with pytest.raises(InputError, match="is not known"):
        whisper_language_id("id:la")


def test_languages_of_ones_own_are_named_once() -> None:
    (told,) = own_languages(["la", "en", "xx", "la"])
    assert told.startswith("la, xx:") and "trained" in told
    assert own_languages(["en", None, "arb"]) == ()


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="language must be a string, got 5"):
        language_id(5)


@pytest.mark.parametrize("identify", [language_id, whisper_language_id])
def test_an_unknown_language_is_refused_with_close_names(identify: Callable[[str], str | None]) -> None:
    with pytest.raises(InputError, match=r"'Portugese' is not known.*Portuguese \(pt\)") as told:
        identify("Portugese")
    assert len(str(told.value)) < 300
    for value in ("en-", "en-toolongsubtag", "xx", "\ud800", "x" * 100_000):
        with pytest.raises(InputError, match=r"language .* is not known"):
            identify(value)
    for value in (5, True, ["en"]):
        with pytest.raises(InputError, match="language must be a string, got"):
            identify(value)


def test_whisper_knows_its_languages_by_every_spelling() -> None:
    assert len(whisper_languages()) == 100
    for name, code in whisper_languages().items():
        for written in (name, name.upper(), code, f"{code}-ZZ"):
            assert whisper_language_id(written) == code, written
    spellings = {"ar-EG": "ar", "jv": "jw", "fil": "tl", "nb-NO": "no", "cmn": "zh", "zh-yue": "yue", "npi": "ne"}
    assert {written: whisper_language_id(written) for written in spellings} == spellings
    with pytest.raises(InputError, match="'Klingon' is not known"):
        whisper_language_id("Klingon")


def test_menus() -> None:
    assert ("en", "English") in language_options()
