"""`merge`: what it writes, what it says, and what it refuses."""

import pytest
import torch
from safetensors.torch import load_file

from omnivoice.__main__ import main
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.lora_write import write_lora


@pytest.fixture
def loras(root):
    return [root / "tests" / "assets" / "lora" / name for name in ("plain", "llm_only")]


def merge(checkpoint, loras, out, *options):
    named = [part for lora in loras for part in ("--lora", str(lora))]
    return main(["merge", "--model", str(checkpoint), *named, "-o", str(out), *options])


def test_a_folder(checkpoint, loras, tmp_path, capsys):
    out = tmp_path / "merged"
    assert merge(checkpoint, loras, out, "--strength", "0.5", "--strength", "-1", "--dtype", "fp32") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"wrote {out} (4.76 MB in 7 files)"
    assert said[1:] == [
        "  with 21 LoRA A/B pairs (rank 4, scale 2) of plain at strength 0.5",
        "  with 9 LoRA A/B pairs (rank 3, scale 2) of llm_only at strength -1",
    ]
    files = locate_checkpoint(checkpoint)
    both = [(read_lora(path, files.lm_config), strength) for path, strength in zip(loras, (0.5, -1))]
    export_folder(files, tmp_path / "expected", dtype=torch.float32, loras=both)
    assert (out / "model.safetensors").read_bytes() == (tmp_path / "expected" / "model.safetensors").read_bytes()


def test_one_file(checkpoint, loras, tmp_path, capsys):
    out = tmp_path / "merged.safetensors"
    assert merge(checkpoint, loras[:1], out) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out} (2.84 MB in 1 file)\n  with 21 LoRA A/B pairs")
    files = locate_checkpoint(checkpoint)
    wanted = export_checkpoint(
        files, tmp_path / "wanted.safetensors", loras=[(read_lora(loras[0], files.lm_config), 1.0)]
    )
    assert out.read_bytes() == wanted.read_bytes()
    assert merge(checkpoint, loras[:1], out) == 1 and "exists already" in capsys.readouterr().err
    assert merge(checkpoint, loras, out, "--overwrite") == 0
    assert not torch.equal(
        load_file(out)["llm.layers.0.mlp.gate_proj.weight"], load_file(wanted)["llm.layers.0.mlp.gate_proj.weight"]
    )
    assert main(["info", "--model", str(out)]) == 0


def test_the_notes_of_consent_are_printed(checkpoint, loras, tmp_path, capsys):
    lora = read_lora(loras[0], locate_checkpoint(checkpoint).lm_config)
    noted = write_lora(tmp_path / "noted.safetensors", lora, {"consent": "permission: Anna, 2 May"})
    assert merge(checkpoint, [noted, loras[1]], tmp_path / "m") == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.endswith(" at strength 1; consent: permission: Anna, 2 May") and second.endswith(" at strength 1")


def test_refusals(checkpoint, loras, tmp_path, capsys):
    assert merge(checkpoint, loras, tmp_path / "m", "--strength", "1") == 1
    assert "--strength must be given once for each of the 2 --lora, or not at all, got 1" in capsys.readouterr().err
    assert merge(checkpoint, loras[:1], tmp_path / "m", "--strength", "nan") == 1
    assert "strength must be -10 to 10, got nan" in capsys.readouterr().err
    assert merge(checkpoint, [checkpoint], tmp_path / "m") == 1
    assert "is not a PEFT adapter" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("x")
    assert merge(checkpoint, loras[:1], tmp_path / "full", "--overwrite") == 1
    assert "exists and holds 1 entries" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["merge", "--model", str(checkpoint), "-o", str(tmp_path / "m")])
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
