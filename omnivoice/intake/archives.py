"""Zip archives as torch.save writes them: small, uncompressed, in one folder. Checked before an entry is read."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from os import PathLike

from ..errors import FileError
from .files import read_bytes
from .paths import shown_name

_MAX_ENTRIES = 16
_DAMAGED = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, struct.error)


def read_archive(path: str | PathLike[str], *, limit: int, entry: re.Pattern[str], kind: str) -> dict[str, bytes]:
    """Return the entries by name, without their common folder, of an archive of at most `limit` bytes.

    entry: what the name of every entry must match. kind: what the archive should be. Raises FileError.
    """
    data, name = read_bytes(path, limit=limit), shown_name(path)
    if not data.startswith(b"PK\x03\x04"):
        raise FileError(f"{name} is not a {kind}: it is not a zip archive")
    if data.count(b"PK\x01\x02") > _MAX_ENTRIES:
        raise FileError(f"{name} is not a {kind}: it has more than {_MAX_ENTRIES} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            odd = [text for text in names if not entry.fullmatch(text)]
            if odd or len(set(names)) != len(names) or len({text.split("/", 1)[0] for text in names}) != 1:
                raise FileError(f"{name} is not a {kind}: its entries have unexpected names")
            if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
                raise FileError(f"{name} is not a {kind}: its entries are compressed or encrypted")
            if sum(i.file_size for i in infos) > len(data) or any(i.file_size != i.compress_size for i in infos):
                raise FileError(f"{name} declares more data than it has: it is damaged or hostile")
            return {info.filename.split("/", 1)[1]: archive.read(info) for info in infos}
    except _DAMAGED as error:
        raise FileError(f"{name} is a damaged zip archive: {error}") from error
