"""Save Voice and Load Voice: a library on disk whose voices speak as they did before."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

SPOKEN = "One, two, three, four, five."


@pytest.fixture(scope="module")
def loaded(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory):
    """The tiny model and a voice made with it."""
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    model = loaded_pack.host.models.load_model("OmniVoice", "auto", "auto")
    tone = 0.3 * torch.sin(torch.arange(48_000) * 0.05)[None]
    return model, loaded_pack.host.speech.encode_voices(model, [loaded_pack.engine.Waveform(tone, 24_000)], [SPOKEN])[0]


@pytest.fixture
def model(loaded, host):
    return loaded[0]


@pytest.fixture
def voice(loaded, host):
    return loaded[1]


@pytest.fixture
def library(nodes, host) -> Path:
    """Where voices are kept; made by the first save."""
    return host.folder.parent / "omnivoice_voices"


@pytest.fixture
def save(nodes, voice):
    def run(name: object = "Anna", given: object = None, **inputs: object):
        """The voice and the info of one saved voice; as ComfyUI does, every value is a list of one."""
        lists = {key: [value] for key, value in inputs.items()}
        node = nodes["OmniVoiceSaveVoice"]
        ((passed_on,), (info,)) = node.execute(voice=[given or voice], name=[name], **lists).values
        return passed_on, info

    return run


@pytest.fixture
def save_all(nodes):
    """The infos of a list of voices."""

    def run(voices: list[object], names: list[object], **inputs: list[object]) -> list[str]:
        return nodes["OmniVoiceSaveVoice"].execute(voice=voices, name=names, **inputs).values[1]

    return run


@pytest.fixture
def load(nodes):
    def run(name: object = "Anna", **inputs: object):
        return nodes["OmniVoiceLoadVoice"].execute(voice_name=name, **inputs).values

    return run


def menu(nodes) -> list[str]:
    return nodes["OmniVoiceLoadVoice"].define_schema().inputs[0].options


def test_registered_beside_extra_model_paths(pack, host, tmp_path: Path) -> None:
    host.table["omnivoice_voices"] = ([str(tmp_path / "extra")], set())
    pack.host.voices.register_voice_folder()
    pack.host.voices.register_voice_folder()
    own = str(host.folder.parent / "omnivoice_voices")
    assert host.table["omnivoice_voices"] == ([str(tmp_path / "extra"), own], {".safetensors"})


def test_saved_and_loaded_is_the_same_voice_bit_for_bit(nodes, save, load, voice, model, host) -> None:
    passed_on, info = save(language="English", consent="Anna herself, 3 May")
    assert passed_on is voice
    assert (
        info == f"saved: Anna: {voice.frames / 25:.1f} s, 8 codebooks, codec {voice.codec}, language English; "
        "consent: Anna herself, 3 May"
    )
    again, transcript, language, line, preview = load()
    assert torch.equal(again.codes, voice.codes) and again.codes.dtype == voice.codes.dtype
    assert (again.text, again.rms) == (voice.text, voice.rms) and transcript == voice.text == SPOKEN
    assert (again.name, language, line) == ("Anna", "English", info.removeprefix("saved: "))
    assert (
        preview.message
        == "to listen to a saved voice, connect Load OmniVoice to the model input of OmniVoice Load Voice"
    )
    speak = nodes["OmniVoiceSynthesize"]
    spoken = speak.execute(model=[model], text=["Hello."], seed=[3], steps=[4], voice=[voice, again])
    heard, voices = spoken.values[:2]
    assert voices == [voice, again]
    assert torch.equal(heard[0]["waveform"], heard[1]["waveform"])


def test_labels_are_kept_when_not_given_anew(save, load) -> None:
    save(language="English", consent="Anna")
    (first, *_) = load()
    save("Anna 2", given=first)
    second, _, language, info, _ = load("Anna 2")
    assert (second.name, language, second.consent) == ("Anna 2", "English", "Anna") and "consent: Anna" in info


def test_a_language_of_ones_own_can_be_linked_on(nodes, save, load, model) -> None:
    save(language="id:la")
    again, _, language, *_ = load()
    assert language == "id:la"
    spoken = nodes["OmniVoiceSynthesize"].execute(
        model=[model], text=["Salve, amice."], seed=[3], steps=[1], language=[language], voice=[again]
    )
    assert any("la: not a language of OmniVoice" in str(value) for value in spoken.values)


def test_without_labels(save, load) -> None:
    _, info = save()
    assert "language not given; consent: not noted" in info
    assert load()[2] == "auto"


def test_preview_is_decoded_from_the_codes(save, load, model, voice, host) -> None:
    save()
    preview = load(model=model)[4]
    assert preview["sample_rate"] == 24_000 and preview["waveform"].shape == (1, 1, voice.frames * 960)
    assert bool(torch.isfinite(preview["waveform"]).all()) and float(preview["waveform"].std()) > 1e-5
    assert host.loads[-1][0] == [model.decoder] and host.loads[-1][1] > 0


def test_a_voice_of_another_model(nodes, save, load, model, voice, pack) -> None:
    other = type(voice)(codes=voice.codes[:3], text="Hello.", rms=0.1)
    save(given=other)
    with pytest.raises(ValueError, match="it was made with another model"):
        load(model=model)
    with pytest.raises(ValueError, match="it was made with another model"):
        nodes["OmniVoiceSynthesize"].execute(model=[model], text=["Hello."], voice=[load()[0]])


def test_a_voice_of_another_codec_is_refused_before_anything_is_loaded(save, load, model, voice, host) -> None:
    assert voice.codec == model.engine.codec_fingerprint != ""
    save("known")
    save("other", given=replace(voice, codec="0123456789abcdef"))
    save("unknown", given=replace(voice, codec=""))
    assert load("known", model=model)[0].codec == voice.codec and f"codec {voice.codec}" in load("known")[3]
    loads = len(host.loads)
    with pytest.raises(ValueError, match=f"another model's codec .0123456789abcdef.*codec is {voice.codec}"):
        load("other", model=model)
    assert len(host.loads) == loads
    assert "codec 0123456789abcdef" in load("other")[3]
    assert "codec unknown" in load("unknown")[3] and load("unknown", model=model)[4]["waveform"].numel()


def test_menu_is_fresh_and_says_when_it_is_empty(nodes, save, load, library: Path) -> None:
    assert menu(nodes) == ["no voice found in models/omnivoice_voices"]
    with pytest.raises(
        ValueError, match="no voice found in models/omnivoice_voices: save one with OmniVoice Save Voice"
    ):
        load("no voice found in models/omnivoice_voices")
    for name in ("b", "A", "\u0410\u043d\u043d\u0430"):
        save(name)
    (library / "notes.txt").write_text("x")
    (library / "folder.safetensors").mkdir()
    assert menu(nodes) == ["A", "b", "\u0410\u043d\u043d\u0430"]


def test_a_deleted_voice(nodes, save, load, library: Path) -> None:
    save()
    save("Bob")
    before = nodes["OmniVoiceLoadVoice"].fingerprint_inputs(voice_name="Anna")
    (library / "Anna.safetensors").unlink()
    message = "voice_name must be one of Bob, got 'Anna': press R to refresh the list"
    with pytest.raises(ValueError, match=message):
        load()
    assert nodes["OmniVoiceLoadVoice"].validate_inputs(voice_name="Anna") == message
    assert nodes["OmniVoiceLoadVoice"].validate_inputs(voice_name="Bob") is True
    assert nodes["OmniVoiceLoadVoice"].validate_inputs(voice_name=None) is True  # linked
    assert before != nodes["OmniVoiceLoadVoice"].fingerprint_inputs(voice_name="Anna") == ""


def test_fingerprint_follows_the_file(nodes, save) -> None:
    node = nodes["OmniVoiceLoadVoice"]
    save()
    before = node.fingerprint_inputs(voice_name="Anna")
    assert before == node.fingerprint_inputs(voice_name="anna") != ""
    save(consent="Anna", overwrite=True)
    assert node.fingerprint_inputs(voice_name="Anna") != before
    assert node.fingerprint_inputs(voice_name=None) == ""


def test_a_replaced_file_of_equal_size_and_time_is_noticed(nodes, save, library: Path) -> None:
    save(consent="one")
    file = library / "Anna.safetensors"
    before, status = nodes["OmniVoiceLoadVoice"].fingerprint_inputs(voice_name="Anna"), file.stat()
    file.write_bytes(file.read_bytes().replace(b'"one"', b'"two"'))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert nodes["OmniVoiceLoadVoice"].fingerprint_inputs(voice_name="Anna") != before


def test_names_match_in_any_unicode_form_case_and_slash(nodes, save, load, library: Path) -> None:
    library.mkdir(parents=True)
    save("x", consent="the one")
    composed, decomposed = "J\u00fcrgen", unicodedata.normalize("NFD", "J\u00fcrgen")
    (library / decomposed).mkdir()
    os.rename(library / "x.safetensors", library / decomposed / f"{decomposed}.safetensors")
    assert menu(nodes) == [f"{composed}/{composed}"]
    for name in (f"{composed}/{composed}", f"{decomposed}\\{decomposed}", f"j\u00fcrgen/{composed}.safetensors"):
        assert nodes["OmniVoiceLoadVoice"].validate_inputs(voice_name=name) is True
        assert load(name)[0].consent == "the one"
    assert save(f"{composed}\\{composed}", consent="the one")[1].startswith("already saved: ")
    with pytest.raises(ValueError, match="in the library already"):
        save(f"{decomposed}/J\u00dcRGEN")


def test_names_that_differ_in_case_only_must_be_exact(save, load, library: Path) -> None:
    save("Anna", consent="upper")
    (library / "anna.safetensors").write_bytes((library / "Anna.safetensors").read_bytes())
    if len(os.listdir(library)) == 2:  # the file system knows case
        assert load("Anna")[3].startswith("Anna: ") and load("anna")[3].startswith("anna: ")
        with pytest.raises(ValueError, match="could be any of"):
            load("ANNA")


def test_subfolders(nodes, save, load, library: Path) -> None:
    assert save("series/anna")[1].startswith("saved: series/anna: ")
    save("Series\\Bob")  # the same folder, on every file system
    save("a/b/c/d/e")
    save("top")
    assert menu(nodes) == ["a/b/c/d/e", "series/Bob", "series/anna", "top"]
    assert load("series/anna")[0].name == "anna"
    (library / "a/b/c/d/deeper").mkdir()
    for place in ("a/b/c/d/deeper/x", ".hidden", "series/._anna"):
        shutil.copy(library / "top.safetensors", library / f"{place}.safetensors")
    assert len(menu(nodes)) == 4


def test_links_that_leave_the_library(nodes, save, load, library: Path, tmp_path: Path) -> None:
    save("inside/anna")
    (tmp_path / "out").mkdir()
    shutil.copy(library / "inside" / "anna.safetensors", tmp_path / "out" / "x.safetensors")
    (library / "folder").symlink_to(tmp_path / "out")
    (library / "loop").symlink_to(library)
    (library / "a.safetensors").symlink_to("a.safetensors")
    (library / "file.safetensors").symlink_to(tmp_path / "out" / "x.safetensors")
    (library / "same.safetensors").symlink_to(library / "inside" / "anna.safetensors")
    assert menu(nodes) == ["inside/anna", "same"]
    with pytest.raises(ValueError, match="name 'folder/bob' leads out of its folder through a link"):
        save("folder/bob")
    assert os.listdir(tmp_path / "out") == ["x.safetensors"]


def test_a_huge_library_is_listed_in_part_with_a_warning(nodes, save, pack, monkeypatch, caplog) -> None:
    for name in "abc":
        save(name)
    monkeypatch.setattr(pack.host.folders, "MAX_ENTRIES", 2)
    assert menu(nodes) == ["a", "b"]
    assert "omnivoice_voices holds more than 2 entries: not all are listed" in caplog.text


class Listed:
    """An entry of a listing that counts what it is asked for, all entries together."""

    looked = 0

    def __init__(self, folder: str, name: str) -> None:
        self.name, self.path = name, os.path.join(folder, name)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        Listed.looked += 1
        return False

    def is_symlink(self) -> bool:
        return False


def test_a_library_of_50_000_voices_costs_a_bounded_number_of_looks(nodes, library: Path, pack, monkeypatch) -> None:
    """The folder is listed once. One entry in five is looked at, and no path of an ordinary file is followed."""
    library.mkdir(parents=True)
    names = [f"voice {number:05d}" for number in range(50_000)]
    listings, asked, followed = list[str](), list[str](), list[str]()
    scandir, realpath = os.scandir, os.path.realpath

    def listing(path: object) -> object:
        if Path(str(path)) != library:
            return scandir(path)
        listings.append(str(path))
        return contextlib.nullcontext([Listed(str(path), f"{name}.safetensors") for name in names])

    def real(path: object, **options: object) -> str:
        followed.append(str(path))
        return realpath(path, **options)

    monkeypatch.setattr(Listed, "looked", 0)
    monkeypatch.setattr(os, "scandir", listing)
    monkeypatch.setattr(os.path, "realpath", real)
    monkeypatch.setattr(pack.host.folders, "isfile", lambda path: not asked.append(path))
    assert menu(nodes) == names[:10_000]
    assert (len(listings), Listed.looked, len(asked)) == (1, 10_000, 10_000)
    assert len(followed) <= 10


def refuse(path: object) -> None:
    """As a full disk does, for the third voice of a batch."""
    if str(path).endswith("anna 3.safetensors"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def others(voice, count: int) -> list[object]:
    return [type(voice)(codes=voice.codes.roll(i, 1), text=f"Voice {i}.", rms=0.1) for i in range(count)]


def test_a_batch_is_numbered(nodes, save_all, load, voice) -> None:
    voices = others(voice, 3)
    infos = save_all(voices, ["anna"], consent=["Anna"])
    assert [info.partition(": ")[2].partition(":")[0] for info in infos] == ["anna 1", "anna 2", "anna 3"]
    assert [load(f"anna {i}")[1] for i in (1, 2, 3)] == ["Voice 0.", "Voice 1.", "Voice 2."]
    assert all(info.startswith("already saved: anna ") for info in save_all(voices, ["anna"], consent=["Anna"]))
    assert nodes["OmniVoiceSaveVoice"].execute(voice=voices, name=["b"]).values[0] == voices


def test_a_batch_with_a_name_for_each(save_all, load, voice) -> None:
    save_all(others(voice, 2), ["series/anna", "bob"], language=["German", "auto"], consent=["A", ""])
    assert (load("series/anna")[2], load("bob")[2], load("series/anna")[0].consent) == ("German", "auto", "A")


@pytest.mark.parametrize(
    "names, inputs, message",
    [
        (["anna", "b"], {}, "name must be one value, or as many as there are voices .3., got 2"),
        (["anna", "b", "ANNA"], {}, "name 'ANNA' is given twice"),
        (["anna", "b", "../c"], {}, "name '../c' cannot be used"),
        (["x" * 108], {}, "cannot be used: a file name must be 1-120 bytes"),
        (["taken"], {}, "a voice named 'taken 2' or 'taken 3' is in the library already"),
        (["a", "b", "Taken 3"], {}, "a voice named 'taken 3' is in the library already"),
        (["a"], {"language": ["auto", "English"]}, "language must be one value, or as many as there are voices"),
        (["a"], {"language": ["auto", "auto", "Klingon"]}, "language 'Klingon' is not known"),
        (["a"], {"consent": ["", "", 3]}, "consent must be a string, got 3"),
        (["a"], {"overwrite": [True, False]}, "overwrite must be the same for every item"),
    ],
)
def test_a_bad_batch_writes_nothing(
    save, save_all, voice, library: Path, names: list[object], inputs: dict, message: str
) -> None:
    save("taken 2", consent="earlier")
    save("taken 3", consent="earlier")
    before = {path: path.read_bytes() for path in library.rglob("*.safetensors")}
    with pytest.raises(ValueError, match=message):
        save_all(others(voice, 3), names, **inputs)
    assert {path: path.read_bytes() for path in library.rglob("*.safetensors")} == before


def test_a_bad_voice_of_a_batch_is_named(save_all, voice, library: Path) -> None:
    with pytest.raises(ValueError, match="voice 2 of 3 must come from Reference Audio, got None"):
        save_all([voice, None, voice], ["anna"])
    with pytest.raises(ValueError, match="voice is an empty list"):
        save_all([], ["anna"])
    assert not library.exists()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("reason", ["voice", "disk"])
def test_a_batch_that_cannot_be_finished_is_taken_back(
    pack, save, save_all, voice, library: Path, overwrite: bool, reason: str, monkeypatch
) -> None:
    """The third voice cannot be written. What the first two replaced comes back."""
    save("other")
    if overwrite:
        save("anna 1", consent="the old one")
    before = {path: path.read_bytes() for path in library.rglob("*") if path.is_file()}
    voices = others(voice, 3)
    if reason == "voice":
        voices[2] = type(voice)(codes=torch.zeros(65, 5, dtype=torch.int64), text="", rms=0.1)
    elif overwrite:
        (library / "anna 3.safetensors").write_bytes(b"a file of another kind")
        before[library / "anna 3.safetensors"] = b"a file of another kind"
    else:
        for name in ("link", "rename"):
            real = getattr(os, name)
            monkeypatch.setattr(os, name, lambda source, target, real=real: refuse(target) or real(source, target))
    with pytest.raises((ValueError, pack.engine.FileError)):
        save_all(voices, ["anna"], overwrite=[overwrite])
    assert {path: path.read_bytes() for path in library.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("language", ["de", "de-DE", "German", "german", "DE_de"])
def test_languages_by_id_tag_and_name(save, load, language: str) -> None:
    save(language=language)
    assert load()[2] == "German"


def test_linked_values_pass_validation(nodes) -> None:
    assert nodes["OmniVoiceSaveVoice"].validate_inputs(name=(None,)) is True
    assert nodes["OmniVoiceSaveVoice"].validate_inputs() is True


@pytest.mark.parametrize(
    "name",
    ["../Anna", "/etc/passwd", "C:\\x", "Anna/../..", "", "a\0b", None, 3, ["Anna"], {"a": 1}, "Ann", "series/Anna"],
    ids=repr,
)
def test_only_a_listed_name_is_loaded(save, load, name: object) -> None:
    save()
    with pytest.raises(ValueError, match="voice_name must be one of Anna, got"):
        load(name)


HOSTILE = [
    "",
    "   ",
    ".",
    "..",
    "../x",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    "a/.hidden",
    "a /b",
    "a/CON/b",
    "a/b/c/d/e/f",
    "a\uff0fb",
    "/etc/passwd",
    "C:\\x",
    "\\\\host\\share",
    "a:stream",
    "a\0b",
    "a\nb",
    ".hidden",
    "a\u202eb",
    "a%year%b",
    "a*",
    "a|b",
    '"a"',
    "CON",
    "nul",
    "com1",
    "NUL.tar",
    "x" * 200,
    "\u00e9" * 60,
    ".safetensors",
    None,
    3,
    ["a"],
    {"a": 1},
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_are_refused_and_nothing_is_written(nodes, save, host, library: Path, name: object) -> None:
    with pytest.raises(ValueError, match="name"):
        save(name)
    assert not library.exists() or os.listdir(library) == []
    if name is not None:
        assert "name" in nodes["OmniVoiceSaveVoice"].validate_inputs(name=[name])


@pytest.mark.parametrize(
    "name, stem",
    [
        ("my voice", "my voice"),
        (" Anna ", "Anna"),
        ("Anna.safetensors", "Anna"),
        ("a-b_c.d 2", "a-b_c.d 2"),
        ("\u0410\u043d\u043d\u0430", "\u0410\u043d\u043d\u0430"),
        ("\u5c0f\u660e", "\u5c0f\u660e"),
        ("\u0e2d\u0e32\u0e17\u0e34\u0e15\u0e22\u0e4c", "\u0e2d\u0e32\u0e17\u0e34\u0e15\u0e22\u0e4c"),
        ("\u0928\u093e\u092e", "\u0928\u093e\u092e"),
        (unicodedata.normalize("NFD", "J\u00fcrgen"), "J\u00fcrgen"),
        ("Anna \U0001f600 \u2764\ufe0f", "Anna \U0001f600 \u2764\ufe0f"),
        ("\U0001f469\U0001f3fd\u200d\U0001f680", "\U0001f469\U0001f3fd\u200d\U0001f680"),
        (
            "\u30b8\u30e7\u30f3\u30fb\u30b9\u30df\u30b9\uff08\u7537\uff09",
            "\u30b8\u30e7\u30f3\u30fb\u30b9\u30df\u30b9\uff08\u7537\uff09",
        ),
        ("Anna\u2019s \u2013 \u00ab1\u00bb", "Anna\u2019s \u2013 \u00ab1\u00bb"),
    ],
    ids=ascii,
)
def test_names_of_any_script(nodes, save, load, library: Path, name: str, stem: str) -> None:
    assert nodes["OmniVoiceSaveVoice"].validate_inputs(name=[name]) is True
    save(name)
    assert os.listdir(library) == [f"{stem}.safetensors"] and menu(nodes) == [stem]
    assert load(stem)[0].codes.shape and load(name.strip())[3].startswith(f"{stem}: ")
    assert save(name)[1].startswith("already saved: ")


def test_a_taken_name(save, load, voice, library: Path) -> None:
    save()
    whole = (library / "Anna.safetensors").read_bytes()
    assert save()[1].startswith("already saved: Anna: ")  # the very same voice: the workflow was run again
    other = type(voice)(codes=voice.codes.flip(1), text="Other.", rms=0.1)
    for name in ("Anna", "anna", "ANNA.safetensors"):
        with pytest.raises(ValueError, match="a voice named 'Anna' is in the library already: choose another name, or"):
            save(name, given=other)
    assert (library / "Anna.safetensors").read_bytes() == whole and os.listdir(library) == ["Anna.safetensors"]
    save("anna", given=other, overwrite=True)
    assert os.listdir(library) == ["Anna.safetensors"] and load()[1] == "Other."


def test_a_foreign_file_is_never_replaced(pack, save, library: Path) -> None:
    library.mkdir(parents=True)
    for content in (b"not a safetensors file", b""):
        (library / "Anna.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match="is in the library already"):
            save()
        with pytest.raises(pack.engine.FileError, match="exists and was not made by this program"):
            save(overwrite=True)
        assert (library / "Anna.safetensors").read_bytes() == content


def test_bad_files_in_the_library(pack, load, library: Path, checkpoint: Path) -> None:
    library.mkdir(parents=True)
    (library / "junk.safetensors").write_bytes(b"\x80\x02pickle" * 9)
    shutil.copy(checkpoint / "audio_tokenizer" / "model.safetensors", library / "model.safetensors")
    for name, message in (("junk", "junk.safetensors"), ("model", "model.safetensors is not a voice file")):
        with pytest.raises(pack.engine.FileError, match=message) as caught:
            load(name)
        assert str(library) not in str(caught.value)


def test_first_place_of_a_name_wins_and_new_voices_go_there(pack, host, save, load, voice, tmp_path: Path) -> None:
    extra, own = tmp_path / "extra", host.folder.parent / "omnivoice_voices"
    save()
    host.table["omnivoice_voices"][0].insert(0, str(extra))
    save(consent="second")
    assert {path.name for path in extra.iterdir()} == {path.name for path in own.iterdir()} == {"Anna.safetensors"}
    assert load()[0].consent == "second"
    shutil.rmtree(extra)
    assert load()[0].consent == ""


def test_a_voice_without_transcript_warns_when_loaded(save, load, voice, host) -> None:
    save(given=type(voice)(codes=voice.codes, text="", rms=0.1))
    load()
    assert "no transcript" in host.texts[0][0] and host.texts[0][1] == "7"


BAD = [
    ("voice", None, "voice must come from Reference Audio, got None"),
    ("name", None, "name must be a string, got None"),
    ("name", ["a"], "name must be a string, got list"),
    ("language", "Klingon", "language 'Klingon' is not known"),
    ("language", ["English"], "language must be a string, got list"),
    ("consent", "x" * 501, "consent must be at most 500 characters, got 501"),
    ("overwrite", "false", "overwrite must be true or false, got 'false'"),
    ("overwrite", 1, "overwrite must be true"),
]


@pytest.mark.parametrize("name, value, message", BAD, ids=lambda v: repr(v)[:30])
def test_bad_values(nodes, voice, library: Path, name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nodes["OmniVoiceSaveVoice"].execute(**{"voice": [voice], "name": ["Anna"], name: [value]})
    assert not library.exists()


def test_none_on_an_optional_input_is_its_default(nodes, voice) -> None:
    optional = [i.id for i in nodes["OmniVoiceSaveVoice"].define_schema().inputs if i.optional]
    assert optional == ["language", "consent", "overwrite"]
    save = nodes["OmniVoiceSaveVoice"].execute
    (info,) = save(voice=[voice], name=["Anna"], **{name: [None] for name in optional}).values[1]
    assert "language not given; consent: not noted" in info


def test_the_table_of_bad_values_has_every_input(nodes) -> None:
    inputs = nodes["OmniVoiceSaveVoice"].define_schema().inputs
    assert [i.id for i in inputs] == list(dict.fromkeys(name for name, *_ in BAD))


@pytest.mark.parametrize(
    "literal", [{"path": "/etc/passwd"}, "text", 0, [], None, pytest.param(object(), id="an object")], ids=repr
)
def test_literal_on_a_socket(nodes, save, load, library: Path, literal: object) -> None:
    with pytest.raises(ValueError, match="voice must come from Reference Audio, got"):
        nodes["OmniVoiceSaveVoice"].execute(voice=[literal], name=["Anna"])
    assert not library.exists()
    if literal is not None:
        save()
        with pytest.raises(ValueError, match="model must come from Load OmniVoice, got"):
            load(model=literal)
