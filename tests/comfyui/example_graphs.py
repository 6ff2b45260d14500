"""The example workflows as tables: what `export_workflows.py` builds in the real frontend.

What is unusual: positions are not given. Nodes stand in columns, columns in groups; the exporter asks the frontend how
tall each node is. Only core nodes that ComfyUI 0.14.0 has as well are used beside ours. 0.14.0 has no arithmetic, so
the video example multiplies with Upscale Image By, whose linked factor has no limit: seconds by frame rate, rounded.
`properties.models` is left out of Load OmniVoice: ComfyUI's missing-model download handles one file whose name is the
widget's value, and the published model is a folder; the node OmniVoice Download fetches it.
"""

from __future__ import annotations

# name: (type, least size, {widget: value}) and, where the node's own title would not do, a title
Nodes = dict[str, tuple]
# title of a group ("": none), its columns, each a list of names of nodes
Groups = list[tuple[str, list[list[str]]]]
# (from, output number, to, name of the input)
Links = list[tuple[str, int, str, str]]

MODEL = (
    "The model belongs into **ComfyUI/models/omnivoice/OmniVoice** (3.3 GB, once). The node **OmniVoice Download** "
    "fetches it; so does **python -m omnivoice download**, run in this pack's folder. Then press R and choose it in "
    "**Load OmniVoice**."
)
CLIP = (
    "Copy **omnivoice_reference.wav** from this pack's workflows folder into **ComfyUI/input**, or choose a "
    "recording of your own in **Load Audio**: one speaker, 3-10 seconds.",
    "Type exactly what the recording says as its transcript.",
)
LICENCE = (
    "**Licences.** The weights are CC-BY-NC: no commercial use. The codec in them has the Boson Higgs Audio 2 "
    "Community License. Clone only voices you have permission for, and say that the speech is made by AI."
)


def note(title: str, height: int, *steps: str) -> tuple:
    """A MarkdownNote: the step that every example begins with, its own, and the licences.

    File names are bold, since Nodes 2.0 shows code in a note as blue on grey.
    """
    numbered = [f"{number}. {step}" for number, step in enumerate((MODEL, *steps), 1)]
    text = "\n\n".join((f"## {title}", "\n".join(numbered), LICENCE))
    return "MarkdownNote", [400, height], {0: text}, "Read me"


def save(name: str, title: str = "Save Audio") -> tuple:
    """SaveAudio: its own title calls it deprecated on new versions; 0.14.0 has no other."""
    return "SaveAudio", [330, 150], {"filename_prefix": f"audio/omnivoice_{name}"}, title


def speak(text: str, title: str = "", **widgets: object) -> tuple:
    return "OmniVoiceSynthesize", [400, 780], {"text": text, **widgets}, title


def design(title: str = "", **widgets: str) -> tuple:
    return "OmniVoiceVoiceDesignAttributes", [330, 240], widgets, title


LOAD = ("LoadOmniVoice", [330, 130], {"model_name": "OmniVoice"})
DEMO_LOAD = ("LoadOmniVoice", [400, 130], {"model_name": "demo voice (speaks a small vocabulary)"})
CLIPPED = ("LoadAudio", [330, 150], {"audio": "omnivoice_reference.wav"})
VOICE = ("OmniVoiceReferenceAudio", [400, 200], {"transcript": "Good morning everyone, thank you for coming today."})
LORA_FILE = "my_omnivoice_lora.safetensors"
CLIPS_FOLDER = "my_recordings"

DEMO: tuple[Nodes, Groups, Links] = (
    {
        "note": (
            "MarkdownNote",
            [400, 330],
            {
                0: "## A first sentence, with no download\n\n"
                "1. Press Run: the **demo voice** that comes with this pack says the sentence. It was made with "
                "espeak-ng: nobody's voice is in it.\n"
                "2. Type another one of the words that it knows; a warning on **Synthesize** lists them when one is "
                "not among them.\n"
                f"3. For any text in 600+ languages, the real model. {MODEL}\n\n{LICENCE}"
            },
            "Read me",
        ),
        "load": DEMO_LOAD,
        "speak": speak("The weather is beautiful today.", language="English"),
        "save": save("demo"),
    },
    [("", [["note"]]), ("1. Model", [["load"]]), ("2. Speak", [["speak"]]), ("3. Listen", [["save"]])],
    [("load", 0, "speak", "model"), ("speak", 0, "save", "audio")],
)
DESIGN: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "A described voice",
            300,
            "Pick what the voice is like. Everything may stay on auto.",
            "Type the text, and run. Another seed gives another reading, and another person who fits the description: "
            "see **omnivoice_lock_voice** for keeping one.",
        ),
        "load": LOAD,
        "design": design(gender="female", age="young adult", pitch="moderate pitch", accent="british accent"),
        "speak": speak("Good evening. This voice was described in words, and needed no recording."),
        "save": save("design"),
    },
    [
        ("", [["note"]]),
        ("1. Model and voice", [["load", "design"]]),
        ("2. Speak", [["speak"]]),
        ("3. Listen", [["save"]]),
    ],
    [("load", 0, "speak", "model"), ("design", 0, "speak", "design"), ("speak", 0, "save", "audio")],
)

