"""The example workflows as tables: what `export_workflows.py` builds in the real frontend.

Each node stands at a place given here, in pixels, with room for the taller nodes of the Nodes 2.0 interface; the note
stands above the graph. Links run in free lanes: no link passes behind a node (a test computes this). Only core nodes
that ComfyUI 0.14.0 also has are used, and none that the newest version calls deprecated. So the examples play audio
with Preview Audio, since the two versions have no common node that saves it.
`properties.models` is left out of Load OmniVoice: ComfyUI's own download of missing models handles one file whose name
is the widget's value, but the published model is a folder. The node OmniVoice Download fetches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """One node: its type, place and least size in pixels, values of its widgets, and a title other than its own."""

    kind: str
    place: tuple[int, int]
    size: tuple[int, int]
    widgets: Mapping[str | int, object] = field(default_factory=dict)
    title: str = ""


# (title, left, top, width, height) of a coloured frame around nodes
Group = tuple[str, int, int, int, int]
# (from, output number, to, name of the input)
Link = tuple[str, int, str, str]


@dataclass(frozen=True)
class Graph:
    """One workflow. crop: the nodes that its picture in the list of templates shows."""

    nodes: Mapping[str, Node]
    groups: tuple[Group, ...]
    links: tuple[Link, ...]
    crop: tuple[str, ...]


MODEL = (
    "The model belongs in **ComfyUI/models/omnivoice/OmniVoice** (3.3 GB, once). The node **OmniVoice Download** "
    "downloads it, and so does **python -m omnivoice download**, run in this pack's folder. Then press R and choose it "
    "in **Load OmniVoice**."
)
CLIP = (
    "Copy **omnivoice_reference.wav** from this pack's workflows folder into **ComfyUI/input**, or choose a "
    "recording of your own in **Load Audio**: one speaker, 3-10 seconds.",
    "Type exactly what the recording says as its transcript.",
)
SAVE = "To keep the audio as a file, use the menu of the player, or connect **Save Audio**."
LICENCE = (
    "**Licences.** The weights are CC-BY-NC: no commercial use. The codec in them has the Boson Higgs Audio 2 "
    "Community License. Clone only voices you have permission to clone, and say that the speech is made by AI."
)
LORA_FILE = "my_omnivoice_lora.safetensors"
CLIPS_FOLDER = "my_recordings"
NO_LORA = "none (use the lora input)"
DEMO_MODEL = "demo voice (speaks a small vocabulary)"


def note(title: str, width: int, height: int, *steps: str, place: tuple[int, int] | None = None) -> Node:
    """A note, above the graph if no place is given: numbered steps and the licences.

    File names are bold, since Nodes 2.0 shows code in a note as blue on grey.
    """
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    text = "\n\n".join((f"## {title}", "\n".join(numbered), LICENCE))
    return Node("MarkdownNote", place or (40, -height - 110), (width, height), {0: text}, "Read me")


def load(x: int, y: int, name: str = "OmniVoice", width: int = 320) -> Node:
    return Node("LoadOmniVoice", (x, y), (width, 130), {"model_name": name})


def speak(
    x: int, y: int, text: str, title: str = "", *, width: int = 380, height: int = 540, **widgets: object
) -> Node:
    return Node("OmniVoiceSynthesize", (x, y), (width, height), {"text": text, **widgets}, title)


def design(x: int, y: int, title: str = "", **widgets: str) -> Node:
    return Node("OmniVoiceVoiceDesignAttributes", (x, y), (320, 240), widgets, title)


def play(x: int, y: int, title: str = "Listen", width: int = 320) -> Node:
    return Node("PreviewAudio", (x, y), (width, 130), {}, title)


def show_text(x: int, y: int, title: str, width: int = 320, height: int = 200) -> Node:
    return Node("PreviewAny", (x, y), (width, height), {}, title)


def clip(x: int, y: int) -> Node:
    return Node("LoadAudio", (x, y), (320, 150), {"audio": "omnivoice_reference.wav"})


def reference(x: int, y: int) -> Node:
    text = "Good morning everyone, thank you for coming today."
    return Node("OmniVoiceReferenceAudio", (x, y), (380, 200), {"transcript": text})


FIRST_SENTENCE = Graph(
    {
        "note": note(
            "A first sentence, with no download",
            900,
            300,
            "Press Run. The **demo voice** that comes with this pack says the sentence. It was made with espeak-ng, so "
            "it is nobody's voice.",
            "Type another sentence. The demo voice knows some 280 English words, which **demo_voice/CARD.md** in this "
            "pack's folder lists; a warning on **Synthesize** names words that it does not know.",
            f"For any text in 600+ languages, get the real model. {MODEL}",
            SAVE,
        ),
        "load": load(40, 0, DEMO_MODEL, width=380),
        "speak": speak(500, 0, "The weather is beautiful today.", language="English"),
        "play": play(960, 0),
        "picture": Node("OmniVoiceAudioImage", (960, 240), (320, 130)),
        "look": Node("PreviewImage", (1360, 0), (560, 430), {}, "Look"),
    },
    (("1. Model", 20, -80, 420, 260), ("2. Speak", 480, -80, 420, 660), ("3. Listen and look", 940, -80, 1000, 660)),
    (
        ("load", 0, "speak", "model"),
        ("speak", 0, "play", "audio"),
        ("speak", 0, "picture", "audio"),
        ("picture", 0, "look", "images"),
    ),
    ("speak",),
)
DESIGN = Graph(
    {
        "note": note(
            "A described voice",
            900,
            260,
            MODEL,
            "Choose what the voice is like. Every menu may stay on auto.",
            "Type the text and run. Another seed gives another reading, and another person who fits the description. "
            "The workflow **04_keep_a_voice** shows how to keep one.",
            SAVE,
        ),
        "load": load(40, 0),
        "design": design(40, 260, gender="female", age="young adult", pitch="moderate pitch", accent="british accent"),
        "speak": speak(440, 0, "Good evening. This voice was described in words, and needed no recording."),
        "play": play(900, 0),
    },
    (("1. Model and voice", 20, -80, 360, 660), ("2. Speak", 420, -80, 420, 660), ("3. Listen", 880, -80, 360, 260)),
    (("load", 0, "speak", "model"), ("design", 0, "speak", "design"), ("speak", 0, "play", "audio")),
    ("design",),
)
CLONE = Graph(
    {
        "note": note(
            "A cloned voice",
            900,
            290,
            MODEL,
            *CLIP,
            "Type the text to speak and run. The recording is encoded once, whatever you change afterwards.",
            SAVE,
        ),
        "load": load(40, 0),
        "audio": clip(40, 260),
        "voice": reference(440, 160),
        "speak": speak(900, 0, "This sentence was never recorded, but it is spoken in the voice of the recording."),
        "play": play(1360, 0),
    },
    (("1. Model and voice", 20, -80, 820, 660), ("2. Speak", 880, -80, 420, 660), ("3. Listen", 1340, -80, 360, 260)),
    (
        ("load", 0, "voice", "model"),
        ("audio", 0, "voice", "audio"),
        ("load", 0, "speak", "model"),
        ("voice", 0, "speak", "voice"),
        ("speak", 0, "play", "audio"),
    ),
    ("voice",),
)
KEEP = Graph(
    {
        "note": note(
            "A described voice, kept",
            1100,
            310,
            MODEL,
            "Describe a voice and run. **Cast the voice** speaks one sentence with it.",
            "Not the person you had in mind? Change the seed there and run again.",
            "Its **voice** output is that person. Every node connected to it speaks with the same voice.",
            "**Save Voice** keeps the person in **models/omnivoice_voices**. Later, **OmniVoice Load Voice** brings "
            "them back.",
        ),
        "load": load(40, 0),
        "design": design(40, 260, gender="male", age="middle-aged", pitch="low pitch"),
        "cast": speak(440, 150, "Hello. I will be your narrator, and this is how I sound.", "Cast the voice", seed=7),
        "hear": play(900, 260, "Hear the casting"),
        "keep": Node(
            "OmniVoiceSaveVoice",
            (900, 490),
            (340, 230),
            {
                "name": "example narrator",
                "language": "English",
                "overwrite": True,
                "consent": "Designed, not recorded: nobody's voice.",
            },
        ),
        "speak": speak(1320, 0, "Chapter one. It was a bright cold day, and nobody had slept.", "Speak with it"),
        "play": play(1780, 0),
    },
    (
        ("1. Model and voice", 20, -80, 360, 860),
        ("2. Cast", 420, -80, 420, 860),
        ("3. Hear and keep", 880, -80, 380, 860),
        ("4. Speak with the same voice", 1300, -80, 820, 860),
    ),
    (
        ("load", 0, "cast", "model"),
        ("design", 0, "cast", "design"),
        ("cast", 0, "hear", "audio"),
        ("cast", 1, "keep", "voice"),
        ("load", 0, "speak", "model"),
        ("cast", 1, "speak", "voice"),
        ("speak", 0, "play", "audio"),
    ),
    ("keep",),
)
LINES = Graph(
    {
        "note": note(
            "Many lines at once",
            1100,
            310,
            MODEL,
            *CLIP,
            "Write one text to a line. **split_lines** is on, so every line becomes a recording, in order. They are "
            "generated together, which is faster than one by one.",
            "Run. **Each line** plays every recording. **Join Audio** puts them into one, with a pause between them. A "
            "list of texts from another node works the same way.",
        ),
        "load": load(40, 0),
        "audio": clip(40, 260),
        "voice": reference(440, 160),
        "speak": speak(
            900,
            0,
            "The first line is short.\nThe second line is a little longer than the first one was.\n"
            "And the third line, which is the last, is the longest of all of them by quite some way.",
            split_lines=True,
        ),
        "join": Node("OmniVoiceJoinAudio", (1360, 0), (320, 110), {"gap_seconds": 0.5}),
        "each": play(1360, 220, "Each line"),
        "report": show_text(1360, 460, "Report of each line"),
        "all": play(1760, 0, "All lines"),
    },
    (
        ("1. Model and voice", 20, -80, 820, 780),
        ("2. Speak every line", 880, -80, 420, 780),
        ("3. Listen", 1340, -80, 760, 780),
    ),
    (
        ("load", 0, "voice", "model"),
        ("audio", 0, "voice", "audio"),
        ("load", 0, "speak", "model"),
        ("voice", 0, "speak", "voice"),
        ("speak", 0, "join", "audio"),
        ("speak", 0, "each", "audio"),
        ("speak", 3, "report", "source"),
        ("join", 0, "all", "audio"),
    ),
    ("join", "each"),
)
DIALOGUE_TEXT = """Helen: Good morning Oliver, how are you?
Oliver: I like the quiet river, and the weather is beautiful today.
[pause 1s]
Helen: We will meet on Monday at nine.
Nora: Hello Helen, nice to meet you. We bought bread and butter from the market.
"""
DIALOGUE = Graph(
    {
        "note": note(
            "A dialogue of several people",
            1200,
            280,
            MODEL,
            "Write the script: a name and a colon start what a person says, and **[pause 1s]** is a silence.",
            "Write the names into **names**, one on each line, and connect a voice or a design for each, in the same "
            "order. Nora has none here, so the model chooses a voice, and keeps it.",
            "Run. To change one line, give it a seed of its own, as in **Helen: {voice seed=7} Good morning.** The "
            "others stay as they are.",
        ),
        "load": load(40, 0),
        "helen": design(40, 190, "Helen", gender="female", pitch="high pitch"),
        "oliver": design(40, 490, "Oliver", gender="male", pitch="high pitch"),
        "speak": Node(
            "OmniVoiceDialogue",
            (440, 0),
            (400, 720),
            {"script": DIALOGUE_TEXT, "names": "Helen\nOliver\nNora", "language": "English"},
        ),
        "play": play(920, 0),
        "report": show_text(920, 190, "Who said what", height=150),
        "srt": show_text(920, 400, "Subtitles", height=150),
        "times": Node("OmniVoiceTimings", (920, 690), (320, 130), {"format": "video frames of words"}),
        "frames": show_text(1320, 690, "In which video frames each word is heard", height=150),
    },
    (
        ("1. Model and people", 20, -80, 360, 840),
        ("2. Speak the script", 420, -80, 440, 840),
        ("3. Listen and check", 900, -80, 360, 680),
        ("4. Times", 900, 610, 760, 270),
    ),
    (
        ("load", 0, "speak", "model"),
        ("helen", 0, "speak", "voices.voice_1"),
        ("oliver", 0, "speak", "voices.voice_2"),
        ("speak", 0, "play", "audio"),
        ("speak", 4, "report", "source"),
        ("speak", 3, "srt", "source"),
        ("speak", 2, "times", "timings"),
        ("times", 0, "frames", "source"),
    ),
    ("speak",),
)
VIDEO = Graph(
    {
        "note": note(
            "Speech for a video",
            1100,
            330,
            MODEL,
            "Type the text, and set the frame rate of your video model.",
            "**Seconds to Frames** says how many video frames the speech needs. Put your video model in place of "
            "**Your pictures**, and connect the number to its length. Many models want 4n + 1 or 8n + 1 frames: they "
            "round by themselves or tell you.",
            "Run. The speech is the audio of the video. To make the speech fit a video instead, set **duration** in "
            "**Synthesize** and switch **exact_length** on.",
        ),
        "load": load(40, 0),
        "design": design(40, 260, gender="female", age="young adult"),
        "speak": speak(440, 0, "Every frame of this video was counted to last just as long as this sentence."),
        "fps": Node("PrimitiveFloat", (440, 580), (380, 60), {"value": 24.0}, "Frames per second"),
        "count": Node("OmniVoiceSecondsToFrames", (900, 230), (290, 140), {}),
        "pictures": Node(
            "EmptyImage", (1250, 230), (290, 130), {"width": 320, "height": 180, "color": 0x203040}, "Your pictures"
        ),
        "rate": Node("Reroute", (1480, 580), (75, 26)),
        "video": Node("CreateVideo", (1640, 130), (270, 80), {}),
        "save": Node("SaveVideo", (1970, 130), (330, 360), {"filename_prefix": "video/omnivoice_video"}),
    },
    (
        ("1. Model and voice", 20, -80, 360, 760),
        ("2. Speak", 420, -80, 420, 760),
        ("3. Seconds to video frames", 880, 150, 700, 530),
        ("4. Video", 1620, 50, 700, 500),
    ),
    (
        ("load", 0, "speak", "model"),
        ("design", 0, "speak", "design"),
        ("speak", 2, "count", "seconds"),
        ("fps", 0, "count", "fps"),
        ("count", 0, "pictures", "batch_size"),
        ("pictures", 0, "video", "images"),
        ("speak", 0, "video", "audio"),
        ("fps", 0, "rate", ""),
        ("rate", 0, "video", "fps"),
        ("video", 0, "save", "video"),
    ),
    ("count",),
)
LORA = Graph(
    {
        "note": note(
            "A LoRA",
            1000,
            300,
            MODEL,
            "Put your LoRA into **ComfyUI/models/loras**: a .safetensors file, or a folder that PEFT saved. Press R "
            f"and choose it in **Apply LoRA**. The name there now, **{LORA_FILE}**, only stands for yours.",
            "Run. **What it changes** says to how many modules the LoRA was applied, and how large the change is. A "
            "LoRA for another model is refused.",
            "Strength 0 is the model without it, bit for bit; 1 is the LoRA as it was trained.",
        ),
        "load": load(40, 0),
        "lora": Node("OmniVoiceApplyLoRA", (440, 0), (380, 170), {"lora_name": LORA_FILE, "strength": 1.0}),
        "report": show_text(900, 640, "What it changes", 380, 140),
        "speak": speak(900, 0, "This sentence is spoken by the model with the LoRA applied."),
        "play": play(1360, 0),
    },
    (("1. Model and LoRA", 20, -80, 820, 320), ("2. Speak", 880, -80, 420, 880), ("3. Listen", 1340, -80, 360, 260)),
    (
        ("load", 0, "lora", "model"),
        ("lora", 1, "report", "source"),
        ("lora", 0, "speak", "model"),
        ("speak", 0, "play", "audio"),
    ),
    ("lora",),
)
TRAIN = Graph(
    {
        "note": note(
            "Train a LoRA on your recordings",
            1900,
            240,
            MODEL,
            "Make a folder in **ComfyUI/input**, press R and choose it in **Dataset**. The name there now, "
            f"**{CLIPS_FOLDER}**, only stands for yours. It holds recordings of one person, 3-15 seconds each, and "
            "next to each a text file of the same name (.txt) with exactly what it says. A few minutes of recordings "
            "are enough for a voice; eight clips are enough to try it. Choose their language too.",
            "Run. **Clips used and refused** names every clip that cannot be used, and why.",
            "**Train LoRA** shows its progress on the node. Cancel when you like: run again, and the training resumes "
            "where it stopped. All its files are in **output/omnivoice_training**.",
            "**Loss** should fall and then level off. If the validation loss in **Training report** rises again, the "
            "training was too long.",
            f"**Apply LoRA** takes the trained LoRA from its input, so its menu stays on **{NO_LORA}**. **Save LoRA "
            "Weights** keeps the LoRA in **output/loras**. Apply LoRA lists it later, as it lists those in "
            "**ComfyUI/models/loras**.",
        ),
        "load": load(40, 0, width=250),
        "data": Node("OmniVoiceDataset", (330, 230), (280, 260), {"folder": CLIPS_FOLDER, "language": "English"}),
        "train": Node("OmniVoiceTrainLoRA", (650, 130), (290, 360), {"run_name": "example"}),
        "used": show_text(650, 600, "Clips used and refused", 290, 160),
        "curve": Node("LossGraphNode", (1020, 200), (280, 280), {"filename_prefix": "omnivoice_loss"}, "Loss"),
        "report": show_text(1020, 550, "Training report", 280, 150),
        "keep": Node("SaveLoRA", (1020, 770), (280, 110), {"prefix": "loras/example"}),
        "apply": Node("OmniVoiceApplyLoRA", (1340, 0), (280, 150), {"lora_name": NO_LORA, "strength": 1.0}),
        "speak": speak(1660, 0, "This sentence is spoken with the trained LoRA.", width=310, language="English"),
        "play": play(2010, 0, width=260),
    },
    (
        ("1. Model and recordings", 20, -80, 605, 1010),
        ("2. Train", 635, -80, 320, 1010),
        ("3. Results", 1005, -80, 310, 1010),
        ("4. Speak with the LoRA", 1325, -80, 960, 660),
    ),
    (
        ("load", 0, "data", "model"),
        ("data", 1, "used", "source"),
        ("load", 0, "train", "model"),
        ("data", 0, "train", "dataset"),
        ("train", 1, "curve", "loss"),
        ("train", 3, "report", "source"),
        ("train", 0, "keep", "lora"),
        ("train", 2, "keep", "steps"),
        ("load", 0, "apply", "model"),
        ("train", 0, "apply", "lora"),
        ("apply", 0, "speak", "model"),
        ("speak", 0, "play", "audio"),
    ),
    ("curve",),
)
SUBTITLE_TEXT = """1
00:00:00,500 --> 00:00:02,500
Helen: The weather is beautiful today.

