"""How close the lower precisions are to float32, with the demo voice; docs/speed.md has measurements on more text."""

from pathlib import Path

import pytest

from benchmarks.agreement import main, measure

DEMO = Path(__file__).resolve().parents[2] / "demo_voice" / "demo_voice.safetensors"
BARS = {
    "CPU, bf16": 96.0,
    "GPU, fp16": 99.0,
    "GPU, bf16": 94.0,
    "GPU, fp32": 99.9,
    "GPU, fp16 with weights in fp8": 82.0,
    "GPU, fp16 with weights in int8": 94.0,
}


def test_half_precisions_predict_nearly_the_same_tokens():
    found = {
        name: (float(share), int(cells.replace(",", "")))
        for name, share, cells in measure(DEMO, ["The weather is beautiful today."], 7)
    }
    assert found.keys() == BARS.keys()
    for name, (share, cells) in found.items():
        assert cells > 500 and share >= BARS[name], (name, share, cells)


def test_command_prints_a_row_for_each_precision(checkpoint, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("\nHello.\n\nNot spoken.\n", encoding="utf-8")
    assert main([str(checkpoint), str(texts), "--lines", "1", "--steps", "2"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [name for name in BARS if any(row.startswith(name) for row in rows)] == list(BARS)
    with pytest.raises(SystemExit):
        main([str(checkpoint)])