CLONE: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "A cloned voice",
            340,
            *CLIP,
            "Type the text to speak, and run. The recording is encoded once, whatever you change afterwards.",
        ),
        "load": LOAD,
        "audio": CLIPPED,
        "voice": VOICE,
        "speak": speak("This sentence was never recorded, but it is spoken in the voice of the recording."),
        "save": save("clone"),
    },
    [
        ("", [["note"]]),
        ("1. Model and voice", [["load", "audio", "voice"]]),
        ("2. Speak", [["speak"]]),
        ("3. Listen", [["save"]]),
    ],
    [
        ("load", 0, "voice", "model"),
        ("audio", 0, "voice", "audio"),
        ("load", 0, "speak", "model"),
        ("voice", 0, "speak", "voice"),
        ("speak", 0, "save", "audio"),
    ],
)

LOCK_VOICE: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "A described voice, kept",
            360,
            "Describe a voice and run. **Cast the voice** speaks one sentence with it.",
            "Not the person you had in mind? Change the seed there and run again.",
            "Its **voice** output is that person: everything connected to it sounds the same, whatever it says.",
            "**Save Voice** keeps the person in **models/omnivoice_voices**. Later, **OmniVoice Load Voice** brings "
            "them back.",
        ),
        "load": LOAD,
        "design": design(gender="male", age="middle-aged", pitch="low pitch"),
        "cast": speak("Hello. I will be your narrator, and this is how I sound.", "Cast the voice", seed=7),
        "hear": ("PreviewAudio", [330, 130], {}, "Hear the casting"),
        "keep": (
            "OmniVoiceSaveVoice",
            [330, 220],
            {
                "name": "example narrator",
                "language": "English",
                "overwrite": True,
                "consent": "Designed, not recorded: nobody's voice.",
            },
        ),
        "speak": speak("Chapter one. It was a bright cold day, and nobody had slept.", "Speak with it"),
        "save": save("lock_voice"),
    },
    [
        ("", [["note"]]),
        ("1. Model and voice", [["load", "design"]]),
        ("2. Cast", [["cast"]]),
        ("3. Hear and keep", [["hear", "keep"]]),
        ("4. Speak with the same voice", [["speak", "save"]]),
    ],
    [
        ("load", 0, "cast", "model"),
        ("design", 0, "cast", "design"),
        ("cast", 0, "hear", "audio"),
        ("cast", 1, "keep", "voice"),
        ("load", 0, "speak", "model"),
        ("cast", 1, "speak", "voice"),
        ("speak", 0, "save", "audio"),
    ],
)

LORA: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "A LoRA",
            360,
            "Put your LoRA into **ComfyUI/models/loras**: a .safetensors file, or a folder that PEFT saved. Press R "
            f"and choose it in **Apply LoRA**; the name there now, **{LORA_FILE}**, only stands for yours.",
            "Run. **What it changes** says to how many modules it was applied, and how large the change is. A LoRA for "
            "another model is refused.",
            "Strength 0 is the model without it, bit for bit; 1 is the LoRA as it was trained.",
        ),
        "load": LOAD,
        "lora": ("OmniVoiceApplyLoRA", [400, 200], {"lora_name": LORA_FILE, "strength": 1.0}),
        "report": ("PreviewAny", [400, 160], {}, "What it changes"),
        "speak": speak("This sentence is spoken by the model with the LoRA applied."),
        "save": save("lora"),
    },
    [
        ("", [["note"]]),
        ("1. Model and LoRA", [["load", "lora", "report"]]),
        ("2. Speak", [["speak"]]),
        ("3. Listen", [["save"]]),
    ],
    [
        ("load", 0, "lora", "model"),
        ("lora", 1, "report", "source"),
        ("lora", 0, "speak", "model"),
        ("speak", 0, "save", "audio"),
    ],
)

