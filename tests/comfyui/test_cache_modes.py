"""Prompts with one model and different LoRAs, under each of ComfyUI's caches: they sound as each does alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.comfyui.headless import Comfy
from tests.comfyui.test_lora_server import ASSETS, heard, prompt, sounds

USES = {
    "base": (),
    "saved": (("saved", 1.0),),
    "llm": (("llm_only", 1.0),),
    "both": (("saved", 1.0), ("llm_only", 0.5)),
}
ORDERS = ("saved llm", "llm saved", "saved llm saved", "base saved base", "both llm both base")


def add_loras(base: Path) -> None:
    for name in ("saved", "llm_only"):
        shutil.copytree(ASSETS / name, base / "models" / "loras" / name)


@pytest.mark.parametrize("options", [(), ("--cache-none",), ("--cache-lru", "1")], ids=" ".join)
def test_prompts_with_different_loras(comfy_factory: Callable[..., Comfy], options: tuple[str, ...]) -> None:
    """The prompts of an order wait in the queue together, so each finds the weights as the one before left them. Before
    each order ComfyUI forgets its results: only what an order itself makes twice may come from the cache."""
    server = comfy_factory(prepare=add_loras, options=options)
    graphs = {tag: prompt(*use, seed=7, tag=tag) for tag, use in USES.items()}
    alone = {}
    for nodes in graphs.values():
        server.request("/free", {"unload_models": True, "free_memory": True})
        alone |= sounds(server, nodes)
    assert alone.keys() == USES.keys() and len(set(alone.values())) == len(USES)
    for order in ORDERS:
        server.request("/free", {"unload_models": False, "free_memory": True})
        waiting = [(tag, server.submit(graphs[tag])) for tag in order.split()]
        assert [heard(server, one)[tag] for tag, one in waiting] == [alone[tag] for tag in order.split()], order
