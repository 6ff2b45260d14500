"""A picture of audio: its waveform above its spectrogram, over one axis of seconds.

Columns are computed block by block, so the memory in addition to the audio does not depend on its length.
Pillow, which every ComfyUI has, writes the labels; it is imported when the first picture is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import comfy.model_management as mm
import torch
from torch import Tensor

from ...omnivoice.errors import AudioError, InputError
from ...omnivoice.intake.limits import GIB, check_choice, check_integer, shown_size
from ...omnivoice.types import Waveform

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

SCALES = ("mel", "linear")
NEEDS_PILLOW = "Audio Image needs the Python package Pillow, 10.1 or newer: run pip install -U pillow"
FLOOR_DB = -80.0  # what is drawn black, below the loudest point of the spectrogram
WINDOW_SECONDS = 0.04
MAX_IMAGE_BYTES = 2 * GIB
_BLOCK_ELEMENTS = 1 << 20
_QUIETEST = 1e-10  # power; digital silence stays black instead of becoming the loudest point
_BACKGROUND, _PANEL, _GRID, _TEXT = (24, 24, 28), (12, 12, 16), (52, 52, 60), (222, 222, 228)
_WAVE, _CLIPPED = (96, 178, 255), (255, 84, 84)
# From quiet to loud, evenly spaced: black, violet, magenta, orange, pale yellow (matplotlib's "magma").
_COLOURS = bytes.fromhex("000004 1c1044 4f127b 812581 b5367a e55064 fb8761 fec287 fcfdbf")
_SECONDS_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)
_MEL_TICKS_HZ = (100, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
_LINEAR_STEPS_HZ = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)


class Layout(NamedTuple):
    """Where things are in the picture, in pixels; the two panels share their columns."""

    width: int
    height: int
    font_size: int
    left: int
    columns: int
    wave_top: int
    wave_rows: int
    spectrum_top: int
    spectrum_rows: int


def _layout(width: int, height: int) -> Layout:
    font = max(10, min(width // 72, height // 34))
    rows = height - 5 * font
    wave_rows = (rows * 3 // 10) | 1  # odd, so that zero has a row
    return Layout(
        width, height, font, 5 * font, width - 6 * font, 2 * font, wave_rows, 3 * font + wave_rows, rows - wave_rows
    )


def draw(recordings: Sequence[Waveform], scale: object, width: object, height: object) -> Tensor:
    """Return a picture of each recording as ComfyUI's IMAGE, [B, height, width, 3] float32, 0-1."""
    scale = check_choice("scale", scale, SCALES)
    layout = _layout(
        check_integer("image_width", width, shown_as="width"), check_integer("image_height", height, shown_as="height")
    )
    size = 12 * layout.width * layout.height * len(recordings)
    if size > MAX_IMAGE_BYTES:
        raise InputError(
            f"{len(recordings)} images of {layout.width} x {layout.height} need {shown_size(size)}, at most "
            f"{shown_size(MAX_IMAGE_BYTES)} are allowed: make them smaller, or draw fewer"
        )
    if any(recording.samples.shape[1] == 0 for recording in recordings):
        raise AudioError("audio is empty: there is nothing to draw")
    return torch.stack([_picture(recording, scale, layout) for recording in recordings]).to(torch.float32) / 255