LINES: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "Many lines at once",
            380,
            *CLIP,
            "Write one text to a line. **split_lines** is on, so every line becomes a recording of its own, in order; "
            "they are worked out together, which is quicker than one by one.",
            "Run. **Save Audio** writes one file for each line. A list of texts from another node works the same way.",
        ),
        "load": LOAD,
        "audio": CLIPPED,
        "voice": VOICE,
        "speak": speak(
            "The first line is short.\nThe second line is a little longer than the first one was.\n"
            "And the third line, which is the last, is the longest of all of them by quite some way.",
            split_lines=True,
        ),
        "save": save("lines"),
        "report": ("PreviewAny", [330, 200], {}, "Seed, frames, settings"),
    },
    [
        ("", [["note"]]),
        ("1. Model and voice", [["load", "audio", "voice"]]),
        ("2. Speak every line", [["speak"]]),
        ("3. Listen", [["save", "report"]]),
    ],
    [
        ("load", 0, "voice", "model"),
        ("audio", 0, "voice", "audio"),
        ("load", 0, "speak", "model"),
        ("voice", 0, "speak", "voice"),
        ("speak", 0, "save", "audio"),
        ("speak", 3, "report", "source"),
    ],
)

DIALOGUE: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "Two voices in turn",
            340,
            "Describe two people. Each is cast with a sentence, so that all their lines are said by the same person.",
            "Write the lines of the one above, those of the other below: line 1 answers line 1, line 2 answers line 2. "
            "Both need the same number of lines.",
            "Run. **Join** puts every answer behind its question, and **Save Audio** writes one file for each pair.",
        ),
        "load": LOAD,
        "one": design("First person", gender="female", age="middle-aged"),
        "two": design("Second person", gender="male", age="elderly", pitch="low pitch"),
        "cast_one": speak("Hello, I am the one who asks the questions here.", "Cast the first", seed=1),
        "cast_two": speak("And I am the one who has to answer them all.", "Cast the second", seed=2),
        "ask": speak("Did you sleep well?\nAnd what did you dream about?", "Lines of the first", split_lines=True),
        "answer": speak(
            "Better than last week, thank you.\nI was flying over a very quiet city.",
            "Lines of the second",
            split_lines=True,
        ),
        "join": ("AudioConcat", [330, 100], {"direction": "after"}, "Join: question, then answer"),
        "save": save("dialogue"),
    },
    [
        ("", [["note"]]),
        ("1. Model and two people", [["load", "one", "two"]]),
        ("2. Cast", [["cast_one", "cast_two"]]),
        ("3. Speak the lines", [["ask", "answer"]]),
        ("4. Join and listen", [["join", "save"]]),
    ],
    [
        ("load", 0, "cast_one", "model"),
        ("load", 0, "cast_two", "model"),
        ("one", 0, "cast_one", "design"),
        ("two", 0, "cast_two", "design"),
        ("load", 0, "ask", "model"),
        ("load", 0, "answer", "model"),
        ("cast_one", 1, "ask", "voice"),
        ("cast_two", 1, "answer", "voice"),
        ("ask", 0, "join", "audio1"),
        ("answer", 0, "join", "audio2"),
        ("join", 0, "save", "audio"),
    ],
)

