"""Text tables of at most 100 ASCII columns, and a picture of three panels that shows how the cost grows.

Only the picture needs matplotlib. It is drawn in memory, without a display.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

from benchmarks.measure import CodecTime, Point, PresetTime, Roofline, Spread, StepTime, Worth
from omnivoice.errors import InputError

WIDTH = 100
NO_MATPLOTLIB = "--plot needs matplotlib: pip install matplotlib"
PANELS = {
    "audio": ("audio (s)", "computing per audio, 32 steps (s/s)", "Length: 5 s reference"),
    "batch": ("items of 5 s, 5 s reference each", "one step of the whole batch (s)", "Batch"),
    "reference": ("reference (s)", "one step (s)", "Reference: 5 s of audio"),
}


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with the first column aligned left and the others aligned right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = []
    for first, *others in (header, ["-" * width for width in widths], *rows):
        lines.append("  ".join([first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:]))]).rstrip())
    return "\n".join(lines)


def spread(value: Spread, digits: int = 0) -> str:
    """Return a spread as "1234 (1200-1300)"."""
    return f"{value.median:.{digits}f} ({value.least:.{digits}f}-{value.largest:.{digits}f})"


def size(value: int | None) -> str:
    """Return bytes as GB of 10^9 bytes, or "n/a"."""
    return "n/a" if value is None else f"{value / 1e9:.2f} GB"


def steps_table(rows: Sequence[StepTime]) -> str:
    """Return a table with one line per case."""
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
    """Return a table with one line per speed-up that was switched off."""
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


def presets_table(rows: Sequence[PresetTime]) -> str:
    """Return a table with one line per preset."""
    header = ("preset", "s (min-max)", f"times as fast as {rows[0].name} (min-max)")
    return table(header, [(r.name, spread(r.seconds, 2), spread(r.speedup, 2)) for r in rows])


def codec_table(rows: Sequence[CodecTime]) -> str:
    """Return the table of the encoder and the decoder."""
    return table(("codec", "s (min-max)", "memory"), [(r.name, spread(r.seconds, 3), size(r.peak_bytes)) for r in rows])


def roofline_line(roofline: Roofline) -> str:
    """Return the rates of the matrix products by library, and the share of the best that a step reaches."""
    products = ", ".join(f"{name} {rate:.0f}" for name, rate in roofline.products.items())
    return f"GFLOP/s: matrix products {products}; a clone's step {roofline.step:.0f} ({roofline.share:.0%} of the best)"


def growth_table(growth: Mapping[str, Sequence[Point]]) -> str:
    """Return a table with one line per point."""
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
    """Raise InputError, which says how to install matplotlib, if it is missing."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(NO_MATPLOTLIB) from error


def draw(growth: Mapping[str, Sequence[Point]], title: str) -> bytes:
    """Return the picture of three panels as a PNG file's bytes."""
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
