"""A whole model in one file: written and read back, equal to its folder; foreign files are named as what they are."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, safe_open, save_file

from omnivoice import CheckpointError, Engine, FileError, GenerationRequest, InputError, Sampling, Waveform
from omnivoice.__main__ import main
from omnivoice.errors import LoraError
from omnivoice.intake import tensors as intake_tensors
from omnivoice.weights import is_checkpoint, locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.lora import Difference, LoRA
from omnivoice.weights.lora_read import read_lora
from tests.unit.weights.lora_fixtures import with_lora

METADATA = {"format": "omnivoice_checkpoint", "format_version": "1"}


@pytest.fixture(scope="module")
def single(checkpoint, tmp_path_factory):
    return export_checkpoint(locate_checkpoint(checkpoint), tmp_path_factory.mktemp("single") / "Model.safetensors")


def codes(engine):
    request = GenerationRequest(text="Hello there.", seed=3, sampling=Sampling(steps=4))
    speech = engine.generate([request])[0]
    return speech.codes[0], speech.waveform.samples


def rewrite(path, to, change, metadata=METADATA):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, to, metadata=metadata)
    return to


def test_it_speaks_and_listens_as_its_folder_does(checkpoint, single):
    one, folder = Engine.load(single), Engine.load(checkpoint)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(codes(one), codes(folder), strict=True))
    tone = Waveform(0.3 * torch.sin(torch.arange(48_000) * 0.05)[None], 24_000)
    assert torch.equal(one.encode_voice(tone, "One two.").codes, folder.encode_voice(tone, "One two.").codes)
    assert one.tokenizer.used_ids == folder.tokenizer.used_ids


def test_it_holds_every_tensor_and_text_and_no_more(checkpoint, single):
    with safe_open(single, framework="pt") as file:
        assert file.metadata() == METADATA
    got = load_file(single)
    for name in ("config.json", "tokenizer.json", "audio_tokenizer/config.json"):
        assert got.pop(name).numpy().tobytes() == (checkpoint / name).read_bytes()
    lm, codec = load_file(checkpoint / "model.safetensors"), load_file(checkpoint / "audio_tokenizer/model.safetensors")
    lm.pop("codebook_layer_offsets", None)
    parts = {**lm, **{f"audio_tokenizer.{name}": tensor for name, tensor in codec.items()}}
    left_out = parts.keys() - got.keys()
    assert all(torch.equal(tensor, parts[name]) and tensor.dtype == parts[name].dtype for name, tensor in got.items())
    assert left_out and all(
        "fc1" in name
        or "decoder_semantic" in name
        or "embed_avg" in name
        or "cluster_size" in name
        or "inited" in name
        or "masked_spec" in name
        for name in left_out
    )


def test_exporting_it_again_gives_the_same_bytes(single, tmp_path):
    again = export_checkpoint(locate_checkpoint(single), tmp_path / "again.safetensors")
    assert again.read_bytes() == single.read_bytes()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_every_precision(checkpoint, tmp_path, dtype):
    path = export_checkpoint(locate_checkpoint(checkpoint), tmp_path / "m.safetensors", dtype=dtype)
    types = {name: tensor.dtype for name, tensor in load_file(path).items()}
    assert {kind for name, kind in types.items() if name.startswith(("llm.", "audio_h"))} == {dtype}
    assert {kind for name, kind in types.items() if name.startswith("audio_tokenizer.")} == {torch.float32}
    one, folder = Engine.load(path, dtype=dtype), Engine.load(checkpoint, dtype=dtype)
    if dtype != torch.bfloat16:  # stored as float16, whose text embedding bfloat16 rounds
        assert torch.equal(codes(one)[0], codes(folder)[0])
    for a, b in zip(one.lm.parameters(), folder.lm.parameters(), strict=True):
        assert torch.equal(a, b.to(dtype).to(b.dtype))  # norms and heads are read from the file in float32


def test_a_merged_lora_speaks_as_pefts_model(checkpoint, root, tmp_path):
    files, assets = locate_checkpoint(checkpoint), root / "tests" / "assets" / "lora"
    lora = read_lora(assets / "saved", files.lm_config)
    path = export_checkpoint(files, tmp_path / "m.safetensors", dtype=torch.float32, loras=[(lora, 1.0)])
    request = GenerationRequest(text="Good morning everyone.", seed=11, duration=1.0, sampling=Sampling(steps=6))
    tokens = load_file(assets / "recorded.safetensors")["saved/tokens"].long()
    assert torch.equal(Engine.load(path).generate([request])[0].codes[0], tokens)
    plain = export_checkpoint(files, tmp_path / "plain.safetensors")
    half = export_checkpoint(files, tmp_path / "half.safetensors", loras=[(lora, 0.5)])
    expected = with_lora(load_file(plain), lora, 0.5)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in load_file(half).items())


def test_strength_0_leaves_every_bit(checkpoint, root, tmp_path):
    files = locate_checkpoint(checkpoint)
    loras = [(read_lora(root / "tests" / "assets" / "lora" / "saved", files.lm_config), 0)]
    plain, same = (tmp_path / f"{name}.safetensors" for name in ("plain", "same"))
    assert export_checkpoint(files, plain).read_bytes() == export_checkpoint(files, same, loras=loras).read_bytes()


@pytest.mark.parametrize("strength", [11, -10.5, float("nan"), "1", None, True])
def test_strength_out_of_range(checkpoint, tmp_path, strength):
    with pytest.raises(InputError, match=r"strength must be -10 to 10, got"):
        export_checkpoint(locate_checkpoint(checkpoint), tmp_path / "m.safetensors", loras=[(LoRA("x", {}), strength)])


def test_a_failing_export_leaves_nothing(checkpoint, tmp_path):
    files = locate_checkpoint(checkpoint)
    heads = LoRA("x", {"audio_heads": Difference(torch.full((8200, 40), 6e4))})
    with pytest.raises(LoraError, match=r"audio_heads\.weight overflows in fp16"):
        export_checkpoint(files, tmp_path / "m.safetensors", loras=[(heads, 5.0)])
    assert list(tmp_path.iterdir()) == []


def test_only_its_own_kind_is_replaced(checkpoint, single, tmp_path):
    files = locate_checkpoint(checkpoint)
    own, foreign = shutil.copy(single, tmp_path / "own.safetensors"), tmp_path / "foreign.safetensors"
    save_file({"a": torch.ones(1)}, foreign)
    with pytest.raises(FileError, match="exists already"):
        export_checkpoint(files, own)
    assert export_checkpoint(files, own, overwrite=True) == own
    with pytest.raises(FileError, match="exists and is of another kind"):
        export_checkpoint(files, foreign, overwrite=True)


def test_one_tensor_at_a_time(checkpoint, tmp_path, monkeypatch):
    """The writer asks for a tensor when the one before it has been written."""
    order, raw = [], intake_tensors._bytes_of

    def seen(tensor, info):
        order.append(info.start)
        return raw(tensor, info)

    monkeypatch.setattr(intake_tensors, "_bytes_of", seen)
    alive = []
    write = intake_tensors.write_parts_atomic

    def counting(path, parts, **options):
        def one_by_one():
            for part in parts:
                alive.append(len(order))
                yield part

        return write(path, one_by_one(), **options)

    monkeypatch.setattr(intake_tensors, "write_parts_atomic", counting)
    export_checkpoint(locate_checkpoint(checkpoint), tmp_path / "m.safetensors")
    assert alive == list(range(len(alive))) and len(alive) > 100 and order == sorted(order)


def test_menus_know_it_and_nothing_else(checkpoint, single, tmp_path, root):
    assert is_checkpoint(single) and is_checkpoint(checkpoint)
    other = shutil.copy(single, tmp_path / "model.bin")
    empty, short = tmp_path / "empty.safetensors", tmp_path / "short.safetensors"
    empty.write_bytes(b"")
    short.write_bytes(single.read_bytes()[:5])
    for path in (
        other,
        empty,
        short,
        checkpoint / "model.safetensors",
        tmp_path / "absent.safetensors",
        tmp_path,
        root / "tests/assets/lora/saved/adapter_model.safetensors",
    ):
        assert not is_checkpoint(path)


def test_a_file_that_the_library_wrote_is_known_too(single, tmp_path):
    again = rewrite(single, tmp_path / "x.safetensors", lambda tensors: None)
    assert is_checkpoint(again) and torch.equal(codes(Engine.load(again))[0], codes(Engine.load(single))[0])


FOREIGN = [
    ({"x.lora_A.weight": torch.ones(2)}, None, "it is a LoRA; put it into models/loras and use OmniVoice Apply LoRA"),
    ({"llm.embed_tokens.weight": torch.ones(2)}, None, "the weight file of a model folder; give the folder that holds"),
    ({"acoustic_decoder.conv1.bias": torch.ones(2)}, None, "the weight file of a model folder"),
    ({"codes": torch.ones(2)}, {"format": "omnivoice_voice"}, "it is a voice; use OmniVoice Load Voice"),
    (
        {"unet": torch.ones(2)},
        None,
        r"it is another kind of file \(tensors such as 'unet'\); export one with python -m",
    ),
    (
        {"unet": torch.ones(2)},
        METADATA | {"format_version": "2"},
        "has format_version '2', this version reads 1: update",
    ),
    ({"unet": torch.ones(2)}, METADATA, r"lacks config\.json, audio_tokenizer/config\.json, tokenizer\.json: export"),
]


@pytest.mark.parametrize(("tensors", "metadata", "message"), FOREIGN, ids=[case[2][:20] for case in FOREIGN])
def test_foreign_files_are_named(tmp_path, tensors, metadata, message):
    save_file(tensors, tmp_path / "x.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=message):
        locate_checkpoint(tmp_path / "x.safetensors")


def spoil_missing(tensors):
    tensors.pop("audio_heads.weight")


def spoil_codec(tensors):
    tensors["audio_tokenizer.new"] = torch.ones(1)


def spoil_text(tensors):
    tensors["config.json"] = torch.frombuffer(bytearray(b"[1]"), dtype=torch.uint8)


def spoil_size(tensors):
    tensors["config.json"] = torch.zeros(2 << 20, dtype=torch.uint8)


def spoil_nan(tensors):
    tensors["audio_heads.weight"][0, 0] = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil_missing, r"1 missing: audio_heads\.weight"),
        (spoil_codec, "1 unknown: new"),
        (spoil_text, r"config\.json: expected a JSON object, got list"),
        (spoil_size, r"config\.json must be one row of at most 1048576 bytes"),
        (spoil_nan, r"audio_heads\.weight holds NaN or Inf"),
    ],
)
def test_spoilt_files_are_refused(single, tmp_path, change, message):
    with pytest.raises(FileError, match=message):
        Engine.load(rewrite(single, tmp_path / "x.safetensors", change))


def test_its_codec_serves_a_fine_tune_without_one(checkpoint, single, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "tune", ignore=shutil.ignore_patterns("audio_tokenizer"))
    with pytest.raises(CheckpointError, match="is a fine-tune without its codec: copy the folder audio_tokenizer"):
        Engine.load(folder)
    assert torch.equal(codes(Engine.load(folder, codec_folder=single))[1], codes(Engine.load(single))[1])
    assert torch.equal(codes(Engine.load(single, codec_folder=checkpoint))[1], codes(Engine.load(single))[1])


def test_on_the_command_line(checkpoint, root, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adapter = root / "tests" / "assets" / "lora" / "llm_only"
    out = tmp_path / "models" / "omnivoice" / "small.safetensors"
    out.parent.mkdir(parents=True)
    options = ["--dtype", "bf16", "--lora", str(adapter), "--strength", "0.5"]
    assert main(["export", "--model", str(checkpoint), "-o", str(out), *options]) == 0
    said = capsys.readouterr().out
    described = "9 LoRA A/B pairs (rank 3, scale 2) of llm_only at strength 0.5"
    assert said == f"wrote {out} (2.84 MB in 1 file)\n  with {described}\n"
    assert main(["export", "--model", str(checkpoint), "-o", "model.bin"]) == 1
    assert "the output must end in .safetensors, got 'model.bin'" in capsys.readouterr().err
    monkeypatch.delenv("OMNIVOICE_MODEL", raising=False)
    assert main(["info"]) == 0  # found in models/omnivoice
    assert f"model: {out} (2.84 MB in 1 file)" in capsys.readouterr().out
    assert main(["speak", "Hello.", "-o", str(tmp_path / "a.wav"), "--steps", "2"]) == 0
    assert (tmp_path / "a.wav").stat().st_size > 10_000
