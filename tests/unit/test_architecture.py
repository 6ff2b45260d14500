"""House rules that are checked by reading the source (AST), without importing it.

Each rule is a function `(tree, room) -> complaints`. Every rule is first tried on snippets that break it, so a rule
that no longer finds anything fails as well. What ruff can check (print, broad except) is left to ruff.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Rooms by height: a room imports only lower ones, or itself. Rooms of the same height do not import each other.
RANK = {
    "errors": 0,
    "constants": 0,
    "voice": 1,
    "types": 2,
    "ops": 2,
    "devices": 3,
    "intake": 3,
    "config": 4,  # uses the table of limits
    "audio": 5,
    "text": 5,
    "lm": 5,
    "codec": 6,
    "weights": 7,
    "generate": 8,
    "train": 8,
    "engine": 9,
    "productions": 10,
    "commands": 11,
    "__main__": 12,
}
# VoicePrompt.save and .load import the reader and writer of voice files, inside the methods.
NAMED_EXCEPTION = ("voice", "intake")

THIRD_PARTY = {"torch", "numpy", "safetensors", "tokenizers"}
# Imported inside functions of these rooms only: the pack loads without them, and the feature that needs one says so.
LATE = {"soundfile": {"intake"}, "huggingface_hub": {"intake"}, "av": {"intake"}}
LATE |= {"num2words": {"text"}}
LATE |= {"tomllib": {"commands"}, "tomli": {"commands"}}  # Python has its own since 3.11
LATE |= {"transformers": {"commands"}}  # Whisper, for the words of a model in training
# What may be imported from the standard library. Not among it: what starts programs, loads foreign code, uses the
# network, or reads formats that the pack does not read (XML, tar, pickle, shelve, YAML).
ALLOWED_STDLIB = frozenset(
    [
        "__future__",
        "argparse",
        "bisect",
        "codecs",
        "collections",
        "contextlib",
        "contextvars",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "errno",
        "fcntl",
        "fnmatch",
        "fractions",
        "functools",
        "gc",
        "hashlib",
        "heapq",
        "html",
        "importlib",
        "inspect",
        "io",
        "itertools",
        "json",
        "logging",
        "math",
        "msvcrt",
        "numbers",
        "operator",
        "os",
        "pathlib",
        "pickletools",
        "platform",
        "random",
        "re",
        "secrets",
        "shutil",
        "signal",
        "stat",
        "struct",
        "sys",
        "threading",
        "time",
        "traceback",
        "types",
        "typing",
        "unicodedata",
        "warnings",
        "zipfile",
    ]
)
LATE_MODULES = {"num2words", "transformers"}  # what importlib may import
CODE_CALLS = re.compile(
    r"(eval|exec|compile|__import__|breakpoint|(os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*|startfile|fork\w*))"
    r"|torch\.(load|hub\.\w+|jit\.load|ops\.load_library|utils\.cpp_extension\.\w+)|(np|numpy)\.load)"
)
# Packages that only the named files import. A file may stop importing one, but no other file may start.
ONLY_IN = {
    "soundfile": {"omnivoice/intake/libsndfile.py"},
    "huggingface_hub": {"omnivoice/intake/downloads.py"},
    "av": {"omnivoice/intake/container_audio.py"},
    "PIL": {"nodes/host/pictures.py"},
    "comfy_aimdo": {"nodes/host/resident.py"},
    "tomllib": {"omnivoice/commands/train_config.py"},
    "tomli": {"omnivoice/commands/train_config.py"},
    "num2words": {"omnivoice/text/normalise/other.py"},
    "transformers": {"omnivoice/commands/recogniser.py"},
    "pickletools": {"omnivoice/commands/upstream_prompt.py"},
    "zipfile": {"omnivoice/intake/archives.py"},
    "importlib": {"omnivoice/text/normalise/other.py", "nodes/host/transcribe.py"},
    "threading": {"omnivoice/intake/downloads.py", "omnivoice/__main__.py"},
    "signal": {"omnivoice/commands/train.py", "omnivoice/__main__.py"},
    "gc": {"omnivoice/text/tokenizer.py"},
    "fcntl": {"omnivoice/intake/files.py", "omnivoice/intake/locks.py"},
    "msvcrt": {"omnivoice/intake/locks.py"},
}
LAYERS = {"Linear", "Conv1d", "Conv2d", "ConvTranspose1d", "Embedding", "GroupNorm", "LayerNorm", "RMSNorm"}
FILE_CALLS = {
    "open",
    "io.open",
    "io.FileIO",
    "os.open",
    "os.fdopen",
    "os.replace",
    "os.rename",
    "os.renames",
    "os.mkdir",
    "os.makedirs",
    "os.remove",
    "os.unlink",
    "os.rmdir",
    "os.removedirs",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "torch.load",
    "torch.save",
    "torch.from_file",
    "numpy.load",
    "numpy.save",
    "numpy.savez",
    "numpy.fromfile",
    "numpy.memmap",
    "np.load",
    "np.save",
    "np.savez",
    "np.fromfile",
    "np.memmap",
    "safe_open",
    "load_file",
    "save_file",
}
FILE_METHODS = {
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "mkdir",
    "unlink",
    "rename",
    "touch",
    "rmdir",
    "symlink_to",
    "hardlink_to",
    "chmod",
    "tofile",
    "from_file",
    "safe_open",
    "load_file",
    "save_file",
}
FILE_MODULES = {
    "wave",
    "shutil",
    "tempfile",
    "mmap",
    "zipfile",
    "tarfile",
    "av",
    "soundfile",
    "fileinput",
    "aifc",
    "sndhdr",
}
MAX_EXECUTE = 15

Rule = Callable[[ast.Module, str], "list[str]"]


@lru_cache(maxsize=4)
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node of a tree, which all rules look at in turn."""
    return tuple(ast.walk(tree))


