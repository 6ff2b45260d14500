"""Forged prompts that a real ComfyUI executes: every node and input of the pack, legal graphs among them.

Needs COMFYUI_PATH, and fails without it. Each worker has a server of its own. An input is a prompt that the server
queued and ran to its end, to an error of the pack or to an interrupt; several outputs of one prompt count once. What
the server refuses to queue, and errors of ComfyUI's own nodes, are tallied and not counted.

Left out: ComfyUI unwraps the literal {"__value__": [...]} before any node runs, and some of these kill its worker
thread in graphs of core nodes alone.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import websocket

from omnivoice import errors
from omnivoice.errors import InputError
from tests.fuzz.campaign import MAX_CPU_SECONDS, MAX_GROWTH_MIB, Campaign, Run
from tests.fuzz.forged_graphs import COMMON, OWN, Forger
from tests.fuzz.forged_values import names
from tests.fuzz.watched_server import CANARY, TOKEN, WatchedServer

OURS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
OURS |= {"NoTakeError", "PauseError", "ForeignStateError"}  # of other modules
OURS.add("ExecutionBlocked")  # a preview that needs a model, with the message that says so
PATIENCE_SECONDS, WEDGED_SECONDS = 4.0, 120.0  # until a prompt is cancelled, and until the server counts as stuck
CANARY_EVERY = 20  # prompts
CANARY_PROMPT = {
    **{key: COMMON[key] for key in ("load", "settings", "design")},
    "speak": {
        "class_type": "OmniVoiceSynthesize",
        "inputs": {
            "model": ["load", 0],
            "text": "The next prompt works.",
            "seed": 7,
            "preset": "draft",
            "settings": ["settings", 0],
            "design": ["design", 0],
        },
    },
    "digest": {"class_type": "FuzzDigest", "inputs": {"source": ["speak", 0]}},
}


@dataclass
class Outcome:
    """How a prompt ended. node_seconds: processor time of the node that ran last; deaf_seconds: since Cancel."""

    ended: str = ""
    data: dict = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    node: str = ""
    node_seconds: float = 0.0
    deaf_seconds: float = 0.0


def attack(run: Run) -> None:
    """One worker's share, on a server of its own."""
    server = WatchedServer(run.folder)
    try:
        _Attack(run, server).go()
    finally:
        server.stop()


