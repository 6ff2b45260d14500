"""The presets, and the sentence made of their figures."""

from omnivoice.generate.presets import PRESETS, compared
from omnivoice.types import Sampling


def test_quality_is_the_default_and_each_preset_halves_the_steps():
    assert {name: preset.steps for name, preset in PRESETS.items()} == {"quality": 32, "balanced": 16, "draft": 8}
    assert PRESETS["quality"].steps == Sampling().steps


def test_changes_are_told_from_the_smallest_to_the_largest():
    assert compared("balanced") == (
        "16 steps: word errors +0.15 to +0.20 points, speaker similarity -0.001 to -0.006, UTMOS +0.01 to -0.11"
    )
    assert compared("draft") == (
        "8 steps: word errors +0.41 to +0.74 points, speaker similarity -0.016 to -0.025, UTMOS -0.26 to -0.39"
    )


def test_the_readme_has_the_same_figures(root):
    readme = (root / "README.md").read_text(encoding="utf-8")
    for name, preset in PRESETS.items():
        row = next(line for line in readme.splitlines() if line.startswith(f"| {name}"))
        errors = " / ".join(f"{value:.2f}" for value in preset.word_errors)
        similarity = " / ".join(f"{value:.3f}" for value in preset.similarity)
        utmos = " / ".join(f"{value:.2f}" for value in preset.utmos)
        assert row.endswith(f"| {preset.steps} | {errors} | {similarity} | {utmos} |")
