"""Checks of the repository's files as text: lengths, paths, requirements, and what the pages promise."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import pkgutil
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnivoice.commands

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE, SOFT_FILE, MAX_FUNCTION, SOFT_FUNCTION = 400, 300, 60, 40
MACHINE_PATHS = re.compile(r"(?<![\w.~/])/(work|root|home|Users|tmp)/\w")
TEXT_FILES = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".txt", ".cfg", ""}
README_BYTES = 10_000
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "benchmarks", "demo_voice")
OTHER_PROGRAMS = {"--lowvram", "--novram", "--disable-metadata", "--dist", "--nproc-per-node", "--help"}  # of others
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
NOT_OURS = {
    ".git",
    ".venv",
    ".venv-test",
    "venv",
    "__pycache__",
    ".coverage",
    "findings",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
}


def repository_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not NOT_OURS.intersection(path.relative_to(ROOT).parts):
            yield path


def product_files() -> list[Path]:
    return [p for folder in ("omnivoice", "nodes") for p in sorted((ROOT / folder).rglob("*.py"))]


def sizes(path: Path) -> Iterator[tuple[str, int, int, int]]:
    """Yield (what, lines, hard cap, soft cap) of a file and of every function in it."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    yield name, len(text.splitlines()), MAX_FILE, SOFT_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno
            yield f"{name}:{node.name}", node.end_lineno - node.lineno + 1, MAX_FUNCTION, SOFT_FUNCTION


def test_long_files_and_functions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "long.py").write_text("def f():\n" + "    x = 1\n" * 60 + "y = 2\n" * 340)
    assert [(what, lines) for what, lines, hard, _ in sizes(tmp_path / "long.py") if lines > hard] == [
        ("long.py", 401),
        ("long.py:f", 61),
    ]


def test_files_and_functions_are_short() -> None:
    measured = [size for path in product_files() for size in sizes(path)]
    assert len(measured) > 50
    assert [(what, lines) for what, lines, hard, _ in measured if lines > hard] == []
    notes = [f"{what} {lines} lines" for what, lines, _, soft in measured if lines > soft]
    if notes:
        warnings.warn("over the soft caps (300 a file, 40 a function): " + "; ".join(notes), stacklevel=1)


def test_no_machine_paths() -> None:
    assert MACHINE_PATHS.search("see " + "/" + "root/x")
    assert not MACHINE_PATHS.search("frame" + "/" + "work/x")
    bad = []
    for path in repository_files():
        if path.suffix in TEXT_FILES and path.stat().st_size < 1_000_000:
            text = path.read_text(encoding="utf-8", errors="replace")
            bad += [f"{path.relative_to(ROOT)}: {m.group()}" for m in MACHINE_PATHS.finditer(text)]
    assert bad == []


def test_requirements_and_pyproject_agree() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert found
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n")
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    assert re.findall(r'"([^"]+)"', found.group(1)) == wanted
    assert all(re.fullmatch(r"[a-z_]+>=[\d.]+", line) for line in wanted)
    assert not {re.split(r"[<>=]", line)[0] for line in wanted} & {"torch", "torchaudio", "torchvision", "transformers"}


def test_readme_has_the_test_command_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- test-command -->\n+```[a-z]*\n(.*?)\n```", readme, re.DOTALL)
    assert found
    command = found.group(1)
    assert "\n" not in command
    assert all(part in command for part in ("torch", "-r requirements.txt", "-r tests/requirements.txt", "-m pytest"))
    assert "<!-- test-command -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def pages() -> list[Path]:
    """Return every Markdown file that describes the repository."""
    places = [ROOT / name for name in PAGES]
    return [page for place in places for page in ([place] if place.is_file() else sorted(place.rglob("*.md")))]


def broken_links(text: str, folder: Path) -> list[str]:
    """Return the relative links and pictures of a Markdown text that name no file or no heading."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = folder / name if name else None
        if target is not None and not target.exists():
            broken.append(link)
            continue
        if anchor and anchor not in anchors(target.read_text(encoding="utf-8") if target else text):
            broken.append(link)
    return broken


def anchors(text: str) -> set[str]:
    """Return the anchors of a Markdown text's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_options() -> dict[str, set[str]]:
    """Return the options of every command of `python -m omnivoice`, such as "speak" and "voice save"."""
    commands = argparse.ArgumentParser().add_subparsers()
    for module in pkgutil.iter_modules(omnivoice.commands.__path__):
        add_parsers = getattr(importlib.import_module(f"omnivoice.commands.{module.name}"), "add_parsers", None)
        if add_parsers is not None:
            add_parsers(commands)
    return dict(_options(commands, ""))