2
00:00:03,000 --> 00:00:05,000
Oliver: My sister is a very clever doctor.

3
00:00:05,500 --> 00:00:06,500
[door slams]

4
00:00:07,000 --> 00:00:09,000
Helen: We walked to the museum.
"""
SUBTITLES = Graph(
    {
        "note": note(
            "Speech for a video from subtitles",
            1100,
            300,
            MODEL,
            "Paste an SRT or WebVTT file into **Subtitles**. Write the speakers, as the file names them, into "
            "**names**, one on each line, and connect a voice or a design for each. Any other cue has the voice in "
            "**voice**.",
            "**fit** speaks each cue in exactly its time, **fill** may go on into the gap after it, and **natural** "
            "lets later cues wait.",
            "Set the length of your video, and put it in place of **Your pictures**. Run. **What happened** names "
            "every cue, its timing error, and what is not spoken.",
        ),
        "load": load(40, 0),
        "helen": design(40, 190, "Helen", gender="female", pitch="high pitch"),
        "oliver": design(40, 490, "Oliver", gender="male", pitch="high pitch"),
        "total": Node("PrimitiveFloat", (40, 790), (320, 60), {"value": 10.0}, "Length of the video in seconds"),
        "speak": Node(
            "OmniVoiceSubtitles",
            (440, 0),
            (360, 720),
            {"subtitles": SUBTITLE_TEXT, "mode": "fill", "language": "English", "names": "Helen\nOliver"},
        ),
        "play": play(860, 110),
        "srt": show_text(860, 300, "Subtitles of the speech", height=150),
        "report": show_text(860, 510, "What happened", height=150),
        "count": Node("OmniVoiceSecondsToFrames", (1240, 710), (280, 140), {}),
        "pictures": Node(
            "EmptyImage", (1570, 710), (250, 130), {"width": 320, "height": 180, "color": 0x203040}, "Your pictures"
        ),
        "video": Node("CreateVideo", (1870, 0), (210, 80), {"fps": 24.0}),
        "save": Node("SaveVideo", (2120, 0), (250, 330), {"filename_prefix": "video/omnivoice_subtitles"}),
    },
    (
        ("1. Model, voices and length", 20, -80, 360, 950),
        ("2. Speak the subtitles", 420, -80, 400, 820),
        ("3. Listen and check", 840, 30, 360, 650),
        ("4. Video", 1850, -80, 540, 430),
    ),
    (
        ("load", 0, "speak", "model"),
        ("helen", 0, "speak", "voices.voice_1"),
        ("oliver", 0, "speak", "voices.voice_2"),
        ("total", 0, "speak", "total_seconds"),
        ("total", 0, "count", "seconds"),
        ("speak", 0, "play", "audio"),
        ("speak", 1, "srt", "source"),
        ("speak", 2, "report", "source"),
        ("count", 0, "pictures", "batch_size"),
        ("pictures", 0, "video", "images"),
        ("speak", 0, "video", "audio"),
        ("video", 0, "save", "video"),
    ),
    ("speak",),
)

DUB_TEXT = """1
00:00:00,100 --> 00:00:02,200
My sister is a very clever doctor.

