"""The presets, and the sentence made of their figures."""

import pytest

from omnivoice.generate.presets import PRESETS, compared, shortcuts_of
from omnivoice.types import Sampling


def test_what_the_presets_are():
    made = {name: (p.steps, p.prefix_every, p.unconditional_every) for name, p in PRESETS.items()}
    assert made == {"quality": (32, 1, 1), "balanced": (16, 1, 1), "fast": (16, 8, 3), "draft": (8, 1, 1)}
    assert PRESETS["quality"].apply(Sampling()) == Sampling()


def test_a_preset_changes_steps_and_shortcuts_only():
    sampling = Sampling(steps=5, guidance=1.0, t_shift=0.3, unconditional_every=7, prefix_every=7)
    fast = Sampling(steps=16, guidance=1.0, t_shift=0.3, unconditional_every=3, prefix_every=8)
    assert PRESETS["fast"].apply(sampling) == fast
    assert PRESETS["draft"].apply(fast) == Sampling(steps=8, guidance=1.0, t_shift=0.3)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("balanced", ("16 steps", "errors +0.15 to +0.20", "similarity -0.001 to -0.006", "UTMOS +0.01 to -0.11")),
        ("draft", ("8 steps", "errors +0.41 to +0.74", "similarity -0.016 to -0.025", "UTMOS -0.26 to -0.39")),
        ("fast", ("16 steps, prefix recomputed every 8", "every 3", "-0.33", "+0.001", "+0.01", "MLX")),
    ],
)
def test_the_differences_from_32_steps(name, facts):
    assert all(fact in compared(name) for fact in facts)


def test_exact_presets_name_no_shortcut():
    assert [name for name, preset in PRESETS.items() if shortcuts_of(preset)] == ["fast"]


def test_the_documentation_has_the_same_figures(root):
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    for name, preset in PRESETS.items():
        (row,) = (line for line in lines if line.startswith(f"| {name}"))
        figures = preset.figures
        errors = " / ".join(f"{value:.2f}" for value in figures.errors)
        similarity = " / ".join(f"{value:.3f}" for value in figures.similarity)
        utmos = " / ".join(f"{value:.2f}" for value in figures.utmos)
        assert row.endswith(f"| {errors} | {similarity} | {utmos} |") and str(preset.steps) in row
