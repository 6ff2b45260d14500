"""Join Audio and Audio Image: a list of audio in one piece, and a picture of audio."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.audio.joins import join_recordings
from ..omnivoice.intake.limits import check_number
from . import host
from .widgets import CATEGORY, float_input, int_input


class JoinAudio(io.ComfyNode):
    """Node `OmniVoiceJoinAudio`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceJoinAudio",
            display_name="OmniVoice Join Audio",
            category=CATEGORY,
            description="Joins a list of audio into one, with a pause between the items, and reports when each item "
            "starts.",
            search_aliases=["concatenate audio", "audio concat", "combine audio", "merge audio", "append audio"],
            is_input_list=True,
            inputs=[
                io.Audio.Input(
                    "audio",
                    tooltip="A list of audio, for example from Synthesize, or a batch. Sample rates and channels "
                    "may differ: the result has the highest rate, and is stereo if any item is.",
                ),
                float_input(
                    "gap_seconds", 0.3, 0.05, "Silence between two items, in seconds. 0 joins them without a pause."
                ),
            ],
            outputs=[
                io.Audio.Output(display_name="audio", tooltip="All items in one piece of audio."),
                io.Float.Output(
                    display_name="starts",
                    tooltip="When each item starts in the joined audio, in seconds.",
                    is_output_list=True,
                ),
                io.Float.Output(display_name="seconds", tooltip="Length of the joined audio, in seconds."),
            ],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, audio: list[object], gap_seconds: list[object] | tuple[object, ...] = (0.3,)) -> io.NodeOutput:
        gap = check_number("gap_seconds", host.values.only(gap_seconds, "gap_seconds"))
        recordings = host.values.recordings_from(audio)
        joined, starts = join_recordings(recordings, gap)
        whole = audio[0] if len(recordings) == 1 else host.values.audio_from(joined)
        return io.NodeOutput(whole, starts, joined.samples.shape[1] / joined.sample_rate)


class AudioImage(io.ComfyNode):
    """Node `OmniVoiceAudioImage`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceAudioImage",
            display_name="OmniVoice Audio Image",
            category=CATEGORY,
            description="Draws the waveform and the spectrogram of audio, which show pauses, noise and clipping. A "
            "batch gives a batch of images.",
            search_aliases=["waveform", "spectrogram", "mel spectrogram", "visualize audio", "plot audio"],
            inputs=[
                io.Audio.Input("audio", tooltip="The audio to draw."),
                io.Combo.Input(
                    "scale",
                    options=list(host.pictures.SCALES),
                    default="mel",
                    tooltip="Frequency axis of the spectrogram. mel gives low frequencies more room, as hearing does. "
                    "linear spaces all frequencies evenly.",
                ),
                int_input("width", 1024, "Width of the image in pixels.", limits="image_width"),
                int_input("height", 512, "Height of the image in pixels.", limits="image_height"),
            ],
            outputs=[io.Image.Output(display_name="image", tooltip="One image for each audio of the batch.")],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, audio: object, scale: object = "mel", width: object = 1024, height: object = 512) -> io.NodeOutput:
        return io.NodeOutput(host.pictures.draw(host.values.recordings_from([audio]), scale, width, height))