def _picture(recording: Waveform, scale: str, layout: Layout) -> Tensor:
    """Return one picture, [height, width, 3] uint8."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise InputError(NEEDS_PILLOW) from None
    low, high = envelope(recording.samples, layout.columns)
    peak = max(float(high.max()), -float(low.min()), 1e-4)
    pixels = torch.tensor(_BACKGROUND, dtype=torch.uint8).repeat(layout.height, layout.width, 1)
    panels = (
        (layout.wave_top, _wave_panel(low, high, peak, layout.wave_rows)),
        (layout.spectrum_top, _spectrum_panel(recording, scale, layout)),
    )
    for top, panel in panels:
        pixels[top : top + panel.shape[0], layout.left : layout.left + layout.columns] = panel
    image = Image.frombytes("RGB", (layout.width, layout.height), pixels.numpy().tobytes())
    _write_labels(ImageDraw.Draw(image), recording, peak, scale, layout)
    return torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(layout.height, layout.width, 3)


def envelope(samples: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """samples [C, N] -> lowest and highest sample of any channel in each column, [columns] each.

    Each column begins with the last sample of the one before it, so that the line is not broken.
    """
    N = samples.shape[1]
    low, high = torch.empty(columns), torch.empty(columns)
    for column in range(columns):
        part = samples[:, max(0, column * N // columns - 1) : max(1, (column + 1) * N // columns)]
        low[column], high[column] = part.amin(), part.amax()
    return low, high


def _wave_panel(low: Tensor, high: Tensor, peak: float, rows: int) -> Tensor:
    """Return the waveform, [rows, columns, 3] uint8; columns that reach full scale are red."""
    half = (rows - 1) / 2
    row = torch.arange(rows)[:, None]
    top, bottom = (half - high / peak * half).round(), (half - low / peak * half).round()
    inside = (row >= top) & (row <= bottom)
    ink = torch.where(((high >= 1) | (low <= -1))[:, None], torch.tensor(_CLIPPED), torch.tensor(_WAVE))
    return torch.where(inside[..., None], ink, torch.tensor(_PANEL)).to(torch.uint8)


def _spectrum_panel(recording: Waveform, scale: str, layout: Layout) -> Tensor:
    """Return the spectrogram, [rows, columns, 3] uint8, the highest frequency at the top."""
    power = spectrogram(recording, scale, layout.spectrum_rows, layout.columns).flip(0)
    level = 10 * (power.clamp(min=_QUIETEST) / power.amax().clamp(min=_QUIETEST)).log10()  # dB, 0 at the loudest
    colours = torch.tensor([*_COLOURS]).reshape(-1, 3).float()
    shade = (1 - level / FLOOR_DB).clamp(0, 1) * (len(colours) - 1)
    shade = torch.where(power > _QUIETEST, shade, 0.0)
    step = shade.long().clamp(max=len(colours) - 2)
    return torch.lerp(colours[step], colours[step + 1], (shade - step)[..., None]).to(torch.uint8)


def spectrogram(recording: Waveform, scale: str, rows: int, columns: int) -> Tensor:
    """Return the mean power of each band and column over all channels, [rows, columns], low frequencies first.

    A column holds as many windows of about 40 ms as it takes to see every sample of it, and at least one.
    """
    samples, rate = recording.samples, recording.sample_rate
    C, N = samples.shape
    window = 1 << math.ceil(math.log2(rate * WINDOW_SECONDS))
    bands = _bands(scale, rows, window, rate)
    taper = torch.hann_window(window)
    per_column = max(1, math.ceil(2 * N / (columns * window)))
    centres = (torch.arange(columns * per_column, dtype=torch.float64) + 0.5) * (N / (columns * per_column))
    first = centres.long().reshape(columns, per_column) - window // 2
    power = torch.zeros(rows, columns)
    block = max(1, _BLOCK_ELEMENTS // (C * per_column * window))
    for column in range(0, columns, block):
        mm.throw_exception_if_processing_interrupted()
        index = first[column : column + block, :, None] + torch.arange(window)  # [columns, per_column, window]
        inside = (index >= 0) & (index < N)
        pieces = samples[:, index.clamp(0, N - 1)] * inside * taper  # [C, columns, per_column, window]
        spectrum = torch.fft.rfft(pieces).abs().square().mean(dim=(0, 2))  # [columns, bins]
        power[:, column : column + block] = bands @ spectrum.T / taper.sum().square()
    return power


def _bands(scale: str, rows: int, window: int, rate: int) -> Tensor:
    """Return triangular filters, [rows, bins], each with a sum of 1; a narrow one interpolates between two bins."""
    to_position, to_hz = _axis(scale)
    edges = torch.linspace(0, to_position(rate / 2), rows + 2, dtype=torch.float64)
    hz = torch.tensor([to_hz(float(edge)) for edge in edges], dtype=torch.float64)
    centre, half_width = hz[1:-1, None], ((hz[2:] - hz[:-2]) / 2).clamp(min=rate / window)[:, None]
    bins = torch.arange(window // 2 + 1, dtype=torch.float64) * (rate / window)
    weights = (1 - (bins - centre).abs() / half_width).clamp(min=0)
    return (weights / weights.sum(dim=1, keepdim=True)).to(torch.float32)


def _axis(scale: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return the functions from Hz to a position on the frequency axis, and back."""
    if scale == "linear":
        return (lambda hz: hz), (lambda position: position)
    return (lambda hz: 2595 * math.log10(1 + hz / 700)), (lambda mel: 700 * (10 ** (mel / 2595) - 1))


