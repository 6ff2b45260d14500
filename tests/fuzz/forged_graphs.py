"""Random prompts in ComfyUI's API form: legal graphs of the pack's nodes, with inputs that get what they do not expect.

Each begins with the same few nodes (a model, a recording, a voice ...). ComfyUI keeps their results while they stand
unchanged in every prompt, so a prompt mostly costs what its own nodes do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fuzz.forged_values import hostile, names

Prompt = dict[str, dict]
TIMINGS = (
    '{"format": "omnivoice timings", "version": 1, "seconds": 2.0, "lines": [{"text": "Good morning everyone",'
    ' "start": 0.1, "end": 1.9, "words": [{"text": "Good", "start": 0.1, "end": 0.5}]}]}'
)
SPOKEN = "Good morning everyone, thank you for coming today."
COMMON: Prompt = {
    "load": {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice"}},
    "clip": {"class_type": "LoadAudio", "inputs": {"audio": "omnivoice_reference.wav"}},
    "voice": {
        "class_type": "OmniVoiceReferenceAudio",
        "inputs": {"model": ["load", 0], "audio": ["clip", 0], "transcript": SPOKEN},
    },
    "design": {"class_type": "OmniVoiceVoiceDesignAttributes", "inputs": {"gender": "female"}},
    "settings": {"class_type": "OmniVoiceSettings", "inputs": {"steps": 1}},
    "dictionary": {"class_type": "OmniVoiceDictionary", "inputs": {"entries": "York = Yorrk"}},
    "dataset": {"class_type": "OmniVoiceDataset", "inputs": {"model": ["load", 0], "folder": "my_recordings"}},
    "training": {"class_type": "OmniVoiceTrainingSettings", "inputs": {"validation": 0.0, "batch_size": 1}},
    "timings": {"class_type": "PrimitiveString", "inputs": {"value": TIMINGS}},
    "latent": {"class_type": "EmptyLatentImage", "inputs": {"width": 16, "height": 16, "batch_size": 1}},
}
SOURCES = {
    "OMNIVOICE_MODEL": ("load",),
    "OMNIVOICE_VOICE": ("voice",),
    "OMNIVOICE_DESIGN": ("design",),
    "OMNIVOICE_SETTINGS": ("settings",),
    "OMNIVOICE_DICTIONARY": ("dictionary",),
    "OMNIVOICE_DATASET": ("dataset",),
    "OMNIVOICE_TRAINING_SETTINGS": ("training",),
    "AUDIO": ("clip",),
}
# Legal values that take little time; an input that is not here keeps its default.
QUICK: Mapping[str, Sequence[object]] = {
    "text": ("Hello there.", "One.\nTwo.", "Say [laughter] it.", "12 May 2026"),
    "script": ("Anna: Hi.\nPeter: Yes.", "Anna: One [pause 0.2s] two."),
    "subtitles": ("1\n00:00:00,000 --> 00:00:01,000\nHello.\n",),
    "entries": ("nginx = engine x", "# nothing", "York = Yorrk"),
    "transcript": (SPOKEN,),
    "new_transcript": (SPOKEN.replace("everyone", "everybody"), SPOKEN.replace("thank you", "thanks")),
    "folder": ("my_recordings", "hostile", "none (use the audio input)"),
    "lora_name": ("my_omnivoice_lora.safetensors",),
    "words": ("everyone", "thank you"),
    "preset": ("draft", "voice"),
    "quality": ("quick",),
    "seed": (0, 1, 2, 2**64 - 1),
    "speed": (1.0, 0.5, 2.0),
    "duration": (0.0, 0.5, 1.0),
    "steps": (1, 2),
    "rank": (1, 2),
    "takes": (1, 2),
    "take": (0, 1),
    "width": (256,),
    "height": (192,),
    "name": ("fuzz", "fuzz 2", "series/fuzz"),
    "run_name": ("fuzz", "fuzz 2"),
    "language": ("auto", "English", "German"),
    "language_code": ("en",),
    "split_lines": (False, True),
    "exact_length": (False, True),
    "overwrite": (False, True),
    "resume": (True, False),
}
OWN = ("OmniVoice", "LoadOmniVoice")
PRIMITIVES = ((bool, "PrimitiveBoolean"), (int, "PrimitiveInt"), (float, "PrimitiveFloat"), (str, "PrimitiveString"))
MAX_GROWN = 500  # entries of a growing list


class Forger:
    """Makes prompts for a server whose /object_info is `info`; see `names` for `outside`."""

    def __init__(self, rng: random.Random, info: Mapping[str, dict], outside: Path):
        self.rng, self.names = rng, names(outside)
        self.kinds = {kind: _inputs(node) for kind, node in info.items() if kind.startswith(OWN)}
        self.outputs = {kind: [str(one) for one in info[kind]["output"]] for kind in self.kinds}
        self.ends = {kind for kind in self.kinds if info[kind].get("output_node")}
        self.made: Prompt = {}

    def prompt(self) -> Prompt:
        """Return a new prompt, which ComfyUI may refuse to queue."""
        self.made = {key: {**node, "inputs": {**node["inputs"]}} for key, node in COMMON.items()}
        sources = {kind: [[key, 0] for key in keys] for kind, keys in SOURCES.items()}
        forged = []
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            kind = self.rng.choice([*self.kinds])
            key = self._add(kind, self._node(kind, sources))
            forged.append(key)
            for slot, output in enumerate(self.outputs[kind]):
                sources.setdefault(output, []).append([key, slot])
        for key in forged:
            slots = range(len(self.outputs[self.made[key]["class_type"]]))
            for slot in self.rng.sample(slots, min(2, len(slots))):
                self._add("FuzzSink", {"source": [key, slot]})
        return self.made

    def _add(self, kind: str, inputs: Mapping[str, object]) -> str:
        key = str(len(self.made))
        self.made[key] = {"class_type": kind, "inputs": {**inputs}}
        return key

    def _node(self, kind: str, sources: Mapping[str, list]) -> dict[str, object]:
        """Return the inputs of a node: legal ones, of which some are replaced."""
        rng, given = self.rng, {}
        for name, (types, options, required) in self.kinds[kind].items():
            if "AUTOGROW" in types:
                given |= self._grown(name, sources)
            elif required or name == "settings" or rng.random() < 0.4:
                value = self._legal(name, types, options, sources)
                if value is not None:
                    given[name] = value
        for name in rng.sample([*self.kinds[kind]], min(rng.choice((0, 0, 1, 1, 1, 2)), len(self.kinds[kind]))):
            types = self.kinds[kind][name][0]
            if "AUTOGROW" not in types:
                given[name] = self._forged(types.split(",")[0])
        return given

    def _legal(self, name: str, types: str, options: Mapping[str, object], sources: Mapping[str, list]) -> object:
        links = [
            link for one in types.split(",") for link in sources.get(one, ()) if one not in ("STRING", "FLOAT", "INT")
        ]
        if links:
            return self.rng.choice(links)
        if options.get("forceInput"):
            return ["timings", 0]
        menu = options.get("options")
        if isinstance(menu, list):
            quick = [value for value in QUICK.get(name, ()) if value in menu]
            return self.rng.choice(quick or menu)
        return self.rng.choice(QUICK[name]) if name in QUICK else options.get("default")

    def _grown(self, name: str, sources: Mapping[str, list]) -> dict[str, object]:
        """Return entries of a growing list: mostly a few legal ones, else far too many, or under other names."""
        rng, links = self.rng, [*sources["OMNIVOICE_VOICE"], *sources["OMNIVOICE_DESIGN"]]
        if rng.random() < 0.85:
            return {f"{name}.voice_{number}": rng.choice(links) for number in range(1, rng.randint(1, 3))}
        keys = [f"{name}.voice_{number}" for number in range(rng.choice((1, 70, MAX_GROWN)))]
        keys += rng.choice(([], [name], [f"{name}.x"], [f"{name}."], [f"{name}.voice_1.voice_1"], ["unknown"]))
        return {key: rng.choice((*links, self._forged("OTHER"))) for key in keys[-MAX_GROWN:]}

    def _forged(self, kind: str) -> object:
        """Return what an input of type `kind` does not expect: a literal, or a link to such a value."""
        rng, value = self.rng, hostile(self.rng, kind, self.names)
        way = rng.random()
        if way < 0.35:
            return value
        if way < 0.45:  # what belongs to another socket
            return self._switched([rng.choice([*COMMON]), 0])
        if way < 0.52:
            return self._switched(self._foreign_audio())
        primitive = next((node for one, node in PRIMITIVES if isinstance(value, one)), "")
        if not primitive:
            return value
        link = [self._add(primitive, {"value": value}), 0]
        direct = kind == {"PrimitiveBoolean": "BOOLEAN"}.get(primitive, primitive.removeprefix("Primitive").upper())
        return link if direct else self._switched(link)

    def _switched(self, link: list) -> list:
        """Return a link to ComfyUI's switch, whose output fits every input."""
        return [self._add("ComfySwitchNode", {"switch": True, "on_true": link, "on_false": link}), 0]

    def _foreign_audio(self) -> list:
        """Return a link to AUDIO of an odd rate, or of a form that no core node makes."""
        rng = self.rng
        if rng.random() < 0.5:
            kinds = ("none", "batch", "silent", "nan", "empty", "no_rate", "flat")
            return [self._add("OddAudio", {"audio": ["clip", 0], "kind": rng.choice(kinds)}), 0]
        rate = rng.choice((1, 3_999, 7_999, 22_051, 23_999, 191_999, 2**32, 2**62))
        seconds = rng.choice([one for one in (0.0, 1e-15, 1e-5, 0.01, 1.0, 60.0) if one * rate < 1e7])
        linked = [self._add("PrimitiveInt", {"value": rate}), 0]
        return [self._add("EmptyAudio", {"duration": seconds, "sample_rate": linked, "channels": 1}), 0]


def _inputs(node: Mapping[str, dict]) -> dict[str, tuple[str, dict, bool]]:
    """Return {name: (types, options, required)} of a node of /object_info."""
    found = {}
    for part in ("required", "optional"):
        for name, spec in node["input"].get(part, {}).items():
            kind, options = spec[0], spec[1] if len(spec) > 1 else {}
            menu = isinstance(kind, list)  # how versions before 0.33 may list the entries of a menu
            found[name] = (
                "COMBO" if menu else kind,
                {**options, "options": kind} if menu else options,
                part == "required",
            )
    return found