class _Attack:
    def __init__(self, run: Run, server: WatchedServer):
        self.run, self.server, self.comfy = run, server, server.comfy
        voice = {"class_type": "OmniVoiceSaveVoice", "inputs": {"voice": ["voice", 0], "name": "fuzz"}}
        self._outcome(self.comfy.submit({**COMMON, "keep": voice}), WEDGED_SECONDS, spoil=False)
        self.forger = Forger(run.rng, self.comfy.get("/object_info"), server.outside)
        self.names = [name for name in names(server.outside) if isinstance(name, str)]
        self.paths = [str(server.base), str(server.home), str(self.comfy.tree), "/root", "/home/"]
        self.digest = ""

    def go(self) -> None:
        self._canary("at the start")
        self.server.new_events()  # what happens once: ComfyUI's start
        stamps = self.server.stamps()
        while self.run.more():
            if self.run.inputs % CANARY_EVERY == CANARY_EVERY - 1:
                self._canary(f"after {self.run.inputs} prompts")
            self._between()
            self._one()
        self._canary("at the end")
        for path in sorted({*stamps.items()} ^ {*self.server.stamps().items()})[:20]:
            self.run.finding(path[0], "a file outside the folders to save in has changed", str(path))
        for told in ("Exception in thread", "Segmentation fault", "Fatal Python error"):
            if told in self.comfy.log_text():
                self.run.finding(told, f"{told} in the server's log")
        if any(word in json.dumps(self.comfy.get("/history?max_items=64")) for word in (CANARY, TOKEN)):
            self.run.finding("history", "the history holds a secret")

    def _one(self) -> None:
        """Forge a prompt, run it, and judge how it ended."""
        prompt = self.forger.prompt()
        body = json.dumps(prompt)
        status, answer = self.comfy.request("/prompt", {"prompt": prompt, "client_id": self.comfy.client})
        if status != 200:
            self._not_queued(status, answer.decode("utf-8", "replace"), body)
            return
        self.server.new_peak_mib()
        cancel = self.run.rng.uniform(0, 0.3) if self.run.rng.random() < 0.05 else None
        spoil = self.run.rng.random() < 0.02
        outcome = self._outcome(json.loads(answer)["prompt_id"], cancel, spoil=spoil)
        for event in self.server.new_events():
            self.run.finding(body, event.split("'")[0], event)
        self._judge(outcome, body)

    def _not_queued(self, status: int, answer: str, body: str) -> None:
        self.run.tally("not queued")
        self._check_text(answer, body, paths=False)
        if status != 400:
            self.run.finding(body, f"HTTP {status} for a prompt", answer[:3000])
            return
        for node in json.loads(answer).get("node_errors", {}).values():
            wrong = [one for one in node["errors"] if one["type"] == "exception_during_validation"]
            if wrong and node["class_type"].startswith(OWN):
                kind = wrong[0]["extra_info"].get("exception_type")
                self.run.finding(body, f"{kind} while {node['class_type']} is validated", json.dumps(wrong[0])[:3000])

    def _outcome(self, prompt_id: str, cancel: float | None, *, spoil: bool) -> Outcome:
        """Return how a prompt ends; it is cancelled after `cancel` seconds, or when it takes too long."""
        found, socket = Outcome(), self.comfy.socket
        limit, cancelled, node_start = time.monotonic() + (cancel or PATIENCE_SECONDS), None, self.server.cpu_seconds()
        while found.ended == "":
            socket.settimeout(max(0.001, limit - time.monotonic()))
            try:
                message = socket.recv()
            except websocket.WebSocketTimeoutException:
                if cancelled is not None:
                    raise RuntimeError(f"the queue is stuck in {found.node}: {self.comfy.log_text()[-2000:]}") from None
                self.comfy.interrupt()
                self.run.tally("cancelled early" if cancel else "cancelled when slow")
                cancelled, limit = self.server.cpu_seconds(), time.monotonic() + WEDGED_SECONDS
                continue
            event = json.loads(message) if isinstance(message, str) else {}
            data = event.get("data", {})
            if data.get("prompt_id") != prompt_id:
                continue
            if event["type"] == "executing" and data.get("node"):
                found.node, node_start = data["node"], self.server.cpu_seconds()
                if spoil:
                    self._spoil()
            elif event["type"] == "executed":
                found.texts += [str(one) for one in (data.get("output") or {}).get("text", ())]
            elif event["type"] in ("execution_success", "execution_error", "execution_interrupted"):
                found.ended, found.data = event["type"], data
        now = self.server.cpu_seconds()
        found.node_seconds, found.deaf_seconds = now - node_start, now - cancelled if cancelled is not None else 0.0
        return found

    def _judge(self, outcome: Outcome, body: str) -> None:
        data = outcome.data
        kind, node = data.get("exception_type", "").rpartition(".")[2], data.get("node_type") or ""
        prompt = json.loads(body)
        ran = prompt.get(outcome.node, {}).get("class_type", "")
        self._check_text(data.get("exception_message", ""), body, paths=True)
        self._check_text("\n".join(outcome.texts), body, paths=True)
        self._check_text(json.dumps(data, default=str), body, paths=False)
        if self.run.timed and ran.startswith(OWN) and outcome.deaf_seconds > MAX_CPU_SECONDS:
            self.run.finding(body, f"{ran} does not hear Cancel", f"{outcome.deaf_seconds:.1f} s")
        if outcome.ended == "execution_error" and not node.startswith(OWN) and kind not in OURS:
            self.run.tally("errors of core nodes")
            return
        with self.run.input(body):
            self.run.tally({"execution_interrupted": "interrupted"}.get(outcome.ended, outcome.ended))
            if outcome.ended == "execution_error":
                self._judge_error(outcome, kind, node, body)
                raise InputError(data["exception_message"])

    def _judge_error(self, outcome: Outcome, kind: str, node: str, body: str) -> None:
        details = json.dumps({key: outcome.data.get(key) for key in ("exception_message", "traceback")}, indent=1)
        if kind not in OURS:
            self.run.finding(body, f"{kind} in {node}", details)
        if self.run.timed and outcome.node_seconds > MAX_CPU_SECONDS:
            self.run.finding(body, f"{node} refuses slowly", f"{outcome.node_seconds:.1f} s\n{details}")
        if (grown := self.server.new_peak_mib()) > MAX_GROWTH_MIB:
            self.run.finding(body, f"{node} refuses with much memory", f"{grown:.0f} MiB\n{details}")

    def _check_text(self, text: str, body: str, *, paths: bool) -> None:
        """Record a text that tells a secret, or a path of this machine that was not in the prompt."""
        for secret in (CANARY, TOKEN, *(self.paths if paths else ())):
            if secret in text and secret not in body:
                self.run.finding(body, f"a text tells {secret}", text[:3000])

    def _between(self) -> None:
        """Do now and then what else a client can do between prompts: free the memory, and upload files."""
        chance = self.run.rng.random()
        if chance < 0.01:
            self.comfy.request("/free", {"unload_models": True, "free_memory": True})
            self.run.tally("freed")
        elif chance < 0.04:
            self._spoil()

    def _spoil(self) -> None:
        """Upload a file: under a hostile name, or over one that a prompt may be reading."""
        rng, data = self.run.rng, self.run.rng.randbytes(self.run.rng.choice((0, 7, 500)))
        self.run.tally("uploads")
        if rng.random() < 0.5:
            self.server.upload(f"clip{rng.randint(1, 8)}.{rng.choice(('wav', 'txt'))}", data, subfolder="hostile")
        else:
            kind, folder = (
                rng.choice(("input", "temp", "output")),
                rng.choice(("", "hostile", "omnivoice", *self.names)),
            )
            self.server.upload(rng.choice(self.names) or "x", data, subfolder=folder, kind=kind)

    def _canary(self, when: str) -> None:
        """Speak a sentence, which must always sound the same; raises RuntimeError if it fails."""
        if self.comfy.process.poll() is not None:
            raise RuntimeError(f"the server's process died {when}: {self.comfy.log_text()[-2000:]}")
        outcome = self._outcome(self.comfy.submit(CANARY_PROMPT), WEDGED_SECONDS, spoil=False)
        if outcome.ended != "execution_success" or len(outcome.texts) != 1:
            self.run.finding(when, "the prompt that checks the server fails", json.dumps(outcome.data)[:3000])
        self.digest = self.digest or outcome.texts[0]
        if outcome.texts[:1] != [self.digest]:
            self.run.finding(when, "the same prompt sounds different")


CAMPAIGN = Campaign(name="prompts", unit="prompts executed", goal=10_000, share=14, attack=attack, suite=0)