def _write_labels(pen: ImageDraw.ImageDraw, recording: Waveform, peak: float, scale: str, layout: Layout) -> None:
    """Write the title, the axes and their ticks onto the picture."""
    font, gap = _font(layout.font_size), layout.font_size // 2
    right, bottom = layout.left + layout.columns, layout.spectrum_top + layout.spectrum_rows
    parts = _facts(recording, peak, scale)
    while len(parts) > 1 and pen.textlength(", ".join(parts), font=font) > layout.columns:
        parts.pop()
    pen.text((layout.left, gap), ", ".join(parts), fill=_TEXT, font=font, anchor="lt")
    for value, row in ((peak, 0), (0.0, layout.wave_rows // 2), (-peak, layout.wave_rows - 1)):
        pen.text((layout.left - gap, layout.wave_top + row), f"{value:.2g}", fill=_TEXT, font=font, anchor="rm")
    for hz in _frequency_ticks(recording.sample_rate, scale, layout):
        row = bottom - _frequency_row(hz, recording.sample_rate, scale, layout.spectrum_rows)
        pen.line((layout.left - gap // 2, row, layout.left, row), fill=_TEXT)
        label = f"{hz / 1000:g} kHz" if hz >= 1000 else f"{hz:g} Hz"
        pen.text((layout.left - gap, row), label, fill=_TEXT, font=font, anchor="rm")
    seconds = recording.samples.shape[1] / recording.sample_rate
    for tick in _even_ticks(seconds, max(1, layout.columns // (6 * layout.font_size)), _SECONDS_STEPS):
        column = layout.left + round(tick / seconds * layout.columns)
        for top, end in ((layout.wave_top + layout.wave_rows, layout.spectrum_top), (bottom, bottom + gap)):
            pen.line((column, top, column, end), fill=_TEXT if end > bottom else _GRID)
        label = _seconds_label(tick, seconds)
        half = pen.textlength(label, font=font) / 2
        if column + half <= right + layout.font_size:
            pen.text((column, bottom + gap + 2), label, fill=_TEXT, font=font, anchor="mt")


def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """Return Pillow's own font in that size, so that no font file is needed."""
    from PIL import ImageFont

    try:
        return ImageFont.load_default(size)
    except TypeError:  # Pillow before 10.1
        raise InputError(NEEDS_PILLOW) from None


def _facts(recording: Waveform, peak: float, scale: str) -> list[str]:
    """Return the parts of the title, the most important first."""
    C, N = recording.samples.shape
    seconds, rms = N / recording.sample_rate, float(torch.linalg.vector_norm(recording.samples)) / math.sqrt(C * N)
    length = f"{seconds:.2f} s" if seconds < 120 else _seconds_label(seconds, seconds)
    levels = [f"peak {_decibels(peak)}", f"RMS {_decibels(rms)}"]
    channels = {1: "mono", 2: "stereo"}.get(C, f"{C} channels")
    return [length, *levels, f"{recording.sample_rate} Hz", channels, f"{scale} spectrogram"]


def _decibels(level: float) -> str:
    return f"{20 * math.log10(level):.1f} dBFS" if level > 1e-4 else "below -80 dBFS"


def _frequency_row(hz: float, rate: int, scale: str, rows: int) -> int:
    to_position, _ = _axis(scale)
    return round(to_position(hz) / to_position(rate / 2) * rows)


def _frequency_ticks(rate: int, scale: str, layout: Layout) -> list[float]:
    """Return the frequencies to label, far enough from each other to be read."""
    if scale == "linear":
        return _even_ticks(rate / 2, layout.spectrum_rows // (2 * layout.font_size), _LINEAR_STEPS_HZ)
    ticks, last = list[float](), -math.inf
    for hz in (hz for hz in _MEL_TICKS_HZ if hz <= rate / 2):
        row = _frequency_row(hz, rate, scale, layout.spectrum_rows)
        if row - last >= 1.2 * layout.font_size:
            ticks.append(hz)
            last = row
    return ticks


def _even_ticks(end: float, most: int, steps: Sequence[float]) -> list[float]:
    """Return the multiples of a step from 0 to `end`: the first of `steps` that makes at most about `most`."""
    step = next((step for step in steps if end / step <= most), steps[-1])
    return [number * step for number in range(math.floor(end / step + 1e-9) + 1)]


def _seconds_label(tick: float, seconds: float) -> str:
    if seconds < 120:
        return f"{tick:.3g} s"
    hours, minutes = divmod(round(tick) // 60, 60)
    return f"{hours}:{minutes:02}:{round(tick) % 60:02}" if hours else f"{minutes}:{round(tick) % 60:02}"
