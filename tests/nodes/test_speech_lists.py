"""Synthesize and Reference Audio with lists and batches, and what Synthesize shows and reports."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
import torch

EXPERT = ("steps", "guidance", "t_shift", "pad_seconds", "denoise", "unconditional_every", "chunking")


def speak(nodes, model, **inputs):
    """The four output lists; an input that is no list becomes a list of one. Settings makes the expert values."""
    expert = {name: inputs.pop(name) for name in [*inputs] if name in EXPERT}
    (settings,) = nodes["OmniVoiceSettings"].execute(**{"steps": 2, **expert}).values
    lists = {name: value if isinstance(value, list) else [value] for name, value in inputs.items()}
    return nodes["OmniVoiceSynthesize"].execute(model=[model], **{"settings": [settings], "seed": [3], **lists}).values


def encode(nodes, model, batch, transcript):
    sound = 0.3 * torch.sin(torch.arange(48_000) * 0.05 * torch.arange(1, batch + 1)[:, None, None])
    audio = {"waveform": sound.float(), "sample_rate": 24_000}
    (voices,) = nodes["OmniVoiceReferenceAudio"].execute(model=model, audio=audio, transcript=transcript).values
    return voices


def test_each_item_of_a_list_is_spoken_as_if_alone_and_in_order(nodes, model, host) -> None:
    voices = encode(nodes, model, 2, "The first one.\nThe second one.")
    texts = ["Hello.", "A good deal longer than that.", "Third."]
    audios, spoke_with, seconds, reports = speak(nodes, model, text=texts, voice=voices, speed=[1.0, 1.5])
    assert [len(out) for out in (audios, spoke_with, seconds, reports)] == [3, 3, 3, 3]
    assert spoke_with == [voices[0], voices[1], voices[1]]  # the last value is repeated
    assert host.progress[-1] == (6, 6) and len(host.loads) == 2  # the voices, then all three together
    for i, text in enumerate(texts):
        alone = speak(nodes, model, text=text, voice=voices[min(i, 1)], speed=[1.0, 1.5, 1.5][i])
        assert torch.equal(alone[0][0]["waveform"], audios[i]["waveform"]) and alone[3][0] == reports[i]
        assert seconds[i] == audios[i]["waveform"].shape[2] / 24_000
        assert text in reports[i]


def test_lines_of_a_text(nodes, model) -> None:
    audios, _, _, reports = speak(nodes, model, text="One.\n\n  \nTwo, longer.\n", split_lines=True)
    assert len(audios) == 2 and "Two, longer." in reports[1]
    whole = speak(nodes, model, text="One.\n\n  \nTwo, longer.\n")
    assert len(whole[0]) == 1


def test_a_batch_of_recordings(nodes, model) -> None:
    first, second = encode(nodes, model, 2, "The first one.\n\nThe second one.")
    assert (first.text, second.text) == ("The first one.", "The second one.")
    assert not torch.equal(first.codes, second.codes)
    assert [voice.text for voice in encode(nodes, model, 2, "")] == ["", ""]
    (alone,) = encode(nodes, model, 1, "The first one.")
    assert torch.equal(alone.codes, first.codes) and alone.rms == first.rms
    with pytest.raises(ValueError, match="one line for each of the 3 recordings, or be empty, got 2 lines"):
        encode(nodes, model, 3, "One.\nTwo.")


def test_a_batch_of_too_many_recordings_is_refused_before_any_is_encoded(
    nodes, model, monkeypatch, loaded_pack
) -> None:
    monkeypatch.setattr(loaded_pack.host.speech, "encode_voices", lambda *given: 1 / 0)
    with pytest.raises(ValueError, match="at most 64 recordings become voices at once, got 65: give fewer"):
        encode(nodes, model, 65, "")


def test_lists_that_cannot_be(nodes, model, loaded_pack) -> None:
    with pytest.raises(ValueError, match="text is an empty list"):
        speak(nodes, model, text=[])
    other = loaded_pack.host.models.LoadedModel(model.engine, model.lm, model.decoder, model.origin)
    with pytest.raises(ValueError, match="model must be the same for every item, got a list of 2 different ones"):
        nodes["OmniVoiceSynthesize"].execute(model=[model, other], text=["Hello."])
    with pytest.raises(ValueError, match="at most 10000 texts can be spoken at once, got 10001"):
        speak(nodes, model, text="\n".join(["a"] * 10_001), split_lines=True)


WORDS = "Hello there, my friend. "


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"text": f"{WORDS}\n" * 40_000, "split_lines": True}, "must be at most 500000 characters, got 1000000"),
        ({"text": "\n" * 1_000_000, "split_lines": True}, "must be at most 500000 characters, got 1000000"),
        ({"text": "a\n" * 200_000, "split_lines": True}, "at most 10000 texts can be spoken at once, got 200000"),
        ({"text": ["a"] * 1_000_000}, "at most 10000 texts can be spoken at once, got 1000000"),
        ({"text": [WORDS * 1000] * 30}, "must be at most 500000 characters, got 720000"),
        ({"text": WORDS * 1000, "seed": [*range(30)]}, "must be at most 500000 characters, got 720000"),
    ],
)
def test_texts_are_counted_before_anything_is_made_of_them(nodes, model, loaded_pack, monkeypatch, inputs, reason):
    made = []
    monkeypatch.setattr(loaded_pack.speech, "request_from", lambda given: made.append(given))
    with pytest.raises(ValueError, match=reason):
        speak(nodes, model, **inputs)
    assert made == []


def test_a_run_is_refused_as_soon_as_its_texts_last_too_long(nodes, model, monkeypatch) -> None:
    planned = []
    plan = type(model.engine).plan
    monkeypatch.setattr(type(model.engine), "plan", lambda self, given: planned.append(given) or plan(self, given))
    with pytest.raises(ValueError, match=r"at most 4 hours of speech, and the first 25 texts or takes .* 4\.17 hours"):
        speak(nodes, model, text=["Hello there."] * 9_000, duration=600.0)
    assert len(planned) == 25


def test_takes_together_are_one_run(nodes, model) -> None:
    text = "\n".join([WORDS] * 2_000)
    with pytest.raises(ValueError, match="at most 4 hours of speech, and the first"):
        nodes["OmniVoiceTakes"].execute(model=model, text=text, seed=1, takes=16)


@pytest.mark.parametrize(
    ("takes", "retries", "fits"), [(16, 12, True), (16, 13, False), (13, 16, True), (14, 15, False)]
)
def test_the_work_of_takes_counts_every_retry(
    nodes, model, loaded_pack, monkeypatch, takes: int, retries: int, fits: bool
) -> None:
    runs = []
    monkeypatch.setattr(type(model.engine), "generate_plans", lambda self, plans, **how: runs.append(plans) or 1 / 0)
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=256).values
    given = {"model": model, "text": WORDS * 100, "seed": 1, "settings": settings, "takes": takes, "retries": retries}
    (plan,) = model.engine.plan([loaded_pack.engine.GenerationRequest(text=WORDS * 100, seed=1)])
    frames = sum(chunk.frames for chunk in plan.chunks)
    assert (frames * 256 * takes * (1 + retries) <= 200_000_000) is fits
    with pytest.raises(ZeroDivisionError if fits else ValueError, match="zero" if fits else "Use fewer steps, retries"):
        nodes["OmniVoiceTakes"].execute(**given)
    assert len(runs) == fits


def test_cancel_is_heard_while_texts_are_planned(nodes, model, host, interrupt) -> None:
    host.interrupt_after = 0
    with pytest.raises(interrupt):
        speak(nodes, model, text=["Hello there."] * 3)
    assert host.loads == []


@pytest.mark.parametrize(
    ("node", "inputs"),
    [
        ("PreviewText", {"text": "Hello there."}),
        ("OmniVoiceDictionary", {"entries": "a = b"}),
        ("Timings", {"timings": '{"lines": [{"text": "a", "start": 0, "end": 1}]}'}),
    ],
)
def test_cancel_is_heard_in_nodes_that_only_read(nodes, host, interrupt, node: str, inputs: dict[str, str]) -> None:
    execute = next(one.execute for name, one in nodes.items() if name.endswith(node))
    execute(**inputs)
    host.interrupt_after = 0
    with pytest.raises(interrupt):
        execute(**inputs)


@pytest.mark.parametrize("design", [None, {"gender": "female", "accent": "british accent"}])
def test_a_voice_that_was_not_recorded_can_be_kept(nodes, model, design) -> None:
    extra = {"design": nodes["OmniVoiceVoiceDesignAttributes"].execute(**design).values[0]} if design else {}
    _, (voice,), _, (report,) = speak(nodes, model, text="Hello there.", language="English", **extra)
    assert voice.text == "Hello there." and voice.frames > 0
    assert ("designed: female, british accent" if design else "the model's own choice") in report
    _, (again,), _, (onward,) = speak(nodes, model, text="And on.", voice=voice)
    assert again is voice and f"a recording of {voice.frames / 25:.1f} s" in onward


def test_the_report_names_what_was_asked_and_what_came(nodes, model) -> None:
    _, _, (seconds,), (report,) = speak(
        nodes,
        model,
        text="Hello. [sneeze] Bye.",
        duration=2.0,
        exact_length=True,
        guidance=1.5,
        t_shift=0.2,
        pad_seconds=0.5,
        denoise=False,
        steps=3,
        unconditional_every=2,
        chunking="upstream",
    )
    assert seconds == 2.0
    first, voice, frames, *_ = report.splitlines()
    assert first == "2.00 s, seed 3, 3 steps, guidance 1.5"
    assert voice == "voice: the model's own choice; language: auto"
    assert frames.startswith("frames: ") and "in 1 chunks" in frames
    (settings,) = [line for line in report.splitlines() if line.startswith("settings: ")]
    assert settings == (
        "settings: duration 2.0, exact_length True, denoise False, pad_seconds 0.5, chunking upstream, t_shift 0.2, "
        "unconditional_every 2"
    )
    assert "warning: approximate: " in report and "every 2 steps" in report and "sneeze" in report
    plain = speak(nodes, model, text="Hello there.")[3][0]
    assert "settings" not in plain and "warning" not in plain and "graphs" not in plain


def test_the_report_says_whether_graphs_ran(nodes, model, monkeypatch) -> None:
    monkeypatch.setattr(model.engine.sampler.graphs, "report", lambda: "CUDA graphs: used")
    reports = speak(nodes, model, text=["Hello.", "Bye."])[3]
    assert all("CUDA graphs: used" in report.splitlines() for report in reports) and len(reports) == 2


def test_a_wrong_item_of_a_list_is_named(nodes, model, host) -> None:
    """Its number and its first words, whether the node or the engine refuses it; nothing runs."""
    texts = ["Hello.", "A second one, with rather a lot of words in it.", "Third."]
    for inputs, message in (
        ({"voice": [None, "a voice"]}, r'^item 2 of 3 \("A second one, with .*…"\): voice must come from'),
        ({"speed": [1.0, 1.0, 9.0]}, r'^item 3 of 3 \("Third\."\): speed must be 0\.25-4, got 9'),
        ({"preset": ["draft", "best"]}, r"^item 2 of 3 .*: preset must be one of"),
        ({"text": ["One.", "___"]}, r'^item 2 of 2 \("___"\): .*nothing to speak'),
        ({"text": ["One.", None]}, r"^item 2 of 2 .*None.*: text must be a string, got None"),
        ({"split_lines": [True, "no"]}, r"^item 2 of 3: split_lines must be"),
        ({"exact_length": [False, True]}, r"^item 2 .*: exact_length needs a duration"),
    ):
        with pytest.raises(ValueError, match=message):
            speak(nodes, model, **{"text": texts, **inputs})
    assert host.loads == [] and host.progress == []
    with pytest.raises(ValueError, match=r"^speed must be"):
        speak(nodes, model, text="Hello.", speed=9.0)


def test_a_wrong_line_is_named_by_its_number_in_the_text(nodes, model) -> None:
    with pytest.raises(ValueError, match=r'^line 4 \("\.\.\."\): .*nothing to speak'):
        speak(nodes, model, text="One.\n\nTwo.\n...\nFive.", split_lines=True)
    with pytest.raises(ValueError, match=r'^item 2 of 2, line 3 \("-"\): .*nothing to speak'):
        speak(nodes, model, text=["One.", "Two.\n\n-"], split_lines=True)
    with pytest.raises(ValueError, match=r"^nothing to speak"):
        speak(nodes, model, text="\n \n", split_lines=True)


@pytest.mark.parametrize(("seconds", "warned"), [(600.0, False), (600.1, True), (4000.0, True)])
def test_long_speech_is_pointed_to_long_text(loaded_pack, seconds: float, warned: bool) -> None:
    speech = SimpleNamespace(warnings=("odd",), seconds=seconds)
    found = loaded_pack.speech.warnings_of({"": speech})
    assert found[0] == "odd"
    assert ["more than 10 minutes of speech: OmniVoice Long Text" in warning for warning in found[1:]] == [
        True
    ] * warned


def test_warnings_of_a_batch_say_which_item(nodes, model, host) -> None:
    _, _, _, reports = speak(
        nodes, model, text=["Hello there.", "[sneeze] Bye now.", "Good day."], unconditional_every=2
    )
    assert ["sneeze" in report for report in reports] == [False, True, False]
    assert all("warning: approximate" in report for report in reports)
    shown, node_id = host.texts[-1]
    assert node_id == "7"
    summary, *warnings = shown.splitlines()
    assert summary.startswith("3 recordings, ")
    assert sorted(line.partition(":")[0] for line in warnings) == ["approximate", 'item 2 of 3 ("[sneeze] Bye now.")']
    speak(nodes, model, text=["[sneeze] A b."] + ["[sneeze] B c."] * 7 + ["C d."])
    (line,) = host.texts[-1][0].splitlines()[1:]
    assert line.startswith('item 1 of 9 ("[sneeze] A b."), item 2 of 9 ') and " and 3 more: " in line


def test_progress_is_shown_on_the_node(nodes, model, host, loaded_pack, monkeypatch) -> None:
    monkeypatch.setattr(loaded_pack.host.progress, "PAUSE", 0)
    audios, *_ = speak(nodes, model, text=["Hello there.", "There it is."], steps=2)
    *lines, summary = [text for text, node_id in host.texts if node_id == "7"]
    assert [line.partition(",")[0] for line in lines] == ["chunk 2 of 2", "chunk 2 of 2"]
    assert all(line.endswith(" left") for line in lines) and lines[-1].endswith("0:00 left")
    seconds = sum(audio["waveform"].shape[2] for audio in audios) / 24_000
    assert summary == f"2 recordings, {seconds:.2f} s"


def test_progress_is_not_shown_all_the_time(nodes, model, host, loaded_pack, monkeypatch) -> None:
    monkeypatch.setattr(loaded_pack.host.progress, "PAUSE", 3600)
    speak(nodes, model, text="Hello there.", steps=4)
    assert len(host.texts) == 2 and "0 steps" not in host.texts[1][0]  # the first step, and the summary
    assert host.texts[1][0].endswith("4 steps, guidance 2")


@pytest.mark.parametrize(
    "language, shown", [("English", "English"), ("en", "en"), ("en-US", "en-US"), ("auto", "auto")]
)
def test_language_as_name_id_or_tag(nodes, model, language, shown) -> None:
    (waveform, *_), _, _, (report,) = speak(nodes, model, text="Hello there.", language=language)
    assert f"language: {shown}" in report and "warning" not in report
    if shown != "auto":
        english = speak(nodes, model, text="Hello there.", language="en")[0][0]
        assert torch.equal(waveform["waveform"], english["waveform"])


def test_language_takes_a_linked_text_and_any_spelling_on_every_node(nodes) -> None:
    """ComfyUI compares a value with a menu only where COMBO is the only type."""
    schemas = {name: node.define_schema() for name, node in nodes.items()}
    found = {name: i for name, schema in schemas.items() for i in schema.inputs if i.id == "language"}
    speaking = ("Synthesize", "Dialogue", "Subtitles", "LongText", "PreviewText", "Takes", "EditSpeech", "Redo")
    assert {*found} == {f"OmniVoice{name}" for name in (*speaking, "SaveVoice", "Dataset", "Transcribe", "Disclose")}
    for item in found.values():
        assert item.kind == "COMBO,STRING" and item.options[0] == item.default == "auto" and "English" in item.options


@pytest.mark.parametrize(
    "text, words",
    [
        (["Hello."], True),
        (None, True),  # linked
        ((None,), True),  # linked, too
        (["  "], "text"),
        (["x" * 200_001], "200000"),
        ([3], "text must be a string, got 3"),
        (["None"], "text must be a string, got None"),  # what ComfyUI makes of null
        (["None."], True),
    ],
)
def test_validation_of_the_text(nodes, text, words) -> None:
    got = nodes["OmniVoiceSynthesize"].validate_inputs(text=text)
    assert got is True if words is True else words in got


def test_validation_names_one_input_of_a_node_at_most(nodes) -> None:
    """ComfyUI repeats the message of validate_inputs for every input that it names. It wants growing lists named."""
    checks = {name: node.validate_inputs for name, node in nodes.items() if hasattr(node, "validate_inputs")}
    assert len(checks) == 17
    for name, check in checks.items():
        growing = [item.id for item in nodes[name].define_schema().inputs if hasattr(item, "template")]
        named = inspect.getfullargspec(check).args[1:]
        assert named and len(named) <= 1 + len(growing) and {*growing} <= {*named}, name
        assert not inspect.getfullargspec(check).varkw, name
