"""How `bench` shows its numbers: tables of at most 100 ASCII columns, and one picture of three panels.

The picture needs matplotlib, which nothing else here does; it is drawn in memory, without a display. Nothing is
measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

from ..errors import InputError
from .bench_measure import CodecTime, Point, Roofline, Spread, StepTime, Worth

WIDTH = 100
NO_MATPLOTLIB = "--plot needs matplotlib, the extra named bench: pip install matplotlib"
PANELS = {
    "audio": ("audio (s)", "computing per audio, 32 steps (s/s)", "Length: 5 s reference"),
    "batch": ("items of 5 s, 5 s reference each", "one step of the whole batch (s)", "Batch"),
    "reference": ("reference (s)", "one step (s)", "Reference: 5 s of audio"),
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below a header, columns as wide as their widest cell; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for first, *others in (header, ["-" * width for width in widths], *rows):
        lines.append("  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:]))]).rstrip())
    return "\n".join(lines)


def spread(value: Spread, digits: int = 0) -> str:
    """1234 (1200-1300)."""
    return f"{value.median:.{digits}f} ({value.least:.{digits}f}-{value.largest:.{digits}f})"


def size(value: int | None) -> str:
    """Bytes in GB of 10^9, or n/a."""
    return "n/a" if value is None else f"{value / 1e9:.2f} GB"


def steps_table(rows: Sequence[StepTime]) -> str:
    """One line per case."""
    header = ("case", "rows", "ms/step (min-max)", "RTF", "tokens/s", "GFLOP", "GFLOP/s", "memory")
    return table(
        header,
        [
            (
                r.case,
                f"{r.rows}",
                spread(r.milliseconds, 1),
                f"{r.real_time_factor:.3f}",
                f"{r.tokens_per_second:.0f}",
                f"{r.gflop:.1f}",
                f"{r.gflop_per_second:.0f}",
                size(r.peak_bytes),
            )
            for r in rows
        ],
    )


def speedups_table(rows: Sequence[Worth]) -> str:
    """One line per speed-up switched off."""
    header = ("switched off", "case", "on, ms/step", "off, ms/step", "off / on (min-max)", "tokens")
    return table(
        header,
        [
            (
                r.name,
                r.case,
                f"{r.on.median:.1f}",
                f"{r.off.median:.1f}",
                spread(r.ratio, 2),
                "equal" if r.equal else "DIFFER",
            )
            for r in rows
        ],
    )


def codec_table(rows: Sequence[CodecTime]) -> str:
    """Encoder and decoder."""
    return table(("codec", "s (min-max)", "memory"), [(r.name, spread(r.seconds, 3), size(r.peak_bytes)) for r in rows])


def roofline_line(roofline: Roofline) -> str:
    """The products by library, and what a step reaches of the better one."""
    products = ", ".join(f"{name} {rate:.0f}" for name, rate in roofline.products.items())
    return f"GFLOP/s: bare products {products}; a clone's step {roofline.step:.0f} ({roofline.share:.0%} of the best)"


def growth_table(growth: Mapping[str, Sequence[Point]]) -> str:
    """One line per point."""
    names = {"audio": "audio, s", "batch": "batch, items", "reference": "reference, s"}
    rows = [
        (
            names[axis],
            f"{p.x:g}",
            f"{p.seconds_per_step:.3f}",
            "" if p.real_time_factor is None else f"{p.real_time_factor:.3f}",
        )
        for axis, points in growth.items()
        for p in points
    ]
    return table(("growth", "size", "s/step", "RTF"), rows)


def require_matplotlib() -> None:
    """Raises InputError that says how to get it, before minutes of work are done."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(NO_MATPLOTLIB) from error


def draw(growth: Mapping[str, Sequence[Point]], title: str) -> bytes:
    """The three panels as a PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), dpi=120, layout="constrained")
    for axes, (axis, (across, up, name)) in zip(figure.subplots(1, len(PANELS)), PANELS.items()):
        values = [p.seconds_per_step if p.real_time_factor is None else p.real_time_factor for p in growth[axis]]
        axes.plot([p.x for p in growth[axis]], values, marker="o")
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_title(name, fontsize="medium")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", integer=True)
        axes.grid(True, alpha=0.3)
    figure.suptitle(title, fontsize="small")
    picture = BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
