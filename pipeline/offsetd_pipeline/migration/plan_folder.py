"""The folder of a migration: its plan, in files of whole groups, and the outcomes.

`plan.json` is written last: without it, the folder has no plan. A file of `plan/` is a unit of
work; the file of the same name in `outcomes/` has the outcomes of its groups.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from offsetd_clients.migration.values import MigrationError

from offsetd_pipeline.files import (
    LockedFile,
    file_bytes,
    file_names,
    make_folder,
    read_file,
    remove_file,
    remove_folder,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

FORMAT: Final = "offsetd-bulk-migration"
VERSION: Final = 1
HEADER: Final = "plan.json"
BEGUN: Final = "begun"
FOUND, PLAN, OUTCOMES, DRY_RUN, VERIFIED = "found", "plan", "outcomes", "dry-run", "verified"
BAD_LINES: Final = "bad-lines"
_BATCH_ROWS: Final = 10_000


class BadPlanFolder(MigrationError):
    """The folder has no complete plan of a known version, or another process works with it."""


@attrs.frozen(kw_only=True)
class PlanHeader:
    """The header of a plan.

    `options`: other options, which a run must repeat.
    `units`: the size of each file of the plan, by name.
    `counts`: offsets by state.
    """

    plan_id: str
    created_ms: int
    source: str
    server: str
    options: Mapping[str, Any]
    units: Mapping[str, int]
    group_count: int
    refused_group_count: int
    offset_count: int
    counts: Mapping[str, int]
    bad_line_count: int
    bad_lines: Sequence[str]


@attrs.frozen
class PlanFolder:
    """A path that the driver and all executors can reach."""

    path: Path

    def header(self) -> PlanHeader | None:
        """The header of the plan, if there is one. Raises BadPlanFolder, OSError."""
        if file_bytes(self.path / HEADER) is None:
            return None
        where = self.path / HEADER
        try:
            document = json.loads(read_file(where))
            if (document.pop("format"), document.pop("version")) != (FORMAT, VERSION):
                raise BadPlanFolder(f"{where} is not a plan of version {VERSION}")
            header = PlanHeader(**document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadPlanFolder(f"{where} is damaged: {error}") from None
        for name, size in header.units.items():
            if file_bytes(self.path / PLAN / name) != size:
                raise BadPlanFolder(f"{self.path / PLAN / name} is not as it was planned")
        return header

    def write_header(self, header: PlanHeader) -> None:
        """Writes the header, which completes the plan."""
        document = {"format": FORMAT, "version": VERSION, **attrs.asdict(header)}
        content = json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"
        write_file(self.path / HEADER, content)

    @property
    def is_begun(self) -> bool:
        """Whether offsets of the plan may have been written to the server."""
        return file_bytes(self.path / BEGUN) is not None

    def begin(self) -> None:
        """Notes that the plan may now be written to the server."""
        write_file(self.path / BEGUN, b"")

    def clear(self) -> None:
        """Makes room for another plan: removes the header first."""
        remove_file(self.path / HEADER)
        for part in (FOUND, PLAN, OUTCOMES, DRY_RUN, VERIFIED, BAD_LINES):
            self.clear_part(part)

    def clear_part(self, part: str) -> None:
        """Empties the folder of a part, including files of a killed Spark."""
        remove_folder(self.path / part)
        make_folder(self.path / part)

    def units(self, part: str) -> list[str]:
        """The names of the Parquet files of a part."""
        return [each for each in file_names(self.path / part) if _is_unit(each)]

    def unit_bytes(self, part: str, unit: str) -> int:
        """The size of a file. Raises FileNotFoundError."""
        size = file_bytes(self.path / part / unit)
        if size is None:
            raise FileNotFoundError(self.path / part / unit)
        return size

    def rows(self, part: str, unit: str) -> Iterator[dict[str, Any]]:
        """Yields the rows of a file. Raises OSError, pa.ArrowException."""
        with pq.ParquetFile(self.path / part / unit) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield from batch.to_pylist()

    def write_rows(
        self, part: str, unit: str, rows: Iterable[dict[str, Any]], schema: pa.Schema
    ) -> None:
        """Replaces the file as a whole, durably, or leaves it unchanged."""
        out = BytesIO()
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            chunk: list[dict[str, Any]] = []
            for row in rows:
                chunk.append(row)
                if len(chunk) == _BATCH_ROWS:
                    writer.write_table(pa.Table.from_pylist(chunk, schema))
                    chunk = []
            writer.write_table(pa.Table.from_pylist(chunk, schema))
        write_file(self.path / part / unit, out.getvalue())


def _is_unit(name: str) -> bool:
    return name.endswith(".parquet") and name[0] not in "._"


class FolderLock:
    """Lets one process at a time work with a migration. Raises BadPlanFolder, OSError."""

    def __init__(self, folder: PlanFolder) -> None:
        make_folder(folder.path)
        try:
            self._file = LockedFile(folder.path / "lock")
        except BlockingIOError:
            raise BadPlanFolder(f"{folder.path}: another process works with it") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
