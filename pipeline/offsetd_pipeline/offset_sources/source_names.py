"""The names of sources: `KIND:PLACE`, or a place whose kind is found by inspection."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_clients.calling.connection import checked_address
from offsetd_storage.disk.files import OsFiles, read_start
from offsetd_storage.log.store_config import OFFSETS_TOPIC

from offsetd_pipeline.archive.manifests import MANIFESTS
from offsetd_pipeline.files import file_names
from offsetd_pipeline.offset_sources.line_parser import BYTE_ORDER_MARK, LINE_KINDS, reads_line
from offsetd_pipeline.offset_sources.source_kind import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES: Final = OsFiles()
_LOOK_BYTES: Final = 64 << 10
_LINES_LOOKED_AT: Final = 20
_PARQUET_MAGIC: Final = b"PAR1"
_ADDRESS: Final = re.compile(r"[^/\\\s]+:\d{1,5}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class BadSource(ValueError):
    """A text names no source, or more than one."""


@attrs.frozen(kw_only=True)
class NamedSource:
    """A kind and its places: `host:port`, or paths (folders of several nodes)."""

    kind: SourceKind
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(self.places)}"

    @property
    def from_anywhere(self) -> NamedSource:
        """The same source with absolute paths."""
        if self.kind is SourceKind.SERVER:
            return self
        places = (
            each if _SCHEME.match(each) else str(Path(each).absolute()) for each in self.places
        )
        return attrs.evolve(self, places=tuple(places))


def named_source(text: str) -> NamedSource:
    """Reads `KIND:PLACE[,PLACE...]`, or only places. Raises BadSource, which names valid forms."""
    kind, places = _split(text)
    if not all(places):
        raise BadSource(f"{text!r} names no place")
    if kind is None:
        found = {each: kind_of_place(each) for each in places}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{place} is {kind}" for place, kind in found.items())
            raise BadSource(f"sources of several kinds: {told}")
        kind = next(iter(found.values()))
    if kind is SourceKind.SERVER:
        if len(places) > 1:
            raise BadSource(f"{text!r} names several servers: say one")
        places = (_address(places[0]),)
    return NamedSource(kind=kind, places=places)


def _split(text: str) -> tuple[SourceKind | None, tuple[str, ...]]:
    word, colon, rest = text.partition(":")
    if colon and word in list(SourceKind):
        return SourceKind(word), _places(rest)
    return None, _places(text)


def _places(text: str) -> tuple[str, ...]:
    """The places, separated by commas, unless the whole text is an existing path."""
    return (text,) if _FILES.exists(Path(text)) else tuple(text.split(","))


def kind_of_place(place: str) -> SourceKind:
    """The kind of a place, by inspection. Raises BadSource if no kind fits, or several do."""
    if _SCHEME.match(place):
        raise BadSource(f"what {place} is cannot be looked at: say {_kinds_and(place)}")
    path = Path(place)
    is_address = _ADDRESS.fullmatch(place) is not None
    if not _FILES.exists(path):
        if is_address:
            return SourceKind.SERVER
        raise BadSource(f"{place} is not there, and no HOST:PORT")
    if is_address:
        raise BadSource(f"{place} is a path, and may be a server: say server:{place}, or ./{place}")
    return _kind_of(path)


def _kind_of(path: Path) -> SourceKind:
    return _kind_of_folder(path) if _FILES.is_folder(path) else _kind_of_file(path)


def _kind_of_folder(path: Path) -> SourceKind:
    names = file_names(path)
    if any(name.startswith(f"{OFFSETS_TOPIC}-") for name in names):
        return SourceKind.FOLDER
    if MANIFESTS in names:
        return SourceKind.ARCHIVE
    visible = [path / name for name in names if name[0] not in "._"]
    if not visible:
        raise BadSource(f"{path} has no files")
    found = set(map(_kind_of, visible))
    if len(found) > 1:
        raise BadSource(f"{path} has files of several kinds: {', '.join(sorted(found))}")
    [kind] = found
    if kind is SourceKind.FOLDER:
        raise BadSource(f"{path} is not a data folder; folders in it are: name those")
    return kind


def _kind_of_file(path: Path) -> SourceKind:
    content = read_start(_FILES, path, _LOOK_BYTES).removeprefix(BYTE_ORDER_MARK)
    if content.startswith(_PARQUET_MAGIC):
        return SourceKind.PARQUET
    lines = list(islice(_whole_lines(content), _LINES_LOOKED_AT))
    if not lines:
        raise BadSource(f"{path} has no lines that show its kind: {_say_kind(path)}")
    if content.lstrip().startswith(b"{") and not _is_json_lines(lines):
        return SourceKind.KAFKA_UTILS
    found = [kind for kind in LINE_KINDS if _reads_any(kind, lines)]
    if not found:
        raise BadSource(f"{path} looks like no file of offsets that is known: {_say_kind(path)}")
    if len(found) > 1:
        meant = " or ".join(f"{kind}:{path}" for kind in found)
        raise BadSource(f"{path} looks like {' and '.join(found)}: say {meant}")
    return found[0]


def _reads_any(kind: SourceKind, lines: list[bytes]) -> bool:
    """Whether most lines are of this kind: a file may have some bad lines."""
    good = sum(reads_line(kind, line) for line in lines)
    return 2 * good > len(lines)


def _is_json_lines(lines: list[bytes]) -> bool:
    if any(reads_line(SourceKind.JSONL, line) for line in lines):
        return True
    try:
        document = json.loads(lines[0])
    except ValueError:
        return False
    return isinstance(document, dict) and "groupid" not in document


def _whole_lines(content: bytes) -> Iterator[bytes]:
    """The lines that are not empty, without an incomplete last line."""
    *lines, rest = content.split(b"\n")
    if len(content) < _LOOK_BYTES or not lines:
        lines.append(rest)
    return (line for line in lines if line.strip())


def _say_kind(path: Path) -> str:
    kinds = (*LINE_KINDS, SourceKind.KAFKA_UTILS, SourceKind.PARQUET)
    return f"if it is one, say KIND:{path}, where KIND is {', '.join(kinds)}"


def _kinds_and(place: object) -> str:
    return " or ".join(f"{kind}:{place}" for kind in SourceKind if kind is not SourceKind.SERVER)


def _address(text: str) -> str:
    try:
        return checked_address(text)
    except ValueError as error:
        raise BadSource(str(error)) from None