def _options(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], prefix: str
) -> Iterator[tuple[str, set[str]]]:
    for name, parser in commands.choices.items():
        yield f"{prefix}{name}", {option for action in parser._actions for option in action.option_strings}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from _options(action, f"{prefix}{name} ")


def unknown_options(text: str, known: dict[str, set[str]]) -> list[str]:
    """Return the options that no program has, and those on a line of a command that does not have them."""
    every = set().union(*known.values()) | OTHER_PROGRAMS
    unknown = [option for option in OPTION.findall(text) if option not in every]
    for line in re.findall(r"python -m omnivoice ([^\n&`]+)", text):
        names = [name for name in known if f"{line} ".startswith(f"{name} ")]
        own = known[max(names, key=len)] if names else set()
        unknown += [f"{line}: {option}" for option in OPTION.findall(line) if option not in own | OTHER_PROGRAMS]
    return unknown


def test_readme_is_one_page() -> None:
    assert (ROOT / "README.md").stat().st_size <= README_BYTES


@pytest.mark.parametrize("link", ["missing.md", "#no-such-heading", "README.md#no-such-heading"])
def test_broken_links_are_found(link: str) -> None:
    assert broken_links(f"# A heading\n[text]({link})", ROOT) == [link]
    assert broken_links("# A heading\n[a](README.md) [b](#a-heading) [c](https://example.com/x)", ROOT) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page: Path) -> None:
    assert broken_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_unknown_options_are_found() -> None:
    known = {"voice": {"--help"}, "voice save": {"--transcript"}, "speak": {"--seed"}}
    assert unknown_options("`--sped`", known) == ["--sped"]
    assert unknown_options("python -m omnivoice voice save x.wav --seed 1", known) != []
    assert unknown_options("python -m omnivoice voice save x.wav --transcript x && a --dist loadfile", known) == []


def test_documented_options_exist() -> None:
    known = command_options()
    assert {"speak", "voice save", "train"} <= known.keys()
    folders = [ROOT / "benchmarks", ROOT / "demo_voice"]
    programs = ("versions.py", "fuzz/program.py")
    sources = [
        *(ROOT / "tests" / name for name in programs),
        *(path for folder in folders for path in folder.rglob("*.py")),
    ]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    known["development tools"] = {option for text in texts for option in re.findall(r'"(--[a-z-]+)"', text)}
    found = {page.name: unknown_options(page.read_text(encoding="utf-8"), known) for page in pages()}
    assert {name: options for name, options in found.items() if options} == {}


def test_documented_commands_exist() -> None:
    known = command_options()
    for page in pages():
        for command in re.findall(r"python -m omnivoice ([a-z]+)", page.read_text(encoding="utf-8")):
            assert command in known, f"{page.name}: {command}"


def table_column(heading: str) -> set[str]:
    """Return the first column of the table in that section of the README, without backticks."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", readme.split(f"## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    return {row.strip("`") for row in rows[1:]}


def test_readme_lists_every_node() -> None:
    nodes = json.loads((ROOT / "locales" / "en" / "nodeDefs.json").read_text(encoding="utf-8"))
    assert table_column("Nodes") == {node["display_name"] for node in nodes.values()}


def test_readme_lists_every_workflow() -> None:
    assert table_column("Workflows") == {path.name for path in (ROOT / "workflows").glob("*.json")}


def test_what_does_not_ship_is_named() -> None:
    patterns = (ROOT / ".comfyignore").read_text(encoding="utf-8").split()
    assert {"tests/", "benchmarks/", "demo_voice/making/"} <= set(patterns)
    assert [pattern for pattern in patterns if not (ROOT / pattern).exists()] == []


def shipped_tables() -> list[str]:
    """Return the tables that ship, as paths from the root."""
    folders = ("omnivoice", "nodes", "benchmarks", "demo_voice")
    found = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".json", ".tsv", ".csv")
    ]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def test_the_notice_names_the_source_of_every_table() -> None:
    """A table that says that it comes from elsewhere must not be among those that were written for this repository."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    from_others, ours = notice.split("Written for this repository:\n")
    assert len(shipped_tables()) > 15
    assert [name for name in shipped_tables() if notice.count(f"{name}\n") + notice.count(f"{name} ") != 1] == []
    for name in shipped_tables():
        source = json.loads((ROOT / name).read_text(encoding="utf-8")).get("source", "others")
        assert name in (ours if source.startswith("ours") else from_others), name
    assert set(re.findall(r"omnivoice/[\w/]+\.json", notice)) <= set(shipped_tables()), "tables that are gone"
