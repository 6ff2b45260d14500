"""The Download node: a hub on the loopback address, the licence, progress, Cancel, and Load OmniVoice afterwards."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "audio_tokenizer/config.json",
    "audio_tokenizer/model.safetensors",
)


@pytest.fixture
def node(pack: SimpleNamespace, nodes, hub, published: dict, checkpoint: Path, monkeypatch: pytest.MonkeyPatch):
    """The node, with the tiny checkpoint published on the hub."""
    hub.files.update({path: (checkpoint / path).read_bytes() for path in FILES})
    published["models"]["OmniVoice"]["files"] = [
        {"path": path, "size": len(hub.files[path]), "sha256": hashlib.sha256(hub.files[path]).hexdigest()}
        for path in FILES
    ]
    engine = pack.host.download.download_model.__globals__
    monkeypatch.setitem(engine, "load_table", lambda path: published)
    return nodes["OmniVoiceDownload"]


def run(node, model: object = "OmniVoice", accept_licence: object = True) -> tuple[str, str]:
    return node.execute(model=model, accept_licence=accept_licence).values


def test_the_menu_is_the_pinned_list_and_there_is_no_other_input(nodes) -> None:
    schema = nodes["OmniVoiceDownload"].define_schema()
    assert [(i.id, i.kind, i.default) for i in schema.inputs] == [
        ("model", "COMBO", "OmniVoice"),
        ("accept_licence", "BOOLEAN", False),
    ]
    assert schema.inputs[0].options == ["OmniVoice"] and schema.is_output_node
    for shown in (schema.description, schema.inputs[0].tooltip, schema.inputs[1].tooltip):
        assert "CC-BY-NC" in shown
    assert "k2-fsa/OmniVoice, 3.3 GB" in schema.inputs[0].tooltip


def test_download_then_load(node, nodes, hub, host) -> None:
    name, report = run(node)
    assert name == "OmniVoice"
    assert {path: (host.folder / name / path).read_bytes() for path in FILES} == {p: hub.files[p] for p in FILES}
    for part in (
        "k2-fsa/OmniVoice at cccccccccccc",
        "WEIGHTS CC-BY-NC (no commercial use)",
        "config.json: downloaded",
        "ComfyUI's models/omnivoice/OmniVoice",
    ):
        assert part in report
    assert str(host.folder) not in report
    done, total = host.progress[-1]
    assert done == total == sum(len(hub.files[path]) for path in FILES)
    assert len(host.progress) < 1_500
    assert nodes["LoadOmniVoice"].execute(model_name=name).values[0].engine


def test_again_without_network(node, hub, host, monkeypatch: pytest.MonkeyPatch) -> None:
    run(node)
    hub.seen.clear()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert run(node)[1].count("already here") == len(FILES) and hub.seen == []


@pytest.mark.parametrize("accepted", [False, None, "true", 1, "false", []], ids=repr)
def test_the_licence_must_be_accepted(node, hub, host, accepted: object) -> None:
    with pytest.raises(ValueError, match=r"^accept_licence must be on before anything is downloaded.*WEIGHTS CC-BY-NC"):
        run(node, accept_licence=accepted)
    assert hub.seen == [] and not host.folder.exists()


def test_the_licence_is_asked_for_at_validation(node) -> None:
    assert "accept_licence must be on" in node.validate_inputs(accept_licence=False)
    assert node.validate_inputs(accept_licence=True) is True and node.validate_inputs(accept_licence=None) is True


@pytest.mark.parametrize(
    "name", ["", "k2-fsa/OmniVoice", "https://x/y", "../x", "OmniVoice/..", None, 3, ["OmniVoice"]]
)
def test_nothing_else_can_be_named(node, hub, host, name: object) -> None:
    with pytest.raises(ValueError, match="model must be one of OmniVoice, got"):
        run(node, model=name)
    assert hub.seen == [] and not host.folder.exists()


def test_cancel_and_resume(node, pack, hub, host, published: dict, interrupt: type[BaseException], monkeypatch) -> None:
    """Cancelled while the server sends nothing more: ComfyUI's own exception comes out, and what came is kept."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1_000)
    downloads = pack.host.download.download_model.__globals__["download_file"].__globals__
    monkeypatch.setitem(downloads, "_TICK_SECONDS", 0.005)
    published["models"]["OmniVoice"]["files"].sort(key=lambda file: -file["size"])
    host.interrupt_after, hub.faults = 1, [("stall", 50_500)]
    with pytest.raises(interrupt) as caught:
        run(node)
    assert caught.value.__cause__ is None
    (part,) = [path for path in host.folder.rglob("*") if path.name.endswith(".part")]
    size, before = part.stat().st_size, len(hub.seen)
    name = part.relative_to(host.folder / "OmniVoice").as_posix().removesuffix(".part")
    assert part.read_bytes() == hub.files[name][:size]
    host.interrupt_after = None
    run(node)
    path, asked, _ = hub.seen[before]
    assert (path, asked) == (hub.prefix + name, f"bytes={size}-") and size > 0
    assert not [path for path in host.folder.rglob("*") if path.name.endswith(".part") or path.name == ".cache"]


def test_without_huggingface_hub(node, pack, hub, host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(pack.engine.FileError, match="huggingface_hub is not installed: run `pip install"):
        run(node)
    assert hub.seen == []


def test_offline(node, pack, hub, host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    downloads = pack.host.download.download_model.__globals__["download_file"].__globals__
    monkeypatch.setitem(downloads, "WAIT_SECONDS", 0.0)
    with pytest.raises(pack.engine.FileError) as caught:
        run(node)
    for part in (
        "config.json could not be downloaded",
        "by hand, open https://huggingface.co/k2-fsa/OmniVoice/tree/ccc",
        "ComfyUI's models/omnivoice/OmniVoice",
        "HF_ENDPOINT",
    ):
        assert part in str(caught.value)
    assert str(host.folder) not in str(caught.value)


def test_a_model_in_another_place_is_found(node, hub, host, pack, tmp_path: Path) -> None:
    run(node)
    extra = tmp_path / "extra"
    host.table["omnivoice"][0].insert(0, str(extra))
    hub.seen.clear()
    assert "already here" in run(node)[1] and hub.seen == [] and not extra.exists()


def test_new_models_go_to_the_first_place(node, host, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    host.table["omnivoice"][0].insert(0, str(extra))
    run(node)
    assert (extra / "OmniVoice" / "config.json").is_file() and not host.folder.exists()


def test_somebodys_own_model_of_that_name_stays(node, pack, hub, host) -> None:
    (host.folder / "OmniVoice").mkdir(parents=True)
    mine = json.dumps({"mine": True})
    (host.folder / "OmniVoice" / "config.json").write_text(mine)
    with pytest.raises(pack.engine.FileError, match=r"^config\.json in ComfyUI's models/omnivoice/OmniVoice differs"):
        run(node)
    assert (host.folder / "OmniVoice" / "config.json").read_text() == mine and hub.seen == []
