"""A long text inside ComfyUI: parts kept in output/omnivoice/long, progress, Cancel, and parts to hear meanwhile.

Each finished part goes to disk at once, so after a Cancel or a crash the next run makes only what is missing. A part is
also written to ComfyUI's temp folder, and the browser learns its name from the message with which ComfyUI announces
results (`executed`); web/long_text.js plays the parts one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import comfy.model_management as mm
import comfy.utils
import folder_paths
import torch
from comfy_execution.utils import get_executing_context
from server import PromptServer
from torch import Tensor

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.errors import InputError
from ...omnivoice.intake.audio_files import write_wav
from ...omnivoice.intake.folders import check_writable, make_folder
from ...omnivoice.intake.paths import check_file_name
from ...omnivoice.productions.keys import with_retries
from ...omnivoice.productions.long import MadePart, Progress, parts_at_once, samples_of, speak_long
from ...omnivoice.productions.long_plan import FIRST_SECONDS, LongPlan, plan_long
from ...omnivoice.productions.long_times import long_timings, timed_parts
from ...omnivoice.productions.parts import PartStore
from ...omnivoice.productions.takes import SpeakWithRetries
from ...omnivoice.productions.timings import TimedLine
from ...omnivoice.train.trainer import clock
from ...omnivoice.types import GenerationPlan, GenerationRequest, Speech, Waveform
from . import folders, models, progress, speech

FOLDER = "omnivoice/long"  # in output/
HEARD = "omnivoice_long"  # in temp/, and the key of the message
_UNITS = 100  # of the progress bar, for each part


@dataclass(frozen=True, eq=False)
class SpokenText:
    """A long text that was spoken. place: of its parts, below ComfyUI's folder. others: (number, bytes) of parts there
    that belong to something else. heard: for the browser, the files of all parts."""

    long: LongPlan
    made: Sequence[MadePart]
    waveform: Waveform
    lines: Sequence[TimedLine]
    timings: str
    warnings: Sequence[str]
    place: str
    others: tuple[int, int]
    heard: dict[str, list[object]]


def check_name(name: object) -> str:
    """Return the name of a long text's folder; raises InputError."""
    try:
        return check_file_name(name)
    except InputError as error:
        raise InputError(f"name is the name of a folder in output/{FOLDER}: {error}") from None


def speak(
    model: models.LoadedModel, request: GenerationRequest, name: str, retries: int, node_id: object
) -> SpokenText:
    """Make the parts that are missing in the folder `name` and join them; raises ComfyUI's interrupt after Cancel.

    retries: how often a part with a fault is spoken again.
    """
    long = plan_long(replace(request, first_seconds=FIRST_SECONDS), model.engine.plan, retries=retries)
    root = Path(folder_paths.get_output_directory()) / FOLDER
    folders.check_inside(root / name, root, "name", name)
    store = PartStore(root / name)
    run = _Run(model, store.folder, len(long.parts), node_id)
    speaking, identity = SpeakWithRetries(run.speak, retries), with_retries(model.identity, retries)
    together = parts_at_once(model.lm.load_device)
    made = speak_long(long, speaking, store, model=identity, on_part=run.on_part, max_batch=together)
    waveform = _whole(made, store, long.tail)
    lines = timed_parts(made, store, model.engine.rules)
    return SpokenText(
        long=long,
        made=made,
        waveform=waveform,
        lines=lines,
        timings=long_timings(long, made, lines),
        warnings=(*long.warnings, *speaking.reports),
        place=f"output/{FOLDER}/{name}",
        others=store.others(),
        heard=run.heard.message(0),
    )


def _whole(made: Sequence[MadePart], store: PartStore, tail: int) -> Waveform:
    """Return the recording [1, N]. Besides it, one part is in memory."""
    whole, end = torch.empty(1, made[-1].end + tail), 0
    for piece in samples_of(made, store, tail=tail):
        torch.mul(piece, 1 / 32768, out=whole[0, end : end + len(piece)])
        end += len(piece)
    return Waveform(whole, SAMPLE_RATE)


class _Run:
    """Speaks parts, shows how far it has come, and hands each part to the browser."""

    def __init__(self, model: models.LoadedModel, folder: Path, total: int, node_id: object) -> None:
        self.model, self.total, self.done, self.units, self.left = model, total, 0, 0, 0.0
        self.folder, self.is_writable = folder, False
        self.bar, self.text = comfy.utils.ProgressBar(total * _UNITS), progress.ProgressText(node_id)
        self.heard = _Heard(node_id)

    def speak(self, plans: Sequence[GenerationPlan], /) -> list[Speech]:
        """Speak a batch of parts; raises FileError before the first if parts cannot be kept."""
        if not self.is_writable:
            check_writable(self.folder)
            self.is_writable = True

        def on_step(done: int, total: int) -> None:
            self._show(len(plans) * _UNITS * done // total)

        return speech.run_plans(self.model, plans, on_step=on_step)

    def on_part(self, part: MadePart, samples: Tensor, state: Progress) -> None:
        """Note a finished part."""
        self.done, self.left = state.parts, state.seconds_left
        self._show(0)
        self.heard.add(part, samples)

    def _show(self, units: int) -> None:
        mm.throw_exception_if_processing_interrupted()
        self.units = max(self.units, min(self.done * _UNITS + units, self.total * _UNITS))  # never goes back
        self.bar.update_absolute(self.units, self.total * _UNITS)
        left = f", {clock(round(self.left))} left" if self.left else ""
        self.text.update(f"{self.done} of {self.total} parts{left}")


class _Heard:
    """The finished parts as files in ComfyUI's temp folder, which it empties when it starts."""

    def __init__(self, node_id: object) -> None:
        self.node_id, self.names = node_id, list[object]()

    def add(self, part: MadePart, samples: Tensor) -> None:
        """Write a part [N] int16, with the silence before it, and tell the browser."""
        silence = len(samples) - (part.end - part.start)
        path = make_folder(Path(folder_paths.get_temp_directory()) / HEARD) / f"{part.key}-{silence}.wav"
        if not path.exists():
            write_wav(path, Waveform(samples[None] / 32768, SAMPLE_RATE))
        self.names.append(path.name)
        server, context = getattr(PromptServer, "instance", None), get_executing_context()
        if server is None or server.client_id is None or self.node_id is None or context is None:
            return
        node, output = str(self.node_id), self.message(len(self.names) - 1)
        data = {"node": node, "display_node": node, "output": output, "prompt_id": context.prompt_id}
        server.send_sync("executed", data, server.client_id)

    def message(self, first: int) -> dict[str, list[object]]:
        """Return the parts from `first` on."""
        return {HEARD: self.names[first:], f"{HEARD}_first": [first]}
