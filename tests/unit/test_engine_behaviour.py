"""The engine from outside: determinism, batching, lengths, refusals. Numbers from upstream.md §5."""

import dataclasses
import math

import pytest
import torch

from omnivoice import (
    AudioError,
    Engine,
    GenerationRequest,
    InputError,
    NumericError,
    Sampling,
    TextError,
    VoiceDesign,
    VoicePrompt,
    Waveform,
)
from omnivoice.generate.voices import voice_of_speech
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.limits import MAX_VOICE_FRAMES
from omnivoice.types import ALL_SPEEDUPS, Speedups

FAST = Sampling(steps=3)
GREEDY = Sampling(steps=6, position_temperature=0.0)
TRANSCRIPT = "Good morning everyone, thank you for coming today."
COUNTED = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
CHUNKS = {"chunk_seconds": 3, "chunk_threshold_seconds": 3}
LONG = " ".join(f"This is sentence number {word} of a text that takes a while." for word in COUNTED)


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


@pytest.fixture(scope="module")
def voice(engine, root):
    return engine.encode_voice(read_audio(root / "tests" / "assets" / "wav" / "reference.wav"), TRANSCRIPT)


def request(text="Hello there, friend.", **fields):
    return GenerationRequest(text=text, **{"seed": 7, "sampling": FAST, **fields})


def say(engine, *requests, **options):
    return engine.generate(list(requests), **options)


def test_same_seed_same_speech_and_another_seed_another(engine):
    first, again, other = (say(engine, request(seed=seed))[0] for seed in (7, 7, 8))
    assert torch.equal(first.waveform.samples, again.waveform.samples)
    assert not torch.equal(first.codes[0], other.codes[0])


def test_the_high_bits_of_a_seed_count(engine):
    low, high = (say(engine, request(seed=seed))[0] for seed in (7, 7 + 2**32))
    assert not torch.equal(low.codes[0], high.codes[0]) and high.seed == 7 + 2**32


def test_a_fresh_seed_is_drawn_reported_and_reproduces(engine):
    first, second = (say(engine, request(seed=None))[0] for _ in range(2))
    assert first.seed != second.seed
    assert torch.equal(say(engine, request(seed=first.seed))[0].codes[0], first.codes[0])


def test_global_generator_is_untouched(engine, voice):
    state = torch.random.get_rng_state()
    say(engine, request(voice=voice, sampling=Sampling(steps=3, class_temperature=1.0)), request(seed=None))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize(
    "sampling", [FAST, GREEDY, Sampling(steps=3, class_temperature=1.0), Sampling(steps=3, guidance=0)]
)
def test_an_item_alone_equals_the_item_in_any_company(engine, voice, sampling):
    """Mixed modes, lengths, seeds and samplings in one call; short and long, with and without reference."""
    company = [
        request("A.", seed=1, sampling=sampling),
        request("Quite a bit longer than the first of them.", seed=2, voice=voice, sampling=sampling),
        request(LONG[:110], seed=3, sampling=sampling, **CHUNKS),
        request(LONG[:80], seed=4, voice=voice, sampling=sampling, **CHUNKS),
        request("Described.", seed=5, design="female, british accent", language="en", sampling=FAST),
    ]
    together = say(engine, *company)
    for item, speech in zip(company, together):
        alone = say(engine, item)[0]
        assert len(alone.codes) == len(speech.codes)
        assert all(torch.equal(a, b) for a, b in zip(alone.codes, speech.codes))
        assert torch.equal(alone.waveform.samples, speech.waveform.samples)


def test_splitting_a_batch_changes_nothing(engine, voice):
    from omnivoice.generate.run import Runner

    plans = engine.plan([request("One short."), request("Two, a little longer.", voice=voice), request("Three.")])
    for generator_seed in (None, 5):
        results = []
        for rows in (1, 10**6):
            shared = None if generator_seed is None else torch.Generator().manual_seed(generator_seed)
            runner = Runner(engine.sampler, engine.tokenizer, rows_per_batch=rows)
            with torch.inference_mode():
                results.append(runner.run(plans, shared, None))
        assert all(torch.equal(a[0], b[0]) for a, b in zip(*results))