VIDEO: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "Speech for a video",
            460,
            "Type the text and set the frame rate of your video model.",
            "Four small nodes multiply the **seconds** of the speech by that rate: a pixel is widened by the one, "
            "then by the other, and its **width** is the number of frames. Newer versions of ComfyUI have "
            "**Math Expression** for it: **round(a * b)**.",
            "Put your video model in place of **Your pictures**, and connect the number to its length. Many models "
            "want 4n + 1 or 8n + 1 frames: they round by themselves or tell you.",
            "Run. The video has the speech as its sound. To make the speech fit a video instead, set **duration** in "
            "**Synthesize** and switch **exact_length** on.",
        ),
        "load": LOAD,
        "design": design(gender="female", age="young adult"),
        "speak": speak("Every frame of this video was counted to last just as long as this sentence."),
        "fps": ("PrimitiveFloat", [330, 60], {"value": 24.0}, "Frames a second"),
        "pixel": ("EmptyImage", [330, 130], {"width": 1, "height": 1}, "One pixel"),
        "rate": ("ImageScaleBy", [330, 100], {"upscale_method": "nearest-exact"}, "x frames a second"),
        "length": ("ImageScaleBy", [330, 100], {"upscale_method": "nearest-exact"}, "x seconds"),
        "count": ("GetImageSize", [330, 140], {}, "How many frames (width)"),
        "pictures": ("EmptyImage", [330, 130], {"width": 320, "height": 180, "color": 0x203040}, "Your pictures"),
        "video": ("CreateVideo", [330, 80], {}, "Pictures and speech"),
        "save": ("SaveVideo", [330, 360], {"filename_prefix": "video/omnivoice_video"}, "Save the video"),
    },
    [
        ("", [["note"]]),
        ("1. Model and voice", [["load", "design"]]),
        ("2. Speak", [["speak"]]),
        ("3. Seconds to frames", [["fps", "pixel", "rate", "length", "count"]]),
        ("4. Video", [["pictures", "video", "save"]]),
    ],
    [
        ("load", 0, "speak", "model"),
        ("design", 0, "speak", "design"),
        ("pixel", 0, "rate", "image"),
        ("fps", 0, "rate", "scale_by"),
        ("rate", 0, "length", "image"),
        ("speak", 2, "length", "scale_by"),
        ("length", 0, "count", "image"),
        ("count", 0, "pictures", "batch_size"),
        ("pictures", 0, "video", "images"),
        ("speak", 0, "video", "audio"),
        ("fps", 0, "video", "fps"),
        ("video", 0, "save", "video"),
    ],
)

TRAIN_LORA: tuple[Nodes, Groups, Links] = (
    {
        "note": note(
            "Train a LoRA on your recordings",
            460,
            "Make a folder in **ComfyUI/input**, press R and choose it in **Dataset**; the name there now, "
            f"**{CLIPS_FOLDER}**, only stands for yours. It holds recordings of one person, 3-15 seconds each, and "
            "beside each a text file of the same name (.txt) with exactly what it says. Some minutes in all are good; "
            "eight clips are enough to try it. Choose their language too.",
            "Run. **Used and not used** names every clip that cannot be used, and why.",
            "**Train LoRA** tells of each step below itself. Cancel when you like: run again, and it goes on where it "
            "was. Everything is in **output/omnivoice_training**.",
            "**Loss** should fall, and then become flat. **How it went** gives the numbers; if validation gets worse, "
            "it was too long.",
            "**Apply LoRA** takes what was learnt from its input, so its menu stays on **none (use the lora input)**. "
            "**Save LoRA Weights** keeps it in **output/loras**, where Apply LoRA lists it later, as it lists those in "
            "**ComfyUI/models/loras**.",
        ),
        "load": LOAD,
        "data": ("OmniVoiceDataset", [400, 260], {"folder": CLIPS_FOLDER, "language": "English"}),
        "used": ("PreviewAny", [400, 160], {}, "Used and not used"),
        "train": ("OmniVoiceTrainLoRA", [400, 400], {"run_name": "example"}),
        "curve": ("LossGraphNode", [400, 330], {"filename_prefix": "omnivoice_loss"}, "Loss"),
        "report": ("PreviewAny", [400, 220], {}, "How it went"),
        "keep": ("SaveLoRA", [400, 110], {"prefix": "loras/example"}),
        "apply": ("OmniVoiceApplyLoRA", [400, 150], {"lora_name": "none (use the lora input)", "strength": 1.0}),
        "speak": speak("This sentence is spoken with what was learnt from the recordings.", language="English"),
        "save": save("train_lora"),
    },
    [
        ("", [["note"]]),
        ("1. Model and recordings", [["load", "data", "used"]]),
        ("2. Train", [["train"]]),
        ("3. What was learnt", [["curve", "report", "keep"]]),
        ("4. Speak with it", [["apply", "speak"], ["save"]]),
    ],
    [
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
        ("speak", 0, "save", "audio"),
    ],
)

GRAPHS = {
    "omnivoice_demo": DEMO,
    "omnivoice_design": DESIGN,
    "omnivoice_clone": CLONE,
    "omnivoice_lock_voice": LOCK_VOICE,
    "omnivoice_lora": LORA,
    "omnivoice_train_lora": TRAIN_LORA,
    "omnivoice_lines": LINES,
    "omnivoice_dialogue": DIALOGUE,
    "omnivoice_video": VIDEO,
}