2
00:00:02,400 --> 00:00:04,500
Turn left behind the station.
"""
DUB = Graph(
    {
        "note": note(
            "A dubbed clip, in the voice of the original",
            1200,
            270,
            MODEL,
            "Copy **omnivoice_clip.mp4** from this pack's workflows folder into **ComfyUI/input**, or choose a video "
            "of your own in **Load Video** and in **Load Audio**: one speaker, with 3-10 seconds of speech. Type "
            "exactly what it says as the transcript.",
            "Paste the translated subtitles into **Subtitles**. Each cue is spoken in its time, with the voice of the "
            "clip.",
            "Run. The new video has the old pictures and is as long as before. **What happened** names every cue.",
        ),
        "load": load(40, 0),
        "clip": Node("LoadVideo", (40, 385), (320, 330), {"file": "omnivoice_clip.mp4"}),
        "sound": Node("LoadAudio", (40, 185), (320, 150), {"audio": "omnivoice_clip.mp4"}),
        "parts": Node("GetVideoComponents", (40, 780), (320, 70)),
        "voice": Node(
            "OmniVoiceReferenceAudio",
            (440, 90),
            (300, 200),
            {"transcript": "The weather is beautiful today. We will meet on Monday at nine."},
        ),
        "count": Node("GetImageSize", (440, 360), (300, 90)),
        "seconds": Node("OmniVoiceFramesToSeconds", (440, 520), (300, 90)),
        "speak": Node("OmniVoiceSubtitles", (820, 0), (360, 720), {"subtitles": DUB_TEXT, "language": "English"}),
        "play": play(1260, 0),
        "report": show_text(1260, 190, "What happened", height=150),
        "video": Node("CreateVideo", (1260, 760), (320, 80), {}),
        "save": Node("SaveVideo", (1640, 530), (260, 330), {"filename_prefix": "video/omnivoice_dub"}),
    },
    (
        ("1. Model and video", 20, -80, 360, 970),
        ("2. Voice and length", 420, -80, 340, 720),
        ("3. Speak the subtitles", 800, -80, 400, 820),
        ("4. Listen, check and save", 1240, -80, 680, 960),
    ),
    (
        ("load", 0, "speak", "model"),
        ("load", 0, "voice", "model"),
        ("clip", 0, "parts", "video"),
        ("sound", 0, "voice", "audio"),
        ("parts", 0, "count", "image"),
        ("count", 2, "seconds", "frames"),
        ("parts", 2, "seconds", "fps"),
        ("seconds", 0, "speak", "total_seconds"),
        ("voice", 0, "speak", "voice"),
        ("speak", 0, "play", "audio"),
        ("speak", 2, "report", "source"),
        ("parts", 0, "video", "images"),
        ("parts", 2, "video", "fps"),
        ("speak", 0, "video", "audio"),
        ("video", 0, "save", "video"),
    ),
    ("speak",),
)

AUDIOBOOK_TEXT = (
    "# One\nThe weather is beautiful today. My sister is a very clever doctor. "
    "The old cat slept behind the kitchen.\n\n"
    "# Two\nThe train to the station leaves at seven. Anna and Peter walked in the garden.\n"
)
AUDIOBOOK = Graph(
    {
        "note": note(
            "An audiobook",
            1100,
            280,
            MODEL,
            "Paste a chapter or a book into **text**. A line that starts with # is the heading of a chapter. "
            "Give every text a **name** of its own.",
            "Run. The player on the node has the first part as soon as it is made, and plays the others as they come.",
            "Stop whenever you like. The next run with the same name makes only what is missing. **What happened** "
            "says how much that is.",
        ),
        "load": load(40, 0),
        "design": design(40, 190, "The voice", gender="female", pitch="moderate pitch"),
        "speak": Node(
            "OmniVoiceLongText",
            (440, 0),
            (440, 620),
            {"text": AUDIOBOOK_TEXT, "name": "my_audiobook", "language": "English"},
        ),
        "play": play(940, 0, "The whole recording"),
        "report": show_text(940, 190, "What happened", height=150),
        "times": show_text(940, 400, "Subtitles of the parts", height=200),
    },
    (
        ("1. Model and voice", 20, -80, 360, 530),
        ("2. Speak the book", 420, -80, 480, 720),
        ("3. Listen and check", 920, -80, 360, 700),
    ),
    (
        ("load", 0, "speak", "model"),
        ("design", 0, "speak", "design"),
        ("speak", 0, "play", "audio"),
        ("speak", 3, "report", "source"),
        ("speak", 2, "times", "source"),
    ),
    ("speak",),
)

INTERVIEW = (
    "My sister is a very clever doctor.\nWe will meet on Monday at nine.\nThe train to the station leaves at seven.\n"
    "The weather is beautiful today."
)
EDIT = Graph(
    {
        "note": note(
            "Fix a word in an interview",
            1300,
            280,
            "Press Run. The **demo voice** speaks **The interview**, so that nothing has to be downloaded. The words "
            "that differ in **new_transcript** are changed in it. The rest stays as it was, sample for sample.",
            "For a recording of your own, connect **Load Audio** in place of **Join Audio**, and type what it says, "
            f"word for word, as its transcript. {MODEL}",
            "**What happened** tells where the words were found, what was kept, and how smooth the joints are: 1 or "
            "less is no rougher than the recording itself. If the wrong place was changed, give the right one in "
            "**span**, in seconds. Another seed gives another reading of the new words.",
        ),
        "load": load(40, 0, DEMO_MODEL, width=380),
        "say": speak(40, 200, INTERVIEW, "The interview", language="English", split_lines=True),
        "join": Node("OmniVoiceJoinAudio", (500, 200), (320, 110), {"gap_seconds": 0.3}),
        "before": play(500, 400, "The interview as it was"),
        "edit": Node(
            "OmniVoiceEditSpeech",
            (900, 0),
            (400, 660),
            {
                "transcript": INTERVIEW,
                "new_transcript": INTERVIEW.replace("Monday", "Friday").replace("seven", "eleven"),
                "seed": 1,
                "language": "English",
            },
        ),
        "play": play(1380, 0, "The edited interview"),
        "report": show_text(1380, 200, "What happened", height=300),
        "text": show_text(1380, 570, "What it says now", height=150),
    },
    (
        ("1. Model and recording", 20, -80, 820, 860),
        ("2. Edit", 880, -80, 440, 860),
        ("3. Listen and check", 1360, -80, 360, 860),
    ),
    (
        ("load", 0, "say", "model"),
        ("say", 0, "join", "audio"),
        ("join", 0, "before", "audio"),
        ("load", 0, "edit", "model"),
        ("join", 0, "edit", "audio"),
        ("edit", 0, "play", "audio"),
        ("edit", 1, "report", "source"),
        ("edit", 2, "text", "source"),
    ),
    ("edit",),
)

DIALOGUE_LINES = (
    "Helen: Good morning Oliver, how are you?\nOliver: My sister is a very clever doctor.\n"
    "Helen: We will meet on Monday at nine.\nOliver: The weather is beautiful today."
)
REDO = Graph(
    {
        "note": note(
            "Speak a line of a dialogue again",
            1400,
            280,
            "Press Run. The **demo voice** speaks **The dialogue**, so that nothing has to be downloaded. **Redo** "
            "speaks one line of it again, in several takes. The rest stays as it was, sample for sample.",
            "**Each take** plays them all. Write the number of the best one into **take**; 0 is the first. Other seeds "
            "give other takes.",
            "**line** is the number of the line in the dialogue. To speak some words of it again, leave **line** empty "
            "and write them into **words**, as they stand in the script.",
            "For a recording of your own, connect **Load Audio** in place of **The dialogue**, leave **line** "
            "empty, and type its transcript. "
            f"{MODEL}",
        ),
        "load": load(40, 0, DEMO_MODEL, width=380),
        "helen": design(40, 200, "Helen", gender="female", pitch="high pitch"),
        "oliver": design(40, 500, "Oliver", gender="male", pitch="high pitch"),
        "speak": Node(
            "OmniVoiceDialogue",
            (500, 100),
            (400, 700),
            {"script": DIALOGUE_LINES, "names": "Helen\nOliver", "language": "English"},
            "The dialogue",
        ),
        "before": play(980, 620, "The dialogue as it was", width=400),
        "redo": Node("OmniVoiceRedo", (980, 0), (400, 530), {"line": "2", "takes": 3, "language": "English"}),
        "play": play(1460, 0, "With the take to use"),
        "each": play(1460, 200, "Each take"),
        "report": show_text(1460, 400, "What happened", height=300),
    },
    (
        ("1. Model and people", 20, -80, 420, 900),
        ("2. Speak", 480, -80, 440, 900),
        ("3. Redo", 960, -80, 440, 900),
        ("4. Listen and choose", 1440, -80, 360, 900),
    ),
    (
        ("load", 0, "speak", "model"),
        ("helen", 0, "speak", "voices.voice_1"),
        ("oliver", 0, "speak", "voices.voice_2"),
        ("speak", 0, "before", "audio"),
        ("load", 0, "redo", "model"),
        ("speak", 0, "redo", "audio"),
        ("speak", 2, "redo", "timings"),
        ("redo", 0, "play", "audio"),
        ("redo", 1, "each", "audio"),
        ("redo", 2, "report", "source"),
    ),
    ("redo",),
)

# Named so that the list of templates, which ComfyUI sorts by name, begins with the one a newcomer should open first.
GRAPHS = {
    "01_first_sentence": FIRST_SENTENCE,
    "02_design_a_voice": DESIGN,
    "03_clone_a_voice": CLONE,
    "04_keep_a_voice": KEEP,
    "05_many_lines": LINES,
    "06_dialogue": DIALOGUE,
    "07_speech_for_video": VIDEO,
    "08_apply_a_lora": LORA,
    "09_train_a_lora": TRAIN,
    "10_subtitles": SUBTITLES,
    "11_dub_a_clip": DUB,
    "12_audiobook": AUDIOBOOK,
    "13_edit_speech": EDIT,
    "14_redo_a_line": REDO,
}
