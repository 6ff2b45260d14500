"""What is published, and what builds it: the files of the registry's archive, their source, and the workflows."""

from __future__ import annotations

import ast
import fnmatch
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests.conftest import PACK_FILES
from tests.unit.test_architecture import rule_no_foreign_code
from tests.unit.test_repository import repository_files

ROOT = Path(__file__).resolve().parents[2]
# Everything that the archive holds: the files at the top, and for each folder the kinds of files in it.
TOP = {
    ".comfyignore", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "README.md", "__init__.py",
    "pyproject.toml", "requirements.txt",
}  # fmt: skip
FOLDERS = {
    "demo_voice": {".md", ".safetensors"},
    "docs": {".md"},
    "locales": {".json"},
    "nodes": {".py"},
    "omnivoice": {".json", ".py"},
    "web": {".jpg", ".js", ".md"},
    "workflows": {".jpg", ".json", ".mp4", ".wav"},
}
ARCHIVE_BYTES = 20_000_000
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][A-Za-z]+)?")


def repository() -> list[str]:
    """Return the files that git has or would add; without git, as in a copy, every file that is no cache."""
    if not (ROOT / ".git").exists():
        return [path.relative_to(ROOT).as_posix() for path in repository_files()]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file())


def left_out(name: str, patterns: list[str]) -> bool:
    """Return whether a pattern of .comfyignore, which are those of git, leaves the file out of the archive."""
    for pattern in patterns:
        folder = pattern.endswith("/")
        inner = pattern.strip("/")
        parts = name.split("/")
        heads = ["/".join(parts[:n]) for n in range(1, len(parts) + (0 if folder else 1))]
        if "/" not in inner:
            heads = [head.rsplit("/", 1)[-1] for head in heads]
        if any(fnmatch.fnmatchcase(head, inner) for head in heads):
            return True
    return False


def archive() -> list[str]:
    """Return the paths of the files that the registry gets."""
    patterns = [line for line in (ROOT / ".comfyignore").read_text(encoding="utf-8").split("\n") if line]
    assert not any(pattern.startswith(("#", "!")) for pattern in patterns), "left_out knows no such patterns"
    return [name for name in repository() if not left_out(name, patterns)]


def shipped_sources() -> list[str]:
    return [name for name in archive() if name.endswith((".py", ".js"))]


@pytest.mark.parametrize(
    ("name", "pattern", "out"),
    [
        ("tests/unit/test_x.py", "tests/", True),
        ("omnivoice/tests/x.py", "tests/", True),
        ("tests.py", "tests/", False),
        ("tests", "tests/", False),
        ("demo_voice/making/make.py", "demo_voice/making/", True),
        ("demo_voice/CARD.md", "demo_voice/making/", False),
        ("x/demo_voice/making/make.py", "demo_voice/making/", False),
        (".pre-commit-config.yaml", ".pre-commit-config.yaml", True),
        ("omnivoice/x.pyc", "*.pyc", True),
    ],
)
def test_patterns_leave_out_what_git_would(name: str, pattern: str, out: bool) -> None:
    assert left_out(name, [pattern]) is out


def test_the_archive_holds_what_is_expected_and_nothing_else() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for name in archive():
        top, _, rest = name.partition("/")
        found[top].add(Path(rest).suffix)
    assert {top: kinds for top, kinds in found.items() if top not in TOP} == FOLDERS
    assert found.keys() >= TOP and found.keys() >= set(PACK_FILES)
    assert sum((ROOT / name).stat().st_size for name in archive()) < ARCHIVE_BYTES
    assert [name for name in archive() if (ROOT / name).is_symlink() or (ROOT / name).stat().st_mode & 0o6000] == []


def test_nothing_for_developers_is_in_the_archive() -> None:
    hidden = [name for name in archive() if name.startswith(".") and name not in TOP]
    mentioned = re.compile(r"(^|/)(tests?|benchmarks|making|conftest\.py|test_\w+\.py|install\.py|setup\.py)(/|$)")
    assert hidden == [] and [name for name in archive() if mentioned.search(name)] == []
    assert {name.split("/")[0] for name in repository()} - {name.split("/")[0] for name in archive()} == {
        ".ci",
        ".github",
        ".pre-commit-config.yaml",
        "benchmarks",
        "tests",
    }


def test_shipped_code_runs_no_foreign_code() -> None:
    """Also the files that the rules for rooms leave out."""
    found = []
    for name in archive():
        if name.endswith(".py"):
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            found += [f"{name}: {complaint}" for complaint in rule_no_foreign_code(tree, "")]
    assert len(shipped_sources()) > 200 and found == []


@pytest.mark.parametrize(
    "text", ["/etc/" + "passwd", "/etc/" + "shadow", "sub" + "process", "Po" + "pen(", "os.sys" + "tem"]
)
def test_shipped_sources_have_no_text_that_scanners_take_for_an_attack(text: str) -> None:
    assert [name for name in shipped_sources() if text in (ROOT / name).read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("text", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "get_token", "HfFolder", ".netrc"])
def test_shipped_sources_read_no_token(text: str) -> None:
    assert [name for name in shipped_sources() if text in (ROOT / name).read_text(encoding="utf-8")] == []


MARKUP = re.compile(
    r"<\s*/?\s*(a|audio|button|div|embed|form|iframe|img|input|link|meta|object|script|span|style|svg|video)\b"
    r"|javascript:|\bon(click|error|load|mouseover)\s*=",
    re.IGNORECASE,
)


@pytest.mark.parametrize("text", ["<script>", "</ SCRIPT>", "<img src=x>", "[x](javascript:x)", "<b onerror = x>"])
def test_markup_is_seen(text: str) -> None:
    assert MARKUP.search(text) and not MARKUP.search("<!-- a note --> <name> <|speech|> a < b")