@pytest.fixture(scope="module")
def with_every_speedup(engine, voice):
    """Requests of all kinds, and what the engine makes of them with all of its speedups."""
    requests = [
        request(LONG[:80], voice=voice, **CHUNKS),
        request("Short.", duration=0.04, sampling=Sampling(steps=12)),  # fewer tokens than steps reveal
        request("No guidance.", sampling=Sampling(steps=4, guidance=0)),
        request("Tokens sampled too.", sampling=Sampling(steps=4, class_temperature=1.0)),
    ]
    return requests, say(engine, *requests)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Speedups)])
def test_tokens_are_equal_without_each_speedup(with_every_speedup, checkpoint, name):
    requests, speeches = with_every_speedup
    plain = Engine.load(checkpoint, speedups=dataclasses.replace(ALL_SPEEDUPS, **{name: False}))
    for ours, theirs in zip(speeches, say(plain, *requests)):
        assert len(ours.codes) == len(theirs.codes)
        assert all(torch.equal(a, b) for a, b in zip(ours.codes, theirs.codes))
        # Samples are cut to 16 bits and then raised: a rounding in the codec moves one by its gain.
        torch.testing.assert_close(ours.waveform.samples, theirs.waveform.samples, atol=1e-3, rtol=0)


def test_guidance_zero_runs_no_unconditional_document(engine, monkeypatch):
    seen = []
    original = engine.lm.llm.forward

    def spy(rows, layout, **options):
        seen.append(len(layout.lengths))
        return original(rows, layout, **options)

    monkeypatch.setattr(engine.lm.llm, "forward", spy)
    say(engine, request(sampling=Sampling(steps=2, guidance=0)))
    say(engine, request(sampling=Sampling(steps=2, guidance=1)))
    assert seen == [1, 1, 2, 2]


def test_the_model_stops_when_nothing_is_masked(engine, monkeypatch):
    """One frame has 8 tokens: 8 of 32 steps run the model, and progress still reaches the end."""
    calls, progress = [], []
    original = engine.lm.forward
    monkeypatch.setattr(engine.lm, "forward", lambda *a, **k: calls.append(1) or original(*a, **k))
    speech = say(
        engine, request("A", duration=0.04, sampling=Sampling()), on_step=lambda d, t: progress.append((d, t))
    )[0]
    assert len(calls) == 8
    assert progress[-1] == (32, 32)
    assert speech.codes[0].shape == (8, 1)
    assert int(speech.codes[0].max()) < 1024


def test_the_voice_it_spoke_with_is_given_and_speaks_on(engine, voice):
    cloned, picked, described, long = say(
        engine, request(voice=voice), request(language="en"), request(design="female"), request(LONG[:110], **CHUNKS)
    )
    assert cloned.voice is voice
    for speech in (picked, described, long):
        assert torch.equal(speech.voice.codes, speech.codes[0]) and speech.voice.text == speech.chunks[0]
        assert 0 < speech.voice.rms <= 0.1
    assert (picked.voice.language, described.voice.language) == ("en", "")
    onward = say(engine, request("And on.", voice=picked.voice))[0]
    assert onward.voice is picked.voice


def test_a_very_long_chunk_is_a_voice_without_its_text(engine):
    plan = engine.plan([request("Word.", duration=61.0, sampling=Sampling(steps=1))])[0]
    assert len(plan.chunks) == 1 and plan.chunks[0].frames > MAX_VOICE_FRAMES
    codes = torch.randint(0, 1024, (8, plan.chunks[0].frames), generator=torch.Generator().manual_seed(0))
    kept = voice_of_speech(plan, codes, peak=1.0, codec=engine.codec_fingerprint)
    assert (
        kept.codec == engine.codec_fingerprint
        and kept.text == ""
        and torch.equal(kept.codes, codes[:, :MAX_VOICE_FRAMES])
        and kept.rms == 0.05
    )