def dotted(node: ast.AST) -> str:
    """Return a name or attribute chain as `a.b.c`; parts that are neither are empty."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str, int]]:
    """Yield every import as (statement, dotted module, level)."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node, node.module, node.level
            else:
                yield from ((node, alias.name, node.level) for alias in node.names)


def at_import(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, also inside classes, ifs and tries."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With, ast.For)):
            pending.extend(node.body)


def rule_import_direction(tree: ast.Module, room: str) -> list[str]:
    inside = {
        id(n) for f in walked(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in ast.walk(f)
    }
    bad = []
    for node, module, level in imports(tree):
        if level == 0:
            if module.split(".")[0] == "omnivoice":
                bad.append(f"line {node.lineno}: absolute import of {module}; the engine is also a subpackage")
            continue
        # Level 1 in a folder room is the room itself; the walker below gives flat rooms level 1 = the package.
        target = module.split(".")[0]
        if (level == 1 and room in FOLDERS) or target == room:
            continue
        if target not in RANK:
            bad.append(f"line {node.lineno}: {target} is not a room")
        elif (room, target) == NAMED_EXCEPTION and id(node) in inside:
            continue
        elif RANK[target] >= RANK[room]:
            bad.append(f"line {node.lineno}: {room} imports {target}, which is not below it")
        elif (room, target) == ("train", "generate"):
            bad.append(f"line {node.lineno}: train imports generate")
    return bad


FOLDERS = {"intake", "audio", "text", "lm", "codec", "weights", "generate", "train", "productions", "commands"}


def rule_allowed_imports(tree: ast.Module, room: str) -> list[str]:
    bad = []
    top_level = {id(node) for node in at_import(tree)}
    for node, module, level in imports(tree):
        top = module.split(".")[0]
        if level or top in THIRD_PARTY:
            continue
        if room in LATE.get(top, ()) and id(node) not in top_level:
            continue
        if top not in ALLOWED_STDLIB:
            bad.append(f"line {node.lineno}: import of {module}")
    return bad


def rule_only_intake_opens_files(tree: ast.Module, room: str) -> list[str]:
    if room == "intake":
        return []
    bad = [
        f"line {n.lineno}: import of {m}"
        for n, m, level in imports(tree)
        if not level and m.split(".")[0] in FILE_MODULES
    ]
    for node in walked(tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name in FILE_CALLS or method in FILE_METHODS:
                bad.append(f"line {node.lineno}: {name or method}() outside intake")
    return bad


def rule_no_foreign_code(tree: ast.Module, room: str) -> list[str]:
    """No pickle, no eval, no process, and models of transformers from a folder only, without code of their own."""
    pickles = {"pickle", "_pickle", "dill", "cloudpickle", "joblib"}  # pickletools executes nothing
    bad = [f"line {n.lineno}: import of {m}" for n, m, _ in imports(tree) if m.split(".")[0] in pickles]
    for node in walked(tree):
        if not isinstance(node, ast.Call):
            continue
        name, keywords = dotted(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
        if CODE_CALLS.fullmatch(name):
            bad.append(f"line {node.lineno}: {name}()")
        if name.endswith("import_module") and ast.unparse(node.args[0]).strip("'") not in LATE_MODULES:
            bad.append(f"line {node.lineno}: {ast.unparse(node)}")
        if keywords.get("trust_remote_code", "False") != "False" or keywords.get("allow_pickle", "False") != "False":
            bad.append(f"line {node.lineno}: {ast.unparse(node)[:60]}")
        if name.endswith("from_pretrained") and keywords.get("local_files_only") != "True":
            bad.append(f"line {node.lineno}: {name}() without local_files_only=True")
    return bad


def rule_layers_come_from_ops(tree: ast.Module, room: str) -> list[str]:
    bad = [
        f"line {n.lineno}: {dotted(n.func)}() instead of ops"
        for n in walked(tree)
        if isinstance(n, ast.Call)
        and dotted(n.func) in {f"{p}.{layer}" for p in ("nn", "torch.nn") for layer in LAYERS}
    ]
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch.nn"):
            bad += [f"line {node.lineno}: {a.name} from torch.nn" for a in node.names if a.name in LAYERS]
    return bad


def rule_nothing_at_import(tree: ast.Module, room: str) -> list[str]:
    banned = re.compile(
        r"\b(os\.environ|os\.getenv|os\.putenv|sys\.path|sys\.modules|warnings\.(simplefilter|filterwarnings)"
        r"|random\.seed|np\.random|manual_seed|torch\.(set_\w+|cuda|backends|mps|use_deterministic_algorithms)"
        r"|logging\.(basicConfig|disable))\b"
    )
    bad = []
    for node in at_import(tree):
        if isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete)):
            if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
                bad.append(f"line {node.lineno}: {ast.unparse(node)[:60]} runs at import")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(t, (ast.Attribute, ast.Subscript)) for t in targets):
                bad.append(f"line {node.lineno}: {ast.unparse(node)[:60]} changes another object at import")
            code = next(
                (m.group() for m in [banned.search(ast.unparse(node))] if m and not isinstance(node, ast.Expr)), None
            )
            if code:
                bad.append(f"line {node.lineno}: {code} at import")
        elif isinstance(node, (ast.Global, ast.For, ast.While, ast.With)):
            bad.append(f"line {node.lineno}: {type(node).__name__} at import")
    return bad


def rule_one_function_shows_sizes(tree: ast.Module, room: str) -> list[str]:
    """Bytes in a message: by `shown_size`, whose unit shows them, or as whole bytes."""
    bad = []
    for node in walked(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(v.value if isinstance(v, ast.Constant) else "\0" for v in node.values)
            if re.search(r"\0 ?[KMGT]i?B\b", text):
                bad.append(f"line {node.lineno}: {text!r} without shown_size")
    return bad


def functions(tree: ast.AST) -> Iterator[tuple[int, str, int]]:
    """Yield (line, name, lines of the body) of every function."""
    for node in walked(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name, (node.end_lineno or node.lineno) - node.body[0].lineno + 1


def rule_short_execute(tree: ast.Module, room: str) -> list[str]:
    return [
        f"line {n}: execute has {size} lines, cap {MAX_EXECUTE}"
        for n, name, size in functions(tree)
        if name == "execute" and size > MAX_EXECUTE
    ]


def rule_one_bridge(tree: ast.Module, room: str) -> list[str]:
    """In nodes/: comfy and folder_paths in host/ only, comfy_api anywhere, the engine by relative import.

    Pillow and comfy_aimdo, which ComfyUI brings, may be imported inside functions of host/, and Pillow for types.
    """
    bad = []
    blocks = [n for n in walked(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    for_types = {id(child) for block in blocks for child in block.body}
    at_start = {id(node) for node in at_import(tree)} - for_types
    for node, module, level in imports(tree):
        top = module.split(".")[0]
        hosts = {"comfy", "comfy_execution", "folder_paths", "server"}
        if level == 0 and top in hosts and room != "host":
            bad.append(f"line {node.lineno}: {module} outside host/")
        if level == 0 and top in {"PIL", "comfy_aimdo"} and room == "host" and id(node) not in at_start:
            continue
        allowed = ALLOWED_STDLIB | {"torch", "comfy_api"} | hosts
        if level == 0 and top not in allowed:
            bad.append(f"line {node.lineno}: import of {module}")
    return bad


# Every rule, with snippets that break it, as (room, source).
BROKEN: dict[Rule, list[tuple[str, str]]] = {
    rule_import_direction: [
        ("errors", "from .voice import VoicePrompt"),
        ("audio", "from ..text.tokens import x"),
        ("codec", "def f():\n    from ..engine import Engine"),
        ("lm", "from .. import generate"),
        ("voice", "from .intake.voice_files import read_voice"),
        ("train", "from ..generate.plan import plan"),
        ("engine", "from omnivoice.types import Waveform"),
        ("engine", "from .productions.cues import Cue"),
        ("generate", "def f():\n    from ..productions.cues import Cue"),
        ("types", "from .unknown import x"),
    ],
    rule_allowed_imports: [
        ("lm", "import transformers"),
        ("audio", "def f():\n    import torchaudio"),
        ("engine", "import comfy.ops"),
        ("text", "from folder_paths import models_dir"),
        ("intake", "import av"),
        ("intake", "import soundfile"),
        ("audio", "def f():\n    import soundfile"),
        ("engine", "def f():\n    import av"),
        ("engine", "import subprocess"),
        ("engine", "from urllib.request import urlopen"),
        ("intake", "import tarfile"),
        ("intake", "from xml.etree import ElementTree"),
        ("text", "import yaml"),
        ("train", "import shelve"),
        ("weights", "import ctypes"),
        ("commands", "import webbrowser"),
    ],
    rule_only_intake_opens_files: [
        ("weights", "open('x')"),
        ("weights", "import os\nos.replace('a', 'b')"),
        ("engine", "path.read_text()"),
        ("engine", "path.open('rb')"),
        ("codec", "import torch\ntorch.load('x', weights_only=True)"),
        ("audio", "import wave"),
        ("weights", "from safetensors import safe_open\nsafe_open('x', 'pt')"),
        ("text", "Tokenizer.from_file('x')"),
    ],
    rule_no_foreign_code: [
        ("intake", "import pickle"),
        ("intake", "import torch\ntorch.load('x')"),
        ("intake", "import torch\ntorch.load('x', weights_only=True)"),
        ("intake", "torch.hub.load('x', 'y')"),
        ("intake", "np.load('x')"),
        ("lm", "array.read('x', allow_pickle=True)"),
        ("text", "eval('1')"),
        ("text", "exec('x = 1')"),
        ("text", "compile('1', 'x', 'eval')"),
        ("text", "__import__('x')"),
        ("commands", "os.system('ls')"),
        ("commands", "os.execv('x', [])"),
        ("commands", "os.posix_spawn('x', [], {})"),
        ("text", "importlib.import_module(name)"),
        ("text", "importlib.import_module('requests')"),
        ("host", "Model.from_pretrained('x')"),
        ("host", "Model.from_pretrained('x', local_files_only=True, trust_remote_code=True)"),
    ],
    rule_layers_come_from_ops: [
        ("lm", "from torch import nn\nnn.Linear(1, 2)"),
        ("codec", "import torch\ntorch.nn.Conv1d(1, 2, 3)"),
        ("lm", "from torch.nn import Embedding"),
    ],
    rule_nothing_at_import: [
        ("engine", "torch.manual_seed(0)"),
        ("engine", "import os\nos.environ['X'] = '1'"),
        ("engine", "import os\nHOME = os.environ.get('HOME')"),
        ("engine", "import sys\nsys.path.insert(0, 'x')"),
        ("engine", "class A:\n    torch.set_num_threads(1)"),
        ("engine", "if True:\n    torch.backends.cudnn.benchmark = True"),
        ("engine", "FAST = torch.cuda.is_available()"),
        ("engine", "for x in range(3):\n    pass"),
    ],
    rule_one_function_shows_sizes: [
        ("weights", "f'{size / 1e9:.1f} GB free'"),
        ("commands", "f'{n}MB'"),
        ("host", "print(f'wrote {x} ({n:.0f} KiB)')"),
    ],
    rule_short_execute: [("load", "class A:\n    def execute(cls):\n" + "        x = 1\n" * 16)],
    rule_one_bridge: [
        ("load", "import comfy.utils"),
        ("load", "import folder_paths"),
        ("hosting", "import comfy.utils"),
        ("voices", "from comfy_execution.graph_utils import ExecutionBlocker"),
        ("host", "import requests"),
        ("host", "import PIL.Image"),
        ("host", "from comfy_aimdo import model_vbar"),
        ("audio", "def f():\n    from PIL import Image"),
        ("host", "import transformers"),
        ("host", "import urllib.request"),
        ("host", "import xml.sax"),
        ("takes", "import tarfile"),
        ("load", "from omnivoice import x"),
    ],
}
ALLOWED: list[tuple[str, str]] = [
    ("intake", "def f():\n    import av\n    with open('x') as f:\n        return f.read()"),
    ("voice", "def f():\n    from .intake.voice_files import read_voice"),
    ("codec", "from ..ops import Ops\nfrom . import layers\nfrom .x import y\ndef f(ops):\n    return ops.Linear(1)"),
    ("engine", "import logging\nlog = logging.getLogger('x')"),
    ("engine", "def f(s):\n    return s.replace('a', 'b')"),
    ("text", "import re\nA = re.compile('a')\ndef f(model):\n    return model.eval()"),
    ("text", "import importlib\ndef f():\n    return importlib.import_module('num2words')"),
    ("commands", "def f(m):\n    return m.from_pretrained('x', local_files_only=True, trust_remote_code=False)"),
    ("intake", "def f():\n    import soundfile, huggingface_hub\n    import pickletools"),
]
ENGINE_RULES = [r for r in BROKEN if r not in (rule_short_execute, rule_one_bridge)]
NODE_RULES = [r for r in BROKEN if r not in (rule_import_direction, rule_allowed_imports)]


def source_files(folder: str) -> list[tuple[Path, str]]:
    """Return every file below `folder` with its room, the first part of its path."""
    base = ROOT / folder
    return [(p, p.relative_to(base).parts[0].removesuffix(".py")) for p in sorted(base.rglob("*.py"))]


def complaints(rules: list[Rule], folder: str) -> list[str]:
    found = []
    for path, room in source_files(folder):
        if room == "__init__":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(ROOT)} {c} ({rule.__name__})" for rule in rules for c in rule(tree, room)]
    return found


@pytest.mark.parametrize("rule, room, source", [(r, room, s) for r, cases in BROKEN.items() for room, s in cases])
def test_rule_sees_what_breaks_it(rule: Rule, room: str, source: str) -> None:
    assert rule(ast.parse(source), room)


@pytest.mark.parametrize("room, source", ALLOWED)
def test_rules_let_good_code_pass(room: str, source: str) -> None:
    assert [c for rule in ENGINE_RULES for c in rule(ast.parse(source), room)] == []


def test_engine_keeps_the_rules() -> None:
    assert len(source_files("omnivoice")) > 5
    assert complaints(ENGINE_RULES, "omnivoice") == []


def test_nodes_keep_the_rules() -> None:
    assert len(source_files("nodes")) > 3
    assert complaints(NODE_RULES, "nodes") == []


def misplaced_imports(tree: ast.Module, file: str) -> list[str]:
    """Return the imports of packages that belong to other files."""
    tops = [(node.lineno, module.split(".")[0]) for node, module, level in imports(tree) if not level]
    return [f"{file} line {line}: import of {top}" for line, top in tops if file not in ONLY_IN.get(top, {file})]


@pytest.mark.parametrize("package", ONLY_IN)
def test_misplaced_imports_are_found(package: str) -> None:
    tree = ast.parse(f"def f():\n    import {package}")
    assert misplaced_imports(tree, "omnivoice/engine.py")
    assert all(misplaced_imports(tree, file) == [] for file in ONLY_IN[package])


def test_packages_are_imported_in_their_own_files_only() -> None:
    found = []
    for folder in ("omnivoice", "nodes"):
        for path, _ in source_files(folder):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += misplaced_imports(tree, path.relative_to(ROOT).as_posix())
    assert found == []


def test_engine_init_is_light() -> None:
    """omnivoice/__init__.py re-exports public names of the engine and does nothing else."""
    path = ROOT / "omnivoice" / "__init__.py"
    if path.exists():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert [m for _, m, level in imports(tree) if level == 0 and m != "__future__"] == []
        assert rule_nothing_at_import(tree, "__init__") == []
