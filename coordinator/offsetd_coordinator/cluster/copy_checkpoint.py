"""How far the local copies reach in the topic, kept in a file of the data folder.

The file also says to which topic the copies belong, and has the newest claim of each partition. It
is written after the copies were flushed, so it never says more than the copies hold. A copy that is
older than half of `delete.retention.ms` may have missed tombstones, so it is thrown away.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
from offsetd_storage.disk.files import replace_file
from offsetd_storage.log_store import OFFSETS_TOPIC

from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.topic_settings import DELETE_RETENTION_MS
from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from offsetd_storage.disk.files import Files

COPIES_FILE: Final = "cluster-copies.json"
_AGE_MS_MAX: Final = DELETE_RETENTION_MS // 2
_VERSION: Final = 1


class ForeignFolder(CoordinatorError):
    """The data folder has a log that is not a copy of a cluster's topic."""

    reason = "INVALID_REQUEST"


@attrs.define(kw_only=True)
class CopyCheckpoint:
    """The Kafka offset up to which each copy is complete, and the newest claim, by partition."""

    topic_id: str
    cluster_id: str
    positions: dict[int, int] = attrs.field(factory=dict)
    claims: dict[int, Claim] = attrs.field(factory=dict)
    own_positions: dict[str, int] = attrs.field(factory=dict)
    """By topic of the node's own logs: the Kafka offset up to which the node has read at a start.

    What this process writes is above it, so the next start reads that again."""

    @classmethod
    def load(
        cls, files: Files, folder: Path, *, topic_id: str, cluster_id: str, now_ms: int
    ) -> Self | None:
        """The positions in the file, or None if the copies cannot be used.

        Raises ForeignFolder if the folder has a log, and no such file.
        """
        try:
            document = json.loads(files.read_bytes(folder / COPIES_FILE))
        except FileNotFoundError:
            refuse_foreign(files, folder)
            return None
        except ValueError:
            return None
        try:
            return cls._read(document, topic_id=topic_id, cluster_id=cluster_id, now_ms=now_ms)
        except (AttributeError, KeyError, TypeError, ValueError):  # Somebody has changed the file.
            return None

    @classmethod
    def _read(cls, document: Any, *, topic_id: str, cluster_id: str, now_ms: int) -> Self | None:
        if (
            document.get("version") != _VERSION
            or (document["topic_id"], document["cluster_id"]) != (topic_id, cluster_id)
            or not 0 <= now_ms - document["time_ms"] <= _AGE_MS_MAX
        ):
            return None
        return cls(
            topic_id=topic_id,
            cluster_id=cluster_id,
            positions={int(each): offset for each, offset in document["positions"].items()},
            claims={int(each): Claim(**claim) for each, claim in document["claims"].items()},
            own_positions=document.get("own_positions", {}),
        )

    def encode(self, *, now_ms: int) -> bytes:
        """The content of the file."""
        document = {
            "version": _VERSION,
            "topic_id": self.topic_id,
            "cluster_id": self.cluster_id,
            "time_ms": now_ms,
            "positions": {str(each): offset for each, offset in dict(self.positions).items()},
            "claims": {str(each): attrs.asdict(claim) for each, claim in dict(self.claims).items()},
            "own_positions": dict(self.own_positions),
        }
        return json.dumps(document).encode()

    def note_positions(self, positions: Mapping[int, int]) -> None:
        """Notes that the copies are complete up to these Kafka offsets."""
        for partition, position in positions.items():
            self.positions[partition] = max(position, self.positions.get(partition, 0))

    def note_claim(self, partition: int, claim: Claim) -> None:
        """Notes a claim that was read or written."""
        known = self.claims.get(partition)
        if known is None or (known.epoch, known.is_released) <= (claim.epoch, claim.is_released):
            self.claims[partition] = claim


def write_copies(files: Files, folder: Path, content: bytes) -> None:
    """Replaces the file. Raises OSError."""
    replace_file(files, folder / COPIES_FILE, content)


def refuse_foreign(files: Files, folder: Path) -> None:
    """Raises ForeignFolder if the folder has the log of a server without a cluster."""
    if not files.is_folder(folder):
        return
    if any(name.startswith(f"{OFFSETS_TOPIC}-") for name in files.list_folder(folder)):
        raise ForeignFolder(
            "{folder} has the log of a server without a cluster: start the node with an empty"
            " --data-dir, and bring the log into the cluster with offsetd cluster init",
            folder=str(folder),
        )


def begin_copies(files: Files, folder: Path, copies: CopyCheckpoint) -> CopyCheckpoint:
    """Deletes old copies, and writes that this folder is for `copies`, which it returns.

    Raises OSError.
    """
    if not files.exists(folder):
        files.make_folder(folder)
    has_copies = files.exists(folder / COPIES_FILE)
    # Write the file first, with the time 0: a node that is killed here begins anew.
    write_copies(files, folder, copies.encode(now_ms=0))
    if has_copies:
        _discard_copies(files, folder)
    return copies


def _discard_copies(files: Files, folder: Path) -> None:
    """Deletes all files except `COPIES_FILE`; folders of partitions stay, empty."""
    for name in files.list_folder(folder):
        path = folder / name
        if files.is_folder(path):
            for each in files.list_folder(path):
                files.unlink(path / each)
        elif name != COPIES_FILE:
            files.unlink(path)