def test_progress_counts_every_step_of_every_chunk(engine):
    seen = []
    requests = [request("Short."), request(LONG[:200], **CHUNKS)]
    chunks = sum(len(plan.chunks) for plan in engine.plan(requests))
    say(engine, *requests, on_step=lambda done, total: seen.append((done, total)))
    assert chunks > 3
    assert {total for _, total in seen} == {FAST.steps * chunks}
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == FAST.steps * chunks


def test_cancelling_from_on_step_leaves_the_engine_usable(engine):
    class Cancelled(BaseException):
        pass

    calls = []

    def cancel(done, total):
        calls.append(done)
        if done == 2:
            raise Cancelled

    expected = say(engine, request())[0]
    with pytest.raises(Cancelled):
        say(engine, request(), on_step=cancel)
    assert calls == [1, 2]
    assert torch.equal(say(engine, request())[0].codes[0], expected.codes[0])


@pytest.mark.parametrize("duration", [0.3, 1.0, 3.3333])
@pytest.mark.parametrize("pad", [0.0, 0.1])
@pytest.mark.parametrize("post_process", [True, False])
def test_exact_length(engine, voice, duration, pad, post_process):
    for reference in (None, voice):
        speech = say(
            engine,
            request(duration=duration, exact_length=True, pad_seconds=pad, voice=reference, post_process=post_process),
        )[0]
        assert speech.waveform.samples.shape == (1, round(duration * 24000))


def test_three_seconds_without_pads_are_72000_samples(engine):
    speech = say(engine, request(duration=3.0, pad_seconds=0.0, exact_length=True))[0]
    assert speech.waveform.samples.shape[1] == 72_000
    assert speech.codes[0].shape == (8, 75)


def test_a_minute_of_long_text_is_exact(engine):
    speech = say(engine, request(LONG, duration=60.0, exact_length=True, sampling=Sampling(steps=1)))[0]
    assert speech.waveform.samples.shape[1] == 1_440_000
    assert len(speech.codes) > 2
    frames = sum(c.shape[1] for c in speech.codes)
    assert frames == (1_440_000 - 2 * 2400 - (len(speech.codes) - 1) * 2400) // 960


def test_duration_of_long_text_is_kept_without_exact_length(engine):
    plan = engine.plan([request(LONG, duration=40.0)])[0]
    seconds = sum(chunk.frames for chunk in plan.chunks) / 25 + (len(plan.chunks) - 1) * 0.1
    assert seconds == pytest.approx(40.0, abs=0.04)


def test_speed_per_item(engine):
    fast, plain = (plan.chunks[0].frames for plan in engine.plan([request(speed=1.2), request(speed=None)]))
    assert fast < plain
    assert fast == int(plain / 1.2) or fast == int((plain + 0.999) / 1.2)


BAD = {
    "speed": [0, -1, 0.2, 4.1, math.nan, math.inf, "1", True],
    "duration": [0, -1, math.nan, math.inf, 601],
    "seed": [-1, 2**64, 1.5, True, "7"],
    "pad_seconds": [-0.1, math.nan, 11],
    "fade_seconds": [-0.1, math.nan, 11],
    "chunk_seconds": [0, math.nan],
    "chunking": ["words", None],
    "voice": ["voice.safetensors", {"codes": 1}],
    "sampling": [{"steps": 4}],
    "design": [5, "male, female", "warm narrator"],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BAD.items() for v in values])
