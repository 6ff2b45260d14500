"""A pack for the server that the fuzz programme attacks: it records what the process does, and shows what nodes return.

An audit hook writes a line for each event that no prompt may cause: a file opened outside ComfyUI's folders, a change
outside those where the pack saves, a connection, another process, code from a file that is not source, a pickle.
OMNIVOICE_WATCH names the folders, as JSON. Files that native libraries open by themselves cause no event.
"""

import hashlib
import json
import os
import sys
import threading

RULES = json.loads(os.environ.get("OMNIVOICE_WATCH", "null"))
NEVER = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
)
NEVER += ("os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile", "pickle.find_class")
NEVER += ("marshal.load", "ftplib.connect", "http.client.connect", "urllib.Request", "os.symlink", "webbrowser.open")
CHANGES = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def inside(path, roots):
    """Whether a path, with links followed, is one of the roots or below one."""
    real = os.path.realpath(os.fsdecode(path))
    return any(real == root or real.startswith(root + os.sep) for root in roots)


def complaint(event, args, worker):
    """What is wrong with an event, or an empty text."""
    if event == "open":
        path, _, flags = args
        if not isinstance(path, (str, bytes)):
            return ""
        if flags & WRITES:
            return "" if inside(path, RULES["worker" if worker else "main"]) else f"writes {path!r}"
        return "" if inside(path, RULES["read"]) else f"reads {path!r}"
    if event == "os.mkdir" and os.path.isdir(args[0]):
        return ""  # it fails
    if event in CHANGES:
        paths = [
            path for path in args[: 2 if event in ("os.rename", "os.link") else 1] if isinstance(path, (str, bytes))
        ]
        return "" if all(inside(p, RULES["worker" if worker else "main"]) for p in paths) else f"{event} {paths}"
    if event in NEVER:
        return f"{event} {str(args)[:200]}"
    if event == "exec" and hasattr(args[0], "co_filename"):
        file = args[0].co_filename
        return "" if file.startswith("<") or inside(file, RULES["source"]) else f"runs code of {file}"
    return ""


def watch():
    log = os.open(RULES["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def hook(event, args):
        if event in seen:
            worker = "prompt_worker" in threading.current_thread().name
            told = complaint(event, args, worker)
            if told:
                os.write(log, f"{'worker' if worker else 'main'}: {told}\n".encode("utf-8", "backslashreplace"))

    seen = {"open", "exec", *CHANGES, *NEVER}
    sys.addaudithook(hook)


class Sink:
    """Node `FuzzSink`: ends a graph. The history shows the texts that come in, and the types of everything else."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"source": ("*", {})}}

    INPUT_IS_LIST, OUTPUT_NODE, RETURN_TYPES, FUNCTION, CATEGORY = True, True, (), "run", "audio"

    @classmethod
    def VALIDATE_INPUTS(cls, input_types):
        return True

    def run(self, source):
        return {"ui": {"text": [one[:2000] if isinstance(one, str) else type(one).__name__ for one in source[:20]]}}


class Digest(Sink):
    """Node `FuzzDigest`: the SHA-256 of the samples of an AUDIO, computed each time."""

    @classmethod
    def IS_CHANGED(cls, **inputs):
        return float("nan")

    def run(self, source):
        return {"ui": {"text": [hashlib.sha256(one["waveform"].numpy().tobytes()).hexdigest() for one in source]}}


NODE_CLASS_MAPPINGS = {"FuzzSink": Sink, "FuzzDigest": Digest}
if RULES:
    watch()
