"""ComfyUI nodes for the tests: AUDIO that no core node makes, and prompts as the model gets them. `conftest` puts them
beside the pack."""

import functools
import json
import sys
import time
from typing import ClassVar

import torch
from comfy_api.latest import ComfyExtension, io
from server import PromptServer

KINDS = ("none", "batch", "silent", "nan", "empty", "no_rate", "flat")


class OddAudio(io.ComfyNode):
    """Node `OddAudio`: the recording that comes in, spoiled or multiplied."""

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="OddAudio",
            display_name="Odd Audio",
            category="audio",
            inputs=[io.Audio.Input("audio"), io.Combo.Input("kind", options=[*KINDS])],
            outputs=[io.Audio.Output()],
        )

    @classmethod
    def execute(cls, audio, kind):
        samples, rate = audio["waveform"], audio["sample_rate"]
        if kind == "none":
            return io.NodeOutput(None)
        odd = {
            "batch": torch.cat([samples, samples.flip(-1), 0.5 * samples]),
            "silent": torch.zeros_like(samples),
            "nan": samples.clone().index_fill_(-1, torch.tensor([100]), float("nan")),
            "empty": samples[..., :0],
            "no_rate": samples,
            "flat": samples[0],
        }
        return io.NodeOutput({"waveform": odd[kind], "sample_rate": "fast" if kind == "no_rate" else rate})


class AudioList(io.ComfyNode):
    """Node `AudioList`: two recordings as one list."""

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="AudioList",
            display_name="Audio List",
            category="audio",
            inputs=[io.Audio.Input("first"), io.Audio.Input("second")],
            outputs=[io.Audio.Output(is_output_list=True)],
        )

    @classmethod
    def execute(cls, first, second):
        return io.NodeOutput([first, second])


class PromptsSeen(io.ComfyNode):
    """Node `PromptsSeen`: the token ids of each prompt that the pack made since this node last ran, as JSON.

    The first run begins to listen.
    """

    seen: ClassVar[list] = []

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="PromptsSeen",
            display_name="Prompts Seen",
            category="audio",
            inputs=[io.AnyType.Input("after")],
            outputs=[io.String.Output()],
        )

    @classmethod
    def fingerprint_inputs(cls, **inputs):
        return time.monotonic()

    @classmethod
    def execute(cls, after):
        for name, module in [*sys.modules.items()]:
            if name.endswith((".omnivoice.generate.run", ".omnivoice.train.masking")):
                cls.listen(module)
        told = json.dumps(cls.seen)
        cls.seen.clear()
        return io.NodeOutput(told)

    @classmethod
    def listen(cls, module):
        made = module.build_prompt
        if not hasattr(made, "__wrapped__"):

            @functools.wraps(made)
            def noted(*arguments, **named):
                cls.seen.append(made(*arguments, **named))
                return cls.seen[-1]

            module.build_prompt = noted


class Routes(io.ComfyNode):
    """Node `Routes`: what the server answers to, as JSON: [method, path, module of the handler], each."""

    @classmethod
    def define_schema(cls):
        return io.Schema(
            node_id="Routes", display_name="Routes", category="audio", inputs=[], outputs=[io.String.Output()]
        )

    @classmethod
    def execute(cls):
        routes = PromptServer.instance.app.router.routes()
        return io.NodeOutput(
            json.dumps([(one.method, one.resource.canonical, one.handler.__module__) for one in routes])
        )


class OddExtension(ComfyExtension):
    async def get_node_list(self):
        return [OddAudio, AudioList, PromptsSeen, Routes]


async def comfy_entrypoint():
    return OddExtension()