def test_bad_values_are_refused_before_any_model_runs(engine, monkeypatch, field, value):
    monkeypatch.setattr(engine.lm, "forward", lambda *a: pytest.fail("the model ran"))
    with pytest.raises(InputError, match=field if field != "design" else "design|male|warm"):
        say(engine, request("fine"), request("also fine", **{field: value}))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("steps", 257),
        ("steps", 2.5),
        ("guidance", 25),
        ("guidance", math.nan),
        ("t_shift", 0),
        ("layer_penalty", -1),
        ("position_temperature", -1),
        ("class_temperature", math.inf),
    ],
)
def test_bad_sampling_is_refused(engine, field, value):
    with pytest.raises(InputError, match=f"{field} must be"):
        say(engine, request(sampling=dataclasses.replace(FAST, **{field: value})))


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-9, 100.0])
def test_temperatures_at_the_edge_of_float32_reveal_everything(engine, temperature):
    for sampling in (
        Sampling(steps=40, position_temperature=temperature),
        Sampling(steps=4, class_temperature=min(temperature, 10.0)),
    ):
        assert int(say(engine, request(sampling=sampling))[0].codes[0].max()) < 1024


def test_error_says_what_is_allowed(engine):
    with pytest.raises(InputError, match="guidance must be 0-10, got 25"):
        say(engine, request(sampling=Sampling(guidance=25)))


@pytest.mark.parametrize("text", ["", "   ", "____", "\n\n", "\u200b\ufeff", "!!!", "...", "\U0001f600"])
def test_nothing_to_speak_is_an_error_and_no_model_call(engine, monkeypatch, text):
    monkeypatch.setattr(engine.lm, "forward", lambda *a: pytest.fail("the model ran"))
    with pytest.raises(TextError):
        say(engine, request(text))


def test_an_unknown_language_is_refused(engine):
    with pytest.raises(InputError, match="'xx-nope' is not known"):
        engine.plan([request(language="xx-nope")])


@pytest.mark.parametrize("language", ["en", "EN", "en-US", "English", "en_GB"])
def test_a_language_is_an_id_a_tag_or_a_name(engine, language):
    assert engine.plan([request(language=language)])[0].language == "en"


def test_design_as_object_and_as_string_agree(engine):
    by_string = say(engine, request(design="Female, High Pitch"))[0]
    by_object = say(engine, request(design=VoiceDesign(("female", "high pitch"))))[0]
    assert torch.equal(by_string.codes[0], by_object.codes[0])
    assert not torch.equal(by_string.codes[0], say(engine, request())[0].codes[0])


def test_voice_is_used_and_its_level_is_kept(engine, voice):
    assert not torch.equal(say(engine, request(voice=voice))[0].codes[0], say(engine, request())[0].codes[0])
    loud = dataclasses.replace(voice, rms=0.1)
    quiet = dataclasses.replace(voice, rms=0.02)
    a, b = (say(engine, request(voice=v, post_process=False))[0].waveform.samples for v in (loud, quiet))
    torch.testing.assert_close(a * 0.2, b, atol=1e-6, rtol=1e-5)


def test_a_very_quiet_reference_does_not_silence_the_output(engine, voice):
    whisper = dataclasses.replace(voice, rms=1e-6)
    assert float(say(engine, request(voice=whisper))[0].waveform.samples.abs().max()) > 0.005


@pytest.mark.parametrize("codes", [torch.zeros(3, 20, dtype=torch.long), torch.full((8, 20), 1024)])
def test_voice_of_another_model_is_refused(engine, codes):
    with pytest.raises(InputError, match="another model"):
        say(engine, request(voice=VoicePrompt(codes=codes, text="x", rms=0.1)))


def test_voice_round_trip_speaks_the_same(engine, voice, tmp_path):
    voice.save(tmp_path / "v.safetensors")
    loaded = VoicePrompt.load(tmp_path / "v.safetensors")
    assert torch.equal(loaded.codes, voice.codes)
    assert (loaded.text, loaded.rms, loaded.codec) == (voice.text, voice.rms, engine.codec_fingerprint)
    a, b = (say(engine, request(voice=v))[0].waveform.samples for v in (voice, loaded))
    assert torch.equal(a, b)


