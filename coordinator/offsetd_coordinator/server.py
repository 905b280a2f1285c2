"""The server's life: open the port, open and load the log, serve, drain, close.

The port opens at once. While the log loads, calls get a retriable error and health is NOT_SERVING.
A stop drains: accepted calls are answered, all appends are flushed and the log is closed cleanly.
If the disk fails, the process ends without draining.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from offsetd_storage.clock import SteadyClock
from offsetd_storage.configuration.setting_kinds import UNIX_PREFIXES
from offsetd_storage.errors import StorageError, StorageFailed, words_of
from offsetd_storage.folder.folder_lock import check_usable
from offsetd_storage.maintenance.upkeep import Upkeep, UpkeepConfig

from offsetd_coordinator.administration.internal_topics import (
    InternalTopics,
    upkeep_config,
)
from offsetd_coordinator.background.backup_attempts import refuse_wrong_target
from offsetd_coordinator.background.backup_source import BackupSource, ends_of_node
from offsetd_coordinator.background.expirer import Expirer, grace_of_folder_ms
from offsetd_coordinator.background.lag_survey import LagSurvey
from offsetd_coordinator.background.scheduled_backups import ScheduledBackups
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.configuration.shard_settings import shard_config
from offsetd_coordinator.grpc import handlers
from offsetd_coordinator.grpc.health_service import HealthService
from offsetd_coordinator.large_groups.large_changes import LargeChanges
from offsetd_coordinator.network.connection_guard import ConnectionGuard
from offsetd_coordinator.network.connection_limits import connection_limits
from offsetd_coordinator.network.ports import is_loopback, listen_error
from offsetd_coordinator.network.transports import (
    TransportMissing,
    add_port,
    new_server,
    transport_of,
)
from offsetd_coordinator.node import Node
from offsetd_coordinator.observability.cleaner_health import CLEANER_SERVICE
from offsetd_coordinator.observability.health_and_metrics import Observability
from offsetd_coordinator.runtime.awake_clock import AwakeClock
from offsetd_coordinator.runtime.flusher import FlushDefect
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.runtime.storage_refusals import what_happened
from offsetd_coordinator.runtime.store_commit_log import StoreCommitLog
from offsetd_coordinator.server_folder import StartFailed, load_shards, open_store
from offsetd_coordinator.server_security import ServerSecurity
from offsetd_coordinator.server_tracing import ServerTracing

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    import grpc.aio
    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.administration.administration import Administration
    from offsetd_coordinator.cluster.backups.cluster_backups import ClusterBackups
    from offsetd_coordinator.cluster.cluster import Cluster
    from offsetd_coordinator.cluster.cluster_start import OpenCluster
    from offsetd_coordinator.cluster.kafka_commit_log import KafkaCommitLog
    from offsetd_coordinator.configuration.server_settings import Settings

_log = structlog.get_logger(__name__)

# The time in which the last answers are sent.
_FAREWELL_SECONDS: Final = 0.5
_DRAIN_POLL_SECONDS: Final = 0.005
# The cleaner first reads every log once. Calls that waited for the load are answered first.
_CLEANER_DELAY_MS: Final = 1000


@attrs.frozen(kw_only=True)
class _Loaded:
    """The parts that serve an open and loaded folder. None of them is started yet."""

    runtime: Runtime
    large_changes: LargeChanges
    upkeep: Upkeep
    administration: Administration
    expirer: Expirer
    backup_source: BackupSource
    cluster: Cluster | None


class Server:
    """One node with its port. `run` is for the event loop, `stop` for its signal handlers.

    The process must end when `run` has returned, which closes the port. Until then, calls are
    refused as UNAVAILABLE. gRPC's own stop would answer new calls with CANCELLED, and clients do
    not retry that.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        files: Files,
        clock: Clock,
        random: random.Random,
        accepts_default_settings: bool = False,
    ) -> None:
        self.settings = settings
        steady = SteadyClock(clock)
        self.node = Node(
            node_id=settings.node_id, address=settings.address_told, start_ms=steady.now_ms()
        )
        self.admission = Admission(
            settings.queued_max_request_bytes,
            receive_ms_max=settings.request_receive_max_ms,
            is_encrypted=settings.has_tls,
        )
        self.observability = Observability(settings, self.node, self.admission, clock=steady)
        self.listening = asyncio.Event()
        self.serving = asyncio.Event()
        self._files = files
        self._clock = steady
        self._random = random
        self._accepts_default_settings = accepts_default_settings
        self._stopping = asyncio.Event()
        self._health = HealthService()
        self._grpc_server: grpc.aio.Server | None = None
        self._guard: ConnectionGuard | None = None

    def stop(self) -> None:
        """Starts to drain; `run` returns after the drain."""
        self._stopping.set()

    async def run(self) -> None:
        """Serves until `stop`.

        Raises StartFailed. Raises StorageFailed if the disk fails, and its subclass FlushDefect if
        a flush fails because of a defect of the server.
        """
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._health.set(CLEANER_SERVICE, health_pb2.HealthCheckResponse.NOT_SERVING)
        self._check_folder()
        self._security = ServerSecurity(
            self.settings, self.observability.counters.access, self._clock.now_ms
        )
        self._tracing = ServerTracing(self.settings)
        self._grpc_server = self._open_port(self._security)
        self._open_metrics_port()
        await self._grpc_server.start()
        if self._guard is not None:
            self._guard.start()
        self.listening.set()
        transport = transport_of(self.settings)
        _log.info("listening", address=self.node.address, pid=os.getpid(), transport=transport)
        self._watching_files = asyncio.create_task(self._security.watch())
        if self.settings.security_allow_insecure and not is_loopback(self.settings.listen_address):
            _log.warning("other machines can reach this port, and security.allow.insecure is set")
        loaded = await self._load_unless_stopped()
        if loaded is None:
            _log.info("stopped while loading")
            self.node.drain()
            await asyncio.sleep(_FAREWELL_SECONDS)
            return
        # The loaded state lives as long as the process, so the garbage collector need not walk it.
        # The switch interval keeps its default: with a shorter one, the flush thread interrupts
        # the event loop too often.
        gc.collect()
        gc.freeze()
        self.observability.note_loaded()
        runtime = loaded.runtime
        await asyncio.to_thread(runtime.start, loaded.upkeep)  # It may write a checkpoint.
        self.node.backup_source = loaded.backup_source
        self.node.serve(runtime, loaded.large_changes, loaded.administration)
        if loaded.cluster is not None:
            await self._join(loaded.cluster)
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        self.observability.watch(loaded.upkeep.cleaner, self._health)
        self.observability.watch_clock_and_disk(self._health)
        self.node.expirer = loaded.expirer
        loaded.expirer.start()
        self.node.lag_survey = LagSurvey(runtime)
        self.node.lag_survey.start()
        backups = self._backups(loaded)
        backups.start()
        _log.info("serving", address=self.node.address, folder=self.settings.data_dir)
        self.serving.set()
        await self._stopping.wait()
        await backups.stop()
        await loaded.expirer.stop()
        self.node.lag_survey.stop()
        await self._end(runtime, loaded.cluster)

    async def close_port(self) -> None:
        """Closes the port, for a process that continues without this server."""
        self.observability.close_port()
        if self._guard is not None:
            self._guard.stop()
        if self._grpc_server is not None:
            await self._grpc_server.stop(0)

    async def _join(self, cluster: Cluster) -> None:
        """Joins the cluster; returns when the first partitions are served, or at a stop."""
        await asyncio.to_thread(cluster.start)
        joined = asyncio.ensure_future(cluster.has_joined.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((joined, stopping), return_when=asyncio.FIRST_COMPLETED)
        joined.cancel()
        stopping.cancel()

    async def _end(self, runtime: Runtime, cluster: Cluster | None) -> None:
        self.observability.stop_watching()
        await self._health.enter_graceful_shutdown()
        if runtime.failed is None and cluster is not None:
            _log.info("leaving the cluster")
            await asyncio.to_thread(cluster.leave)
        if runtime.failed is None:
            _log.info("draining")
            await self._drain()
        self.node.drain()  # This also ends idle streams of commits when the disk has failed.
        if runtime.failed is None:
            await self.node.large_changes.until_ended()
            if cluster is not None:
                await asyncio.to_thread(cluster.stop)
            # Raises StorageFailed if the last flush fails.
            await asyncio.to_thread(runtime.close)
            if cluster is not None:
                cluster.note_closed()
            self.observability.close()
        sending = asyncio.to_thread(self._tracing.close)
        await asyncio.gather(sending, asyncio.sleep(_FAREWELL_SECONDS))
        if runtime.failed is not None:
            raise runtime.failed
        _log.info("stopped")

    async def _drain(self) -> None:
        """Refuses new calls. Accepted calls have `drain_max_ms` to be answered."""
        await asyncio.sleep(self.settings.drain_notice_ms / 1000)
        self.node.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_max_ms / 1000):
                # Polling costs less than an event that every answered call would set.
                while self.admission.requests:  # noqa: ASYNC110
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    def _open_port(self, security: ServerSecurity) -> grpc.aio.Server:
        settings = self.settings
        try:
            server = new_server(settings, self.admission)
        except TransportMissing as error:
            raise StartFailed(str(error)) from error
        # gRPC tries the handlers in this order for each call: the most frequent ones are first.
        server.add_generic_rpc_handlers(
            handlers.generic_handlers(
                self.node,
                self.admission,
                settings,
                self.observability.counters,
                authorizer=security.authorizer,
                control=security.control,
                tracing=self._tracing.calls,
            )
        )
        if not settings.security_health_open:
            self._health.control = security.control
        health_pb2_grpc.add_HealthServicer_to_server(self._health, handlers.GenericOnly(server))
        if _reflection_is_on(settings):
            handlers.add_reflection(server)
        if (taken := listen_error(settings.listen_address)) is not None:
            raise StartFailed(
                f"cannot listen on {settings.listen_address} (listen.address): {taken.strerror}"
            )
        try:
            port = add_port(server, settings, security.credentials, security.tls_context)
        except (RuntimeError, OSError) as error:
            raise StartFailed(f"cannot listen on {settings.listen_address}: {error}") from error
        if not settings.listen_address.startswith(UNIX_PREFIXES):
            limits = connection_limits(settings)
            self._guard = ConnectionGuard(self.admission.connections, port, limits)
        if not settings.advertised_address and settings.listen_address.endswith(":0"):
            self.node.address = f"{settings.listen_address.removesuffix(':0')}:{port}"
        return server

    def _open_metrics_port(self) -> None:
        try:
            self.observability.open_port(self._security.endpoint_security())
        except OSError as error:
            address = self.settings.metrics_address
            if "metrics.address" in self.settings.said:
                raise StartFailed(
                    f"cannot listen on {address} (metrics.address): {error.strerror}"
                ) from error
            # The default port is taken, and no setting names it: the server runs without metrics.
            _log.warning(
                "metrics are not served",
                address=address,
                reason=error.strerror,
                remedy="set another address, or none: --set metrics.address=HOST:PORT",
            )

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        for service in ("", *handlers.SERVICES):
            await self._health.set(service, status)

    def _check_folder(self) -> None:
        try:
            check_usable(self._files, Path(self.settings.data_dir))
            refuse_wrong_target(self.settings)
        except (StorageError, OSError) as error:
            raise StartFailed(words_of(error)) from error

    async def _load_unless_stopped(self) -> _Loaded | None:
        """Loads the folder; returns None if `stop` was called first.

        Then the load is abandoned. That is as safe as a crash during a start.
        """
        loading = asyncio.ensure_future(self._load())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
        if self._stopping.is_set():
            return None
        stopping.cancel()
        try:
            return loading.result()
        except (StorageError, OSError) as error:
            folder = str(self.settings.data_dir)
            told = words_of(error)
            raise StartFailed(told if folder in told else f"{folder}: {told}") from error

    async def _load(self) -> _Loaded:
        """Opens the folder and replays its log, in threads. Nothing is started yet."""
        threads = self.settings.num_recovery_threads_per_data_dir or os.cpu_count() or 1
        opened, store = await asyncio.to_thread(self._open, threads)
        # Tokens of watchers have it: in a cluster they are valid on all nodes.
        self.node.folder_id = store.folder_id if opened is None else opened.copies.topic_id
        self.node.partitions = store.partitions
        self.node.stopped_cleanly = store.report.closed_clean
        try:
            own = await asyncio.to_thread(self._load_internal_topics, store)
            cluster, log, runtime = await self._make_runtime(opened, store, threads)
            large_changes = LargeChanges(runtime)
            config = upkeep_config(own.shard.applied.configs, own.doubt)
            upkeep = await asyncio.to_thread(self._upkeep, store, log, config)
            log.on_journal_filling = upkeep.move_points_soon
            administration = own.administration(
                runtime,
                large_changes,
                upkeep,
                clock=self._clock,
                is_draining=lambda: self.node.is_draining,
                apply_acls=self._security.apply_stored_acls,
                note_acls_doubt=self._security.note_doubt,
                shared_rules=None if cluster is None else cluster.rules,
            )
            return _Loaded(
                runtime=runtime,
                large_changes=large_changes,
                upkeep=upkeep,
                administration=administration,
                expirer=await asyncio.to_thread(self._expirer, store, runtime, administration),
                backup_source=BackupSource(
                    store,
                    clock=self._clock,
                    bytes_per_second_max=self.settings.backup_max_bytes_per_second,
                    cluster_id="" if cluster is None else self.settings.cluster_id,
                    folder_id=self.node.folder_id or "",
                    ends=None if cluster is None else ends_of_node(store, log),
                ),
                cluster=cluster,
            )
        except BaseException:
            store.abandon()
            raise

    def _open(self, threads: int) -> tuple[OpenCluster | None, LogStore]:
        """Opens the folder, and the cluster if the settings name one."""

        def opened_store(partitions: int | None) -> LogStore:
            return open_store(
                attrs.evolve(self.settings, offsets_topic_num_partitions=partitions),
                files=self._files,
                clock=self._clock,
                random=self._random,
                threads=threads,
            )

        if not self.settings.is_clustered:
            return None, opened_store(self.settings.offsets_topic_num_partitions)
        # A server without a cluster does not wait for these modules.
        from offsetd_coordinator.cluster.cluster_start import open_cluster  # noqa: PLC0415

        opened = open_cluster(
            self.settings, files=self._files, clock=self._clock, open_store=opened_store
        )
        return opened, opened.store

    async def _make_runtime(
        self, opened: OpenCluster | None, store: LogStore, threads: int
    ) -> tuple[Cluster | None, StoreCommitLog | KafkaCommitLog, Runtime]:
        """The runtime. In a cluster it has no shards yet; else it has loaded all."""
        loop = asyncio.get_running_loop()
        clock = AwakeClock(self._clock, loop)
        if opened is None:
            shards = await asyncio.to_thread(load_shards, store, self.settings, threads)
            log = StoreCommitLog(store, loop=loop, on_failed=self._note_failed)
            return None, log, Runtime(log, shards, clock=clock, store=store)
        from offsetd_coordinator.cluster.cluster import Cluster  # noqa: PLC0415

        cluster = Cluster(
            opened,
            self.node,
            self.settings,
            shard_config=shard_config(self.settings, store.partitions),
            on_failed=self._note_failed,
        )
        self.node.cluster_report = cluster.report
        self.node.cluster_counters = cluster.counters
        runtime = Runtime(cluster.log, {}, clock=clock, store=store, directory=cluster.directory)
        return cluster, cluster.log, runtime

    def _load_internal_topics(self, store: LogStore) -> InternalTopics:
        settings = self.settings
        return InternalTopics.load(
            store,
            settings.configs,
            request_id_window_ms=settings.request_id_window_ms,
            now_ms=self._clock.now_ms(),
            accepts_defaults=self._accepts_default_settings,
        )

    def _upkeep(
        self, store: LogStore, log: StoreCommitLog | KafkaCommitLog, config: UpkeepConfig
    ) -> Upkeep:
        """The background tasks of the store."""
        return Upkeep(
            store,
            Path(self.settings.data_dir),
            config,
            files=store.files,
            clock=self._clock,
            random=self._random,
            cleaner_delay_ms=_CLEANER_DELAY_MS,
            on_failed=log.fail_soon,
            on_round=self.observability.cleaner_log.note_round,
            on_uncleanable=self.observability.cleaner_log.note_uncleanable,
            on_blocked=self.observability.cleaner_log.note_blocked,
        )

    def _expirer(
        self, store: LogStore, runtime: Runtime, administration: Administration
    ) -> Expirer:
        """The task that expires offsets. Its grace period allows for the server's downtime."""
        folder = Path(self.settings.data_dir)
        grace_left_ms = grace_of_folder_ms(
            store,
            store.files,
            folder,
            now_ms=self._clock.wall_ms(),
            grace_ms=runtime.expiry_config.grace_ms,
        )
        return Expirer(
            runtime,
            administration,
            self.observability.expiry,
            grace_left_ms=grace_left_ms,
            files=store.files,
            folder=folder,
            clock=self._clock,
        )

    def _backups(self, loaded: _Loaded) -> ScheduledBackups | ClusterBackups:
        make: Callable[..., ScheduledBackups | ClusterBackups]
        make = partial(ScheduledBackups, loaded.backup_source)
        if loaded.cluster is not None:
            make = loaded.cluster.scheduled_backups
        counters = self.observability.backups
        return make(self.settings, counters, clock=self._clock, random=self._random)

    def _note_failed(self, error: StorageFailed) -> None:
        _log.error(
            f"{what_happened(error)}: nothing more is acknowledged",
            error=str(error),
            exc_info=error.__cause__ if isinstance(error, FlushDefect) else None,
        )
        self._stopping.set()


def _reflection_is_on(settings: Settings) -> bool:
    if settings.reflection_enable != "auto":
        return settings.reflection_enable == "true"
    return is_loopback(settings.listen_address)