def test_pages_texts_and_workflows_hold_no_html() -> None:
    """ComfyUI shows them in the browser."""
    names = [name for name in archive() if Path(name).suffix in (".md", ".json") and not name.startswith("omnivoice/")]
    found = {name: MARKUP.findall((ROOT / name).read_text(encoding="utf-8")) for name in names}
    assert len(names) > 60 and {name: marks for name, marks in found.items() if marks} == {}


def language_tables(source: str) -> list[int]:
    """Return the lines of tables of more than nine language codes."""
    found = []
    for node in ast.walk(ast.parse(source)):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        texts = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if len(texts) > 9 and all(map(LANGUAGE.fullmatch, texts)):
            found.append(node.lineno)
    return found


CODES = "de en es fr it ja ko pt-BR ru zh-Hans".split()  # noqa: SIM905 - a table would be one that is looked for


def test_tables_of_language_codes_are_not_in_the_source() -> None:
    """The registry's scanner takes them for a list of addresses; ours are JSON."""
    assert language_tables(f"A = {CODES}") == [1] and language_tables(f"A = {dict.fromkeys(CODES)}") == [1]
    names = [name for name in archive() if name.endswith(".py")]
    assert {n: t for n in names if (t := language_tables((ROOT / n).read_text(encoding="utf-8")))} == {}


def steps(workflow: Path) -> list[dict[str, object]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def complaints(text: str) -> list[str]:
    """Return what makes a workflow a way in."""
    document = yaml.safe_load(text)
    triggers = document[True] if True in document else document["on"]  # YAML 1.1 reads `on` as true
    bad = [line.strip() for line in text.split("\n") if "uses:" in line and not PINNED.search(line)]
    bad += [name for name in ("pull_request_target", "workflow_run", "issue_comment") if name in triggers]
    bad += ["no permissions at the top"] if document.get("permissions") != {"contents": "read"} else []
    for name, job in document["jobs"].items():
        writes = "write" in str(job.get("permissions", ""))
        bad += [f"{name}: may write"] if writes else []
        for step in job["steps"]:
            given = step.get("with", {})
            used = str(step.get("uses", ""))
            if used.startswith("actions/checkout@") and given.get("persist-credentials") is not False:
                bad.append(f"{name}: the token stays on disk")
            if "cache" in used or any("cache" in key for key in given):
                bad.append(f"{name}: a cache")
            if "${{" in str(step.get("run", "")):
                bad.append(f"{name}: a value becomes part of a command")
            if "secrets." in str(step):
                bad.append(f"{name}: a secret")
    return bad


GOOD = f"""
on: [push]
permissions:
  contents: read
jobs:
  test:
    steps:
      - uses: actions/checkout@{"a" * 40} # v5.1.0
        with:
          persist-credentials: false
      - run: echo
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (f"@{'a' * 40} # v5.1.0", "@v5", "uses: actions/checkout@v5"),
        (" # v5.1.0", "", f"uses: actions/checkout@{'a' * 40}"),
        ("a" * 40, "a" * 39, f"uses: actions/checkout@{'a' * 39} # v5.1.0"),
        ("[push]", "[push, pull_request_target]", "pull_request_target"),
        ("[push]", "{workflow_run: {}}", "workflow_run"),
        ("contents: read", "contents: write", "no permissions at the top"),
        ("permissions:\n  contents: read\n", "", "no permissions at the top"),
        ("  test:\n", "  test:\n    permissions: {contents: write}\n", "test: may write"),
        ("persist-credentials: false", "fetch-depth: 0", "the token stays on disk"),
        ("persist-credentials: false", "persist-credentials: true", "the token stays on disk"),
        ("persist-credentials: false", "persist-credentials: false\n          cache: pip", "test: a cache"),
        ("- run: echo", f"- uses: actions/cache@{'b' * 40} # v4", "test: a cache"),
        ("- run: echo", "- run: echo ${{ github.head_ref }}", "becomes part of a command"),
        ("- run: echo", "- run: echo\n        env: {A: '${{ secrets.TOKEN }}'}", "test: a secret"),
    ],
)
def test_weak_workflows_are_found(old: str, new: str, said: str) -> None:
    assert complaints(GOOD) == [] and old in GOOD
    assert any(said in complaint for complaint in complaints(GOOD.replace(old, new)))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_give_nobody_a_way_in(workflow: Path) -> None:
    assert complaints(workflow.read_text(encoding="utf-8")) == []


def test_the_workflows_run_the_tests_the_sets_the_doors_and_the_audit() -> None:
    runs = [str(step.get("run", "")) for workflow in WORKFLOWS for step in steps(workflow)]
    for command in ("bash .ci/run", "tests/versions.py", "coverage run", "coverage report", "pip-audit -r", "zizmor"):
        assert any(command in run for run in runs), command


def test_nothing_is_installed_by_the_pack() -> None:
    """No install script, no version of torch, no lower bound that is a path or an address."""
    assert not [name for name in archive() if Path(name).name in ("install.py", "prestartup_script.py", "setup.py")]
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n")
    assert not [line for line in lines if re.search(r"torch|@|://|--|\bgit\b", line.split("#")[0])]


def test_exceptions_of_the_checkers_name_what_they_except_and_why() -> None:
    marked = {}
    for name in archive():
        if name.endswith(".py"):
            for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), start=1):
                if re.search(r"#\s*(noqa|nosec)", line):
                    marked[f"{name}:{number}"] = line
    reasoned = re.compile(r"# (noqa: [A-Z]+\d+( #)?|nosec B\d{3} #)( -)?( nosec B\d{3} #)? \w+")
    assert {place: line for place, line in marked.items() if not reasoned.search(line)} == {}
    assert len(marked) < 10