def test_nan_weights_are_an_error_that_names_dtype_and_device(checkpoint):
    engine = Engine.load(checkpoint)
    engine.lm.llm.norm.weight.data[0] = torch.nan
    with pytest.raises(NumericError, match=r"in fp32 on cpu"):
        say(engine, request())
    engine = Engine.load(checkpoint)
    engine.codec.decoder.acoustic_decoder.conv2.weight.data[0] = torch.nan
    with pytest.raises(NumericError, match=r"codec.*torch\.float32 on cpu"):
        say(engine, request())


def tone(seconds, rate=24000, level=0.2, channels=1):
    t = torch.arange(int(seconds * rate)) / rate
    sweep = torch.sin(2 * math.pi * (200 + 150 * t) * t) * level
    return Waveform(sweep.repeat(channels, 1), rate)


@pytest.mark.parametrize("seconds", [0.02, 0.4])
def test_too_short_reference_is_refused(engine, seconds):
    with pytest.raises(AudioError, match=r"0\.5"):
        engine.encode_voice(tone(seconds), "x")


@pytest.mark.parametrize("spoil", [lambda s: s * 0, lambda s: s * torch.nan])
def test_silent_or_nan_reference_is_refused(engine, spoil):
    wave = tone(2.0)
    with pytest.raises(AudioError, match=r"silent|NaN|finite"):
        engine.encode_voice(Waveform(spoil(wave.samples), 24000), "x")


@pytest.mark.parametrize(
    ("wave", "word"),
    [
        (tone(2.0, rate=8000), "8000"),
        (Waveform(tone(2.0).samples * 10, 24000), "clip"),
        (tone(40.0), "40"),
        (Waveform(torch.cat([tone(2.0).samples, -tone(2.0).samples]), 24000), "phase|cancel"),
    ],
)
def test_odd_references_warn_and_give_codes(engine, wave, word):
    import re

    prompt = engine.encode_voice(wave, "Some words that were said.")
    assert any(re.search(word, warning) for warning in prompt.warnings), prompt.warnings
    K, T = prompt.codes.shape
    assert K == 8 and 0 < T <= wave.seconds * 25
    assert int(prompt.codes.min()) >= 0 and int(prompt.codes.max()) < 1024


def test_reference_without_transcript_warns(engine, root):
    prompt = engine.encode_voice(read_audio(root / "tests" / "assets" / "wav" / "reference.wav"))
    assert prompt.text == ""
    assert any("transcript" in warning for warning in prompt.warnings)
    assert say(engine, request(voice=prompt))[0].seconds > 0.5


@pytest.mark.parametrize("transcript", ["Hi.", "word " * 100])
def test_transcript_that_cannot_be_right_warns(engine, root, transcript):
    prompt = engine.encode_voice(read_audio(root / "tests" / "assets" / "wav" / "reference.wav"), transcript)
    assert any("transcript" in warning for warning in prompt.warnings)


def test_transcript_is_cleaned_and_ended(engine):
    prompt = engine.encode_voice(tone(3.0), "Said <b>so</b>\nand <|text_end|> so")
    assert prompt.text == "Said so and   so."
    assert any("<|text_end|>" in warning for warning in prompt.warnings)
    with pytest.raises(TextError, match="transcript has no word"):
        engine.encode_voice(tone(3.0), "...")
    with pytest.raises(TextError, match="transcript must be at most 2000"):
        engine.encode_voice(tone(3.0), "x" * 2001)


def zero_runs(samples, least):
    """Lengths of the stretches of exact zeros of at least `least` samples, the file's ends left out."""
    edges = torch.nonzero(samples[0] != 0)[:, 0]
    gaps = edges[1:] - edges[:-1] - 1
    return gaps[gaps >= least].tolist()


@pytest.mark.parametrize("mode", ["auto", "voice"])
@pytest.mark.parametrize("post_process", [True, False])
def test_a_pause_in_the_text_is_exactly_that_many_zeros(engine, voice, mode, post_process):
    reference = voice if mode == "voice" else None
    speech = say(engine, request("a [pause 0.5s] b", voice=reference, post_process=post_process))[0]
    assert speech.chunks == ("a", "b")
    runs = zero_runs(speech.waveform.samples, 1000)
    assert len(runs) == 1
    assert 12_000 <= runs[0] <= 12_003  # a fade begins and ends with a zero of its own


