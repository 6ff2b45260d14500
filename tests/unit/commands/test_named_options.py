"""Messages and pages name only options that exist, and shared messages only those that every such command has."""

from __future__ import annotations

import argparse
import ast
import re
from functools import cache
from pathlib import Path

import pytest

from omnivoice import __main__ as command_line

ROOT = Path(__file__).resolve().parents[3]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Of programs that pages and messages tell how to start: ComfyUI, git, pip, torchrun, pytest, aplay.
OTHERS = {"--lowvram", "--disable-metadata", "--nproc-per-node", "--dist", "--help"}


@cache
def parsers() -> dict[str, set[str]]:
    """The options of every command, by its name, without --help."""
    found: dict[str, set[str]] = {}

    def walk(parser: argparse.ArgumentParser, name: str) -> None:
        found[name] = {option for action in parser._actions for option in action.option_strings}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for part, sub in action.choices.items():
                    walk(sub, f"{name} {part}".strip())

    def parse_args(parser: argparse.ArgumentParser, *_: object) -> None:
        walk(parser, "")
        raise SystemExit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        with pytest.raises(SystemExit):
            command_line.main([])
    return found


def texts(path: Path) -> list[tuple[int, str]]:
    """The string literals of a module, with their lines, docstrings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(n.lineno, n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def test_the_parsers_are_found() -> None:
    assert {"speak", "dataset", "train", "merge", "voice save"} <= parsers().keys()
    assert {"--model", "--device", "--codec"} <= parsers()["train"] & parsers()["dataset"] & parsers()["speak"]


@pytest.mark.parametrize("text", ["try --devise cpu", "name it with --modle", "(--voices)", "run `x --no-such-thing`"])
def test_an_option_that_does_not_exist_is_seen(text: str) -> None:
    assert set(OPTION.findall(text)) - set().union(*parsers().values(), OTHERS)


@pytest.mark.parametrize("folder", ["omnivoice", "nodes"])
def test_messages_name_options_that_exist(folder: str) -> None:
    known = set().union(*parsers().values(), OTHERS)
    said = [
        f"{path.relative_to(ROOT)} line {line}: {option}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts(path)
        for option in OPTION.findall(text)
        if option not in known
    ]
    assert said == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in ("command-line", "training"))])
def test_pages_name_options_of_the_command(page: str) -> None:
    """In lines that start a command: those of that command. Elsewhere: those of any."""
    known = set().union(*parsers().values(), OTHERS)
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        named, started = set(OPTION.findall(line)), re.search(r"-m omnivoice ((?:voice )?[a-z]+)(.*)", line)
        assert named <= known | {"--user", "--upgrade"}, line
        if started and started[1] in parsers():
            assert set(OPTION.findall(started[2])) <= parsers()[started[1]] | OTHERS, line


# What a helper of commands/models.py names in its message -> the calls that lead to it.
SHARED = {
    "--device": ("usable_device(", "load_engine(", "load_identified("),
    "--model": ("find_model(", "checkpoint_files(", "load_engine(", "load_identified("),
}


@pytest.mark.parametrize("option", SHARED)
def test_a_message_that_commands_share_names_an_option_of_each(option: str) -> None:
    """For example "try --device cpu", which `train` had no option for."""
    users = set()
    for path in (ROOT / "omnivoice" / "commands").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.stem != "models" and any(call in text for call in SHARED[option]):
            added = set(re.findall(r'add_parser\(\s*"([a-z]+)"', text)) - {"languages"}  # which loads no model
            users |= {"voice save"} if "save" in added else added
    assert users > {"train", "dataset", "speak", "voice save"}
    assert [name for name in users if option not in parsers()[name]] == []
