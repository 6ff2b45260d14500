"""The estimate of working memory against the bytes that tensors really hold, and batches cut by a estimate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.model import byte_tokenizer, fill
from omnivoice import Engine, GenerationRequest, Sampling, VoicePrompt, Waveform
from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.codec.model import WINDOW_FRAMES
from omnivoice.config import AcousticConfig, CodecConfig, LMConfig, SemanticConfig
from omnivoice.generate import estimate
from omnivoice.generate.codec import Codec
from omnivoice.generate.estimate import CPU_LIBRARIES, BatchSize, SamplingMemory
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.run import Runner, run_order
from omnivoice.generate.sample import Sampler
from omnivoice.lm import OmniVoiceLM, TextEmbedding
from omnivoice.ops import PLAIN_OPS
from omnivoice.types import ALL_SPEEDUPS
from tests.tensor_peak import tensor_peak

CPU = torch.device("cpu")
PUBLISHED = LMConfig(
    vocab_size=151_676,
    hidden_size=1024,
    intermediate_size=3072,
    layers=28,
    heads=16,
    kv_heads=8,
    head_dim=128,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    codebooks=8,
    audio_vocab_size=1025,
    audio_mask_id=1024,
)
# A quarter of the published sizes in every direction, so that layers, scores and codec weigh as they do there.
QUARTER = replace(
    PUBLISHED,
    vocab_size=300,
    hidden_size=256,
    intermediate_size=768,
    layers=3,
    heads=4,
    kv_heads=2,
    audio_vocab_size=257,
    audio_mask_id=256,
)
CODEC = CodecConfig(
    acoustic=AcousticConfig(
        encoder_hidden_size=16,
        decoder_hidden_size=256,
        hidden_size=64,
        downsampling_ratios=(8, 5, 4, 2, 3),
        upsampling_ratios=(8, 5, 4, 2, 3),
    ),
    semantic=SemanticConfig(hidden_size=192, intermediate_size=768, num_hidden_layers=2, conv_dim=(128,) * 7),
    codebook_size=256,
    codebook_dim=16,
    target_bandwidths=(1.6,),
)
TEXT = "Hello there my friend, how are you today?"
LONG = "This is a sentence of a text that takes a while. " * 5
CUT = {"chunk_seconds": 3.0, "chunk_threshold_seconds": 3.0}


def build(dtype: torch.dtype) -> Engine:
    """An engine of these sizes with random weights."""
    generator = torch.Generator().manual_seed(0)
    lm = OmniVoiceLM(QUARTER, ops=PLAIN_OPS, device=CPU, dtype=dtype)
    decoder, encoder = (half(CODEC, ops=PLAIN_OPS, dtype=torch.float32) for half in (CodecDecoder, CodecEncoder))
    for module in (lm, decoder, encoder):
        fill(module, generator)
    text = TextEmbedding(torch.randn(QUARTER.vocab_size, QUARTER.hidden_size, generator=generator))
    sampler = Sampler(lm, text, CPU, ALL_SPEEDUPS, StepGraphs(enabled=False))
    return Engine(sampler, Codec(CODEC, decoder, lambda: encoder, CPU), byte_tokenizer())


@pytest.fixture(scope="module")
def tiny(checkpoint) -> Engine:
    return Engine.load(checkpoint)


@pytest.fixture(scope="module")
def proportioned() -> Engine:
    return build(torch.float32)


@pytest.fixture(scope="module")
def halved() -> Engine:
    return build(torch.bfloat16)


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    """The tiny checkpoint or the published proportions, as the test asks."""
    return request.getfixturevalue(request.param)


def request(text: str = TEXT, *, reference: int = 0, seconds: float = 2.0, **sampling: float) -> GenerationRequest:
    """`text` in so many seconds of audio, by a voice of so many frames; `LONG` is cut."""
    codes = torch.arange(8 * reference).view(8, reference) % 250
    voice = VoicePrompt(codes=codes, text="Good morning everyone.", rms=0.1) if reference else None
    settings, cut = Sampling(**{"steps": 2, **sampling}), CUT if text == LONG else {}
    return GenerationRequest(text, voice=voice, duration=seconds, sampling=settings, seed=1, **cut)


CASES = {
    "clone": [request(reference=75)],
    "long_clone": [request(reference=150, seconds=5.0)],
    "no_reference": [request()],
    "unguided": [request(reference=75, guidance=0.0)],
    "tokens_sampled": [request(reference=75, class_temperature=1.0)],
    "unguided_tokens_sampled": [request(guidance=0.0, class_temperature=1.0)],
    "lines": [request(reference=50, seconds=0.5 + i / 8) for i in range(8)],
    "long_text": [request(LONG, reference=50, seconds=9.0)],
    "long_text_without_reference": [request(LONG, seconds=9.0)],
    "stale_guidance": [request(reference=75, unconditional_every=2, steps=3)],
    "prefix_cache": [request(reference=75, prefix_every=2)],
}


@pytest.mark.parametrize("engine", ["tiny", "proportioned"], indirect=True)
@pytest.mark.parametrize(
    "case, rows",
    [*((case, estimate.MOST_ROWS_ON_CPU) for case in CASES), ("lines", 1), ("lines", 10**6), ("long_text", 10**6)],
)
def test_estimate_is_what_tensors_take(engine: Engine, case: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "MOST_ROWS_ON_CPU", rows)
    check_estimate(engine, case)


@pytest.mark.parametrize("case", ["clone", "unguided", "lines", "long_text_without_reference"])
def test_estimate_in_bfloat16(halved: Engine, case: str) -> None:
    check_estimate(halved, case)


def check_estimate(engine: Engine, case: str) -> None:
    plans = engine.plan(CASES[case])
    _, count = tensor_peak(lambda: engine.generate_plans(plans))
    assert 0.75 <= (engine.estimate_bytes(plans) - CPU_LIBRARIES) / count.peak <= 1.25, count.largest


@pytest.mark.parametrize("engine", ["tiny", "proportioned"], indirect=True)
@pytest.mark.parametrize("seconds", [1, 7])
def test_estimate_of_encoding(engine: Engine, seconds: int) -> None:
    noise = torch.randn(1, 24_000 * seconds, generator=torch.Generator().manual_seed(0))
    waveform = Waveform(noise * 0.1, 24_000)
    engine.encode_voice(waveform)  # reads the weights, which are not counted, and probes the machine
    _, count = tensor_peak(lambda: engine.encode_voice(waveform, "Good morning."))
    expected = engine.estimate_encode_bytes(waveform, "Good morning.") - CPU_LIBRARIES
    assert 0.75 <= expected / count.peak <= 1.25, count.largest


@pytest.fixture(scope="module")
def published_codec() -> tuple[CodecEncoder, CodecDecoder]:
    """The codec in its published sizes on `meta`: a device other than a CPU, which counts bytes and computes nothing.
    It has no fused attention."""
    acoustic = AcousticConfig(downsampling_ratios=(8, 5, 4, 2, 3), upsampling_ratios=(8, 5, 4, 2, 3))
    config = CodecConfig(acoustic=acoustic, semantic=SemanticConfig())
    return tuple(
        half(config, ops=PLAIN_OPS, device="meta", dtype=torch.float32) for half in (CodecEncoder, CodecDecoder)
    )


@pytest.mark.parametrize("seconds", [1, 5, 20, 60])
def test_encoding_on_a_gpu_is_bounded(published_codec: tuple[CodecEncoder, CodecDecoder], seconds: int) -> None:
    encoder = published_codec[0]
    _, count = tensor_peak(lambda: encoder.encode(torch.empty(1, 24_000 * seconds, device="meta")))
    expected = estimate.estimate_encoding(seconds, encoder.config, on_cpu=False)
    assert 0.75 <= expected / count.peak <= 1.25, count.largest
    assert expected < 0.35e9


@pytest.mark.parametrize("frames", [25, 250, WINDOW_FRAMES + estimate.CONTEXT])
def test_decoding_on_a_gpu_is_bounded(published_codec: tuple[CodecEncoder, CodecDecoder], frames: int) -> None:
    decoder = published_codec[1]
    codes = torch.empty(decoder.config.codebooks, frames, dtype=torch.int64, device="meta")
    with torch.no_grad():
        _, count = tensor_peak(lambda: decoder._decode(codes))
    expected = estimate.estimate_decoding(frames, decoder.config, on_cpu=False)
    assert 0.75 <= expected / count.peak <= 1.25, count.largest
    assert expected < 0.26e9


def test_a_long_reference_without_transcript_is_trimmed_first(tiny: Engine) -> None:
    whole, half = (Waveform(torch.zeros(1, 24_000 * seconds), 24_000) for seconds in (60, 20))
    assert tiny.estimate_encode_bytes(whole, " ") == tiny.estimate_encode_bytes(half)
    assert tiny.estimate_encode_bytes(whole, "words") > tiny.estimate_encode_bytes(half)


def test_nothing_needs_nothing(tiny: Engine) -> None:
    assert tiny.estimate_bytes([]) == 0


@settings(max_examples=60, deadline=None)
@given(
    free=st.integers(0, 1 << 40),
    itemsize=st.sampled_from([2, 4]),
    on_cpu=st.booleans(),
    guided=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_batch_within_the_rows_is_within_the_memory(
    free: int, itemsize: int, on_cpu: bool, guided: bool, share: float
) -> None:
    """Whatever the rows are: prefix or target, guided or not."""
    memory = SamplingMemory(PUBLISHED, itemsize, on_cpu)
    rows = memory.rows_within(free)
    assert 1 <= rows <= (estimate.MOST_ROWS_ON_CPU if on_cpu else estimate.MOST_ROWS)
    frames = max(1, int(rows * share) // (2 if guided else 1))
    size = BatchSize(max(0, rows - frames * (2 if guided else 1)), (frames,), Sampling(), guided)
    if rows > 1:
        assert memory.batch_bytes(size) <= 1.01 * estimate.SHARE * free


def test_rows_for_some_amounts_of_memory() -> None:
    """At the published sizes a row takes some 90 kB, so half a gigabyte is enough for the largest batch."""
    memory = SamplingMemory(PUBLISHED, 2, on_cpu=False)
    assert 60e3 < memory.row_bytes() < 110e3
    rows = [memory.rows_within(free) for free in (0, 10**8, 2 * 10**8, 10**9, None)]
    assert rows[0] == 1 and rows[3] == rows[4] == estimate.MOST_ROWS
    assert 400 < rows[1] < rows[2] < 1200


def test_the_memory_of_a_graph_is_counted_where_one_may_be_captured() -> None:
    """At least another step, and what the graph reads and writes; what fits into a batch does not depend on it."""
    eager, graphs = (SamplingMemory(PUBLISHED, 2, on_cpu=False, graphs=on) for on in (False, True))
    size = BatchSize(185, (125,), Sampling(), guided=True)
    logits, base = 125 * 8 * 1025 * 4, size.rows * 1024 * 4
    more = graphs.batch_bytes(size) - eager.batch_bytes(size)
    assert 2 * logits + base < more < 1.5 * eager.batch_bytes(size) + 2 * logits
    assert graphs.rows_within(10**8) == eager.rows_within(10**8)
    for other in (
        replace(size, sampling=Sampling(steps=8)),
        replace(size, sampling=Sampling(prefix_every=8)),
        replace(size, frames=(125,) * 20),
    ):
        assert graphs.batch_bytes(other) == eager.batch_bytes(other)


@pytest.mark.parametrize("rows", [1, 300, 600, 10**6])
def test_batches_are_those_that_run(tiny: Engine, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [CASES["lines"][i] for i in (0, 7)] + CASES["long_text"] + CASES["long_text_without_reference"]
    plans = tiny.plan([replace(r, sampling=Sampling(steps=1, guidance=i % 2)) for i, r in enumerate(requests)])
    runner, ran = Runner(tiny.sampler, tiny.tokenizer, rows), []

    def sample(sampler, items, noises, sampling, on_step):  # type: ignore[no-untyped-def]
        frames = tuple(item.frames for item in items)
        prefix = sum(item.length for item in items) - sum(frames)
        ran.append(BatchSize(prefix, frames, sampling, sampling.guidance != 0))
        return [torch.zeros(8, n, dtype=torch.int64) for n in frames]

    monkeypatch.setattr(Sampler, "sample", sample)
    runner.run(plans, None, None)
    assert ran == list(runner.batches(plans))
    assert all(size.rows <= rows or len(size.frames) == 1 for size in ran)
    assert sum(len(size.frames) for size in ran) == sum(len(plan.chunks) for plan in plans)


def test_chunks_run_together_unless_one_becomes_the_voice(tiny: Engine) -> None:
    plans = tiny.plan([*CASES["long_text"], *CASES["long_text_without_reference"]])
    given_voice, own_voice = (len(plan.chunks) for plan in plans)
    assert given_voice > 2 and own_voice > 2
    first, second = (set(jobs) for _, jobs in run_order(plans))
    assert first == {*((0, c) for c in range(given_voice)), (1, 0)}
    assert second == {(1, c) for c in range(1, own_voice)}


@pytest.mark.parametrize("shared", [False, True])
def test_memory_changes_no_token(tiny: Engine, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = tiny.plan([CASES["lines"][0], *CASES["long_text"], *CASES["long_text_without_reference"]])
    monkeypatch.setattr(estimate, "MOST_ROWS_ON_CPU", estimate.MOST_ROWS)
    memory, speeches, sizes = SamplingMemory(tiny.lm.config, tiny.lm.get_dtype().itemsize, on_cpu=True), [], []
    for rows in (1, 500, 1500):
        free = int(rows * memory.row_bytes() / estimate.SHARE) + 1
        generator = torch.Generator().manual_seed(3) if shared else None
        speeches.append(tiny.generate_plans(plans, generator=generator, free_bytes=free))
        sizes.append(tiny.estimate_bytes(plans, free_bytes=free))
    for speech in speeches[1:]:
        for ours, theirs in zip(speeches[0], speech):
            assert all(torch.equal(a, b) for a, b in zip(ours.codes, theirs.codes, strict=True))
    assert sizes[0] <= sizes[1] < sizes[2]