def test_pauses_at_both_ends_and_a_long_one(engine):
    speech = say(engine, request("[pause 1s] one two [pause 2s] three [pause 700ms]", pad_seconds=0.0))[0]
    samples = speech.waveform.samples[0]
    assert speech.chunks == ("one two", "three")
    assert not samples[:24_000].any() and samples[24_000:24_100].any()
    assert not samples[-16_800:].any() and samples[-16_900:-16_800].any()
    assert 48_000 <= zero_runs(speech.waveform.samples, 1000)[0] <= 48_003


def test_a_pause_before_everything(engine):
    plain, late = (
        say(engine, request(text, pad_seconds=0.0))[0].waveform.samples for text in ("One.", "[pause 1s]One.")
    )
    assert torch.equal(late, torch.nn.functional.pad(plain, (24_000, 0)))


def test_pauses_count_in_an_exact_length(engine):
    text = "one two three [pause 1.5s] four five six [pause 1s]"
    speech = say(engine, request(text, duration=6.0, exact_length=True))[0]
    assert speech.waveform.samples.shape[1] == 144_000
    assert sum(c.shape[1] for c in speech.codes) == (144_000 - 60_000 - 4_800) // 960
    assert any(36_000 <= run <= 36_003 for run in zero_runs(speech.waveform.samples, 1000))


def test_pauses_do_not_break_batches_or_long_text(engine, voice):
    texts = ["Hello. [pause 1s] Bye.", LONG[:75] + " [pause 300ms] " + LONG[:75]]
    requests = [
        request(t, seed=i, voice=v, **CHUNKS) for i, (t, v) in enumerate((t, v) for t in texts for v in (None, voice))
    ]
    for item, speech in zip(requests, say(engine, *requests)):
        alone = say(engine, item)[0]
        assert torch.equal(alone.waveform.samples, speech.waveform.samples)
        assert "".join(speech.chunks).replace(" ", "") in item.text.replace("[pause 1s]", "").replace(
            "[pause 300ms]", ""
        ).replace(" ", "")


def test_a_pause_without_words_is_nothing_to_speak(engine):
    with pytest.raises(TextError, match="nothing to speak"):
        say(engine, request("[pause 1s]"))


def test_batch_equals_single_with_greedy_positions_for_30_and_9_frames(engine):
    """upstream.md §5 case 7."""
    pair = [request("Long one.", duration=1.2, sampling=GREEDY), request("Short.", duration=0.36, sampling=GREEDY)]
    together = say(engine, *pair)
    assert [speech.codes[0].shape[1] for speech in together] == [30, 9]
    for item, speech in zip(pair, together):
        assert torch.equal(say(engine, item)[0].codes[0], speech.codes[0])


def test_tokens_equal_with_attention_written_out(engine, voice, monkeypatch):
    """upstream.md §5 case 8: another attention backend, guidance on, the same tokens."""
    from omnivoice.lm import body

    expected = say(engine, request(voice=voice), request("Second, longer than that one."))

    def written_out(q, k, v, queries, keys):  # q [Q, H, D], k and v [L, Hkv, D]
        k, v = (t[: sum(keys.lengths)].repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        parts = (q.split(queries.lengths), k.split(keys.lengths), v.split(keys.lengths))
        scores = (torch.einsum("qhd,khd->hqk", a, b) / q.shape[-1] ** 0.5 for a, b in zip(*parts[:2]))
        calls.append(len(q))
        return torch.cat([torch.einsum("hqk,khd->qhd", s.softmax(dim=-1), c) for s, c in zip(scores, parts[2])])

    calls = []
    monkeypatch.setattr(body, "attend", written_out)
    got = say(engine, request(voice=voice), request("Second, longer than that one."))
    assert calls and all(torch.equal(a.codes[0], b.codes[0]) for a, b in zip(expected, got))


def test_loud_and_quiet_reference_differ_only_by_gain(engine, root):
    """upstream.md §5 case 13."""
    recording = read_audio(root / "tests" / "assets" / "wav" / "reference.wav")
    quiet, quieter = (
        engine.encode_voice(Waveform(recording.samples * level, recording.sample_rate), TRANSCRIPT)
        for level in (0.5, 0.25)
    )
    assert quiet.rms == pytest.approx(2 * quieter.rms, rel=1e-4)
    assert float((quiet.codes == quieter.codes).float().mean()) > 0.98
    a, b = (
        say(engine, request(voice=dataclasses.replace(quiet, rms=v.rms)))[0].waveform.samples for v in (quiet, quieter)
    )
    torch.testing.assert_close(a, 2 * b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.2345, 3.0])
