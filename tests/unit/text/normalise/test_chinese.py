"""Chinese normalisation: every kind of number, symbol and code with its exact words, and what must stay as it is."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.text.normalise import normalise
from omnivoice.text.normalise.chinese import is_traditional, replacements
from omnivoice.text.normalise.chinese_grammar import SLOT, expanded
from omnivoice.text.normalise.chinese_numbers import cardinal, number, table
from omnivoice.text.normalise.chinese_readers import READERS

CASES = Path(__file__).resolve().parents[3] / "assets" / "text" / "chinese_cases.tsv"
SIGNS = "-+~/:.,%‰℃°×÷=<>≥≤±√()[]@#*^$¥€£ 　“”，。、：①Ⅳ½²₂_—…"
COMMON = "年月日号点分秒个元块人第万亿千百十两二一零周楼路室度米章比到至的和打电话上午了是约前后代世纪点個兩萬號點"
PIECES = [
    *SIGNS,
    *COMMON,
    *"0123456789０２",
    *"abxwkgGmMVIXP",
    "2024",
    "10",
    "km",
    "GB",
    "USD",
    ".com",
    "http://",
    "ZHE2",
]
chinese = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def rows() -> list[tuple[str, str, str]]:
    lines = CASES.read_text(encoding="utf-8").splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]  # type: ignore[misc]


def spoken(text: str) -> str:
    return normalise(text, "zh").text


def test_the_table_has_three_hundred_cases_and_more_of_many_kinds() -> None:
    kinds = Counter(kind for kind, _, _ in rows())
    assert len({text for _, text, _ in rows()}) == len(rows()) > 450
    assert len(kinds) > 20 and min(kinds.values()) > 3


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in rows()}))
def test_table(kind: str) -> None:
    wrong = [(text, spoken(text), right) for its, text, right in rows() if its == kind and spoken(text) != right]
    assert wrong == []


def test_the_examples_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "normalisation.md").read_text(encoding="utf-8")
    table = page.partition("## What is changed in Chinese")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ") and "`" in line]
    pairs = [zip(re.findall("`([^`]+)`", written), right.split("; "), strict=True) for _, written, right in lines]
    assert len(lines) > 12
    assert [(text, spoken(text), right) for row in pairs for text, right in row if spoken(text) != right] == []


@pytest.mark.parametrize("language", ["zh", "yue", "nan", "Chinese"])
def test_every_chinese_language_shares_the_rules(language: str) -> None:
    assert normalise("共2個，3.5萬元", language).text == "共兩個，三點五萬元"


@pytest.mark.parametrize("language, right", [("zh", "两万"), ("yue", "兩萬"), (None, "两万")])
def test_cantonese_is_traditional_unless_the_text_is_not(language: str | None, right: str) -> None:
    assert normalise("这里有20000", language).text == "这里有两万"
    assert normalise("這裡有20000", language).text == "這裡有兩萬"
    assert normalise("人人有20000", language).text == "人人有" + right


@pytest.mark.parametrize(
    "text, right",
    [
        ("A4纸", "A四纸"),
        ("100m²以上", "一百平方米以上"),
        ("200°C烤15-18min", "两百摄氏度烤十五到十八分钟"),
        ("浓度为35μg/m³", "浓度为三十五微克每立方米"),
        ("圆的面积S=πr²", "圆的面积S等于πr的平方"),
        ("Ⅲ期临床", "三期临床"),
        ("Q1-Q3增长2%", "Q一到Q三增长百分之二"),
        ("5 km, 3h", "five kilometers, three hours"),
        ("Το 5", "Το 5"),
    ],
)
def test_without_a_language_codes_and_signs_do_not_hide_chinese(text: str, right: str) -> None:
    assert normalise(text, None).text == right


def test_a_result_has_nothing_left_to_change() -> None:
    assert [right for _, _, right in rows() if spoken(right) != right] == []


@settings(max_examples=300, deadline=None)
@given(chinese)
def test_mixed_text_never_raises_and_a_second_pass_changes_nothing(text: str) -> None:
    once = spoken(text)
    assert spoken(once) == once


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_never_raises_and_replacements_are_in_order(text: str) -> None:
    found = replacements(text)
    assert all(one.start < one.end <= len(text) for one in found)
    assert all(first.end <= second.start for first, second in pairwise(found))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=[*COMMON, *"，。！？、；：“”‘’（）《》…—·"], max_size=60))
def test_chinese_without_digits_and_signs_stays(text: str) -> None:
    assert spoken(text) == text


@pytest.mark.parametrize("control", ["[laughter]", "[pause 2s]", "[B EY1 S]", "ZHE2", "{voice speed=1.1}", "<|a1|>"])
@settings(max_examples=40, deadline=None)
@given(before=chinese, after=chinese)
def test_control_spans_stay(control: str, before: str, after: str) -> None:
    text = f"{before}中{control}中{after}"
    result = normalise(text, "zh")
    assert control in result.text
    place = len(before) + 1
    assert all(one.end <= place or one.start >= place + len(control) for one in result.changes)


@given(st.integers(min_value=0, max_value=10**16 - 1))
def test_cardinals_read_back(value: int) -> None:
    assert read_back(cardinal(str(value))) == value


def read_back(words: str) -> int:
    """Return the value of a number in words, by the usual grammar of 万 and 亿."""
    for name, size in (("亿", 10**8), ("万", 10**4)):
        if name in words:
            head, _, tail = words.rpartition(name)
            return read_back(head) * size + read_back(tail)
    total, digit = 0, 0
    for char in words:
        if char in table()["places"][1:]:
            total += (digit or 1) * 10 ** table()["places"].index(char)
            digit = 0
        else:
            digit = 2 if char == table()["two"] else table()["digits"].index(char)
    return total + digit


def test_long_numbers_are_read_digit_by_digit() -> None:
    assert spoken("9" * 4000) == table()["digits"][9] * 4000
    assert number("1" * 17) == table()["digits"][1] * 17


@pytest.mark.parametrize(
    "text, traditional", [("点", False), ("點", True), ("24", False), ("中", False), ("個个個", True)]
)
def test_script_of_the_text(text: str, traditional: bool) -> None:
    assert is_traditional(text) is traditional


def test_the_rules_name_only_readers_and_groups_that_exist() -> None:
    for rule in table()["rules"]:
        groups = set(re.compile(expanded(rule["match"])).groupindex)
        for group, reader in SLOT.findall(rule["say"]):
            assert group in groups and reader in READERS, rule["match"]


def test_every_pattern_is_bounded_so_that_time_is_linear_in_the_text() -> None:
    for rule in table()["rules"]:
        for name in ("match", "when", "unless", "near"):
            pattern = re.sub(r"\\.|\[(?:\\.|[^\]])*\]", "_", expanded(rule.get(name, "")))
            assert re.search(r"[*+]|\{\d+,\}", pattern) is None, rule
