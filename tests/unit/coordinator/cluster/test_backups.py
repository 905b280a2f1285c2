"""When a node of a cluster makes a backup, and what it knows of those that others made."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from log_stores import P0, commit, opened, seeded
from offsetd_coordinator.cluster.backups import cluster_backups, node_streams
from offsetd_coordinator.cluster.backups.cluster_backups import ClusterBackups
from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings
from offsetd_coordinator.counters import BackupCounters
from offsetd_coordinator.messages.backup_messages import chunk_message, head_message
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.chunk_reading import KnownDigests, chunks_of
from offsetd_storage.backups.pinned_logs import PinnedLogs
from offsetd_storage.backups.repository import Repository
from offsetd_storage.backups.targets import target_of
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import NOW_MS
from patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from offsetd.v1.backup_service_pb2 import StreamBackupResponse
    from offsetd_storage.log_store import LogStore

HOUR_MS = 3_600_000


class OneNode:
    """The streams of a cluster of one node. It may hang at its first chunk until it is closed."""

    def __init__(self, store: LogStore, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self.hangs = False
        self.asked = 0
        self._closed = threading.Event()

    def streams(self, held_digests: Iterable[bytes]) -> list[tuple[Any, Iterator[Any]]]:
        self.asked += 1
        self._closed.clear()
        pinned = PinnedLogs.pin(self._store, clock=self._clock)
        held = {each.hex() for each in held_digests}
        return [(head_message(pinned.head, ()).head, self._chunks(pinned, held))]

    def _chunks(self, pinned: PinnedLogs, held: set[str]) -> Iterator[StreamBackupResponse]:
        with pinned:
            for each in chunks_of(pinned, held, known=KnownDigests()):
                yield chunk_message(each)
                if self.hangs:
                    assert self._closed.wait(PATIENCE_SECONDS)
                    raise ConnectionError("the client was closed")

    def close(self) -> None:
        self._closed.set()


class CountedBackups(ClusterBackups):
    """Counts how often it has looked at the target."""

    looks = 0

    def _looked(self, repository: Repository) -> bool:
        try:
            return super()._looked(repository)
        finally:
            self.looks += 1


class Maker:
    """One node's task, on a folder as the target."""

    def __init__(self, target: Path, *, folder_id: str | None = None, keep: int = 0) -> None:
        self.clock = ManualClock(NOW_MS)
        self.store = opened(SimulatedFiles())
        commit(self.store, P0)
        self.node = OneNode(self.store, self.clock)
        self.counters = BackupCounters()
        self.makes = True
        self.repository = Repository(target_of(str(target)))
        self.task = CountedBackups(
            load_settings(assignments=[f"backup.target={target}", f"backup.keep={keep}"]),
            self.counters,
            folder_id=folder_id or self.store.folder_id,
            makes=lambda: self.makes,
            connect=lambda: self.node,
            clock=self.clock,
            random=seeded(),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Maker]:
        self.task.start()
        try:
            yield self
        finally:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.task.stop()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_backups, "_TICK_SECONDS", 0.005)
    monkeypatch.setattr(cluster_backups, "_LOOK_MS_MAX", 5)
    monkeypatch.setattr(cluster_backups, "RETRY_MS_MAX", 5)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def looked(maker: Maker) -> None:
    """Returns once it has looked at the target, from the beginning to the end."""
    before = maker.task.looks
    await until(lambda: maker.task.looks >= before + 2)


async def test_the_node_that_makes_them_makes_one_when_it_is_due(tmp_path: Path) -> None:
    async with Maker(tmp_path / "b", keep=2).running() as maker:
        for count in (1, 2, 3):
            await until(lambda count=count: maker.counters.made == count)
            await looked(maker)
            assert maker.counters.made == count, "the next one is not due"
            assert maker.counters.last_moment_ms == maker.clock.now_ms()
            maker.clock.advance(HOUR_MS)
        await until(lambda: maker.counters.made == 4)
        assert len(maker.repository.backup_ids()) == 2
        assert not maker.counters.failures