def test_codes_have_a_frame_for_every_960_samples(engine, seconds):
    """upstream.md §5 case 11: T = floor(samples / 960) of what trimming leaves; this sweep holds no silence."""
    prompt = engine.encode_voice(tone(seconds), "Some words.")
    assert prompt.codes.shape == (8, int(seconds * 24000) // 960)


def test_inputs_are_not_changed(engine, voice):
    before = voice.codes.clone()
    wave = tone(1.5)
    samples = wave.samples.clone()
    engine.encode_voice(wave, "x")
    say(engine, request(voice=voice))
    assert torch.equal(voice.codes, before)
    assert torch.equal(wave.samples, samples)


def test_no_requests_no_speech(engine):
    assert engine.generate([]) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float16_on_a_cpu_is_warned_about(checkpoint, dtype):
    (plan,) = Engine.load(checkpoint, dtype=dtype).plan([request()])
    assert any("fp16" in warning and "CPU" in warning for warning in plan.warnings) is (dtype == torch.float16)


def overflowing(checkpoint) -> Engine:
    """An engine in float16 whose first feed-forward overflows; in bfloat16 it computes what others do."""
    engine = Engine.load(checkpoint, dtype=torch.float16)
    mlp = engine.lm.llm.layers[0].mlp
    mlp.gate_up_proj.weight.mul_(512)
    mlp.down_proj.weight.mul_(2**-14)
    return engine


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_batch_that_overflows_in_float16_starts_again_in_bfloat16(checkpoint, temperature):
    sampling = Sampling(steps=4, class_temperature=temperature)
    requests = [GenerationRequest(text="Hello there.", seed=i, duration=1.0, sampling=sampling) for i in range(2)]
    wide, engine, steps = overflowing(checkpoint), overflowing(checkpoint), []
    assert wide.lm.continue_in_bfloat16() and not wide.lm.continue_in_bfloat16()
    expected = wide.generate(requests)
    got = engine.generate(requests, on_step=lambda done, total: steps.append((done, total)))
    for ours, theirs in zip(got, expected, strict=True):
        assert torch.equal(ours.codes[0], theirs.codes[0])
        assert any("fp16 overflowed" in warning and "bf16" in warning for warning in ours.warnings)
    assert steps == [(2, 8), (4, 8), (6, 8), (8, 8), *[(8, 8)] * 4]
    assert {layer.mlp.down_proj.weight.dtype for layer in engine.lm.llm.layers} == {torch.bfloat16}
    again: list[object] = []
    engine.generate(requests, on_step=lambda *step: again.append(step))
    assert len(again) == 4  # nothing is tried in float16 any more


def test_what_overflows_in_both_half_precisions_is_refused(checkpoint):
    engine = overflowing(checkpoint)
    engine.lm.llm.norm.weight.data[0] = torch.nan
    with pytest.raises(NumericError, match=r"in float16 and bfloat16 on cpu.*fp32"):
        engine.generate([GenerationRequest(text="Hello.", seed=1, duration=0.5, sampling=Sampling(steps=2))])
