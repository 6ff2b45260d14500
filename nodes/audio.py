"""Join Audio, which makes one piece of audio of a list, and Audio Image, which draws audio."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.audio.joins import join_recordings
from ..omnivoice.intake.limits import check_number
from . import host
from .widgets import float_input, int_input, with_texts


class JoinAudio(io.ComfyNode):
    """Node `OmniVoiceJoinAudio`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceJoinAudio",
                inputs=[io.Audio.Input("audio"), float_input("gap_seconds", 0.3, 0.05)],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.Float.Output(display_name="starts", is_output_list=True),
                    io.Float.Output(display_name="seconds"),
                ],
                search_aliases=["concatenate audio", "audio concat", "combine audio", "merge audio", "append audio"],
                is_input_list=True,
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, audio: list[object], gap_seconds: list[object] | tuple[object, ...] = (0.3,)) -> io.NodeOutput:
        gap = check_number("gap_seconds", host.values.only(gap_seconds, "gap_seconds"))
        recordings = host.values.recordings_from(audio)
        joined, starts = join_recordings(recordings, gap)
        result = audio[0] if len(recordings) == 1 else host.values.audio_from(joined)
        return io.NodeOutput(result, starts, joined.samples.shape[1] / joined.sample_rate)


class AudioImage(io.ComfyNode):
    """Node `OmniVoiceAudioImage`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceAudioImage",
                inputs=[
                    io.Audio.Input("audio"),
                    io.Combo.Input("scale", options=[*host.pictures.SCALES], default="mel"),
                    int_input("width", 1024, limits="image_width"),
                    int_input("height", 512, limits="image_height"),
                ],
                outputs=[io.Image.Output(display_name="image")],
                search_aliases=["waveform", "spectrogram", "mel spectrogram", "visualize audio", "plot audio"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, audio: object, scale: object = "mel", width: object = 1024, height: object = 512) -> io.NodeOutput:
        return io.NodeOutput(host.pictures.draw(host.values.recordings_from([audio]), scale, width, height))