async def test_another_node_knows_of_them_and_goes_on_when_it_takes_over(tmp_path: Path) -> None:
    first = Maker(tmp_path / "b")
    second = Maker(tmp_path / "b", folder_id=first.store.folder_id)
    second.makes = False
    async with first.running(), second.running():
        await until(lambda: second.counters.last_moment_ms == NOW_MS)
        assert (second.counters.last_bytes or 0) > 0
        assert second.counters.interval_seconds == 3600
        await first.task.stop()
        second.makes = True
        second.clock.advance(HOUR_MS - 1)
        await looked(second)
        assert not second.node.asked, "the other node's backup is younger than the interval"
        second.clock.advance(1)
        await until(lambda: second.node.asked)
    assert first.counters.made == 1


async def test_a_backup_of_another_cluster_is_none_of_this_one(tmp_path: Path) -> None:
    other, own = Maker(tmp_path / "b"), Maker(tmp_path / "b", folder_id="another")
    async with other.running():
        await until(lambda: other.counters.made)
    own.makes = False
    async with own.running():
        await looked(own)
        assert own.counters.last_moment_ms is None
        own.makes = True
        await until(lambda: own.counters.made)


async def test_a_target_whose_newest_backup_vanishes_gets_no_new_one(tmp_path: Path) -> None:
    async with Maker(tmp_path / "b").running() as maker:
        await until(lambda: maker.counters.made)
        await looked(maker)
        (tmp_path / "b").rename(tmp_path / "unmounted")
        maker.clock.advance(HOUR_MS)
        await until(lambda: maker.counters.failures > 1)
        assert maker.counters.last_failed
        assert not (tmp_path / "b").exists()
        (tmp_path / "unmounted").rename(tmp_path / "b")
        await until(lambda: maker.counters.made == 2)
        assert not maker.counters.last_failed


async def test_a_damaged_manifest_is_told_and_left_out(tmp_path: Path) -> None:
    async with Maker(tmp_path / "b").running() as maker:
        await until(lambda: maker.counters.made)
        await looked(maker)
        [name] = maker.repository.backup_ids()
        later = f"{name[:-8]}ffffffff.json"
        (tmp_path / "b" / "manifests" / later).write_bytes(b"no manifest")
        await looked(maker)
        assert maker.counters.last_moment_ms == NOW_MS
        assert not maker.counters.failures


async def test_a_node_that_loses_the_log_partition_stops_its_backup(tmp_path: Path) -> None:
    async with Maker(tmp_path / "b").running() as maker:
        maker.node.hangs = True
        await until(lambda: any((tmp_path / "b" / "chunks").glob("*/*")))
        maker.makes = False
        await until(lambda: not list((tmp_path / "b" / "running").iterdir()))
        await looked(maker)
        assert maker.repository.backup_ids() == []
        assert not maker.counters.failures, "it did not fail: it is another node's now"
        maker.makes, maker.node.hangs = True, False
        await until(lambda: maker.counters.made)


async def test_a_node_that_stops_does_not_wait_for_a_node_that_hangs(tmp_path: Path) -> None:
    async with Maker(tmp_path / "b").running() as maker:
        maker.node.hangs = True
        await until(lambda: maker.node.asked)
    assert maker.repository.backup_ids() == []
    assert not maker.counters.failures


def test_without_the_package_of_the_clients_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_streams, "entry_points", lambda group: [])
    with pytest.raises(BackupRefused, match="its client is missing"):
        node_streams.connected(load_settings(assignments=[]), "127.0.0.1:7171")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["backup.client.key.file=k"], "go together"),
        (["backup.client.certificate.file=c"], "go together"),
        (
            [
                "ssl.certificate.file=c",
                "ssl.key.file=k",
                "ssl.truststore.file=t",
                "ssl.client.auth=required",
            ],
            "needs backup.client.certificate.file",
        ),
    ],
)
def test_settings_of_the_client_have_to_fit(settings: list[str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load_settings(
            assignments=["backup.target=b", "cluster.bootstrap.servers=h:9092", *settings]
        )
