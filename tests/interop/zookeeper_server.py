"""A real ZooKeeper for a test: in a container where Docker is, else from Maven's jars."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import attrs
from interop.requirements import no_zookeeper
from ports import free_ports

from deploy.kafka.maven_jars import JavaUnavailable, fetched_jars

try:
    from kazoo.client import KazooClient
    from kazoo.handlers.threading import KazooTimeoutError
except ModuleNotFoundError:
    no_zookeeper("kazoo is not installed: make test sets it up")

ZOOKEEPER_VERSION = "3.9.3"
IMAGE = f"zookeeper:{ZOOKEEPER_VERSION}"
ARTIFACTS = (
    f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
    # What its own pom.xml has as provided.
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
    "org.slf4j:slf4j-nop:1.7.30",
)
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# A small heap; a test's server has little to do, and is to start soon.
JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Short ticks: a session may end after two of them.
CONFIG = """tickTime=250
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
autopurge.purgeInterval=0
"""
START_S_MAX = 60
STOP_S_MAX = 30


class ZooKeeperUnavailable(Exception):
    """No ZooKeeper can be run here; says why."""


class Runtime(Protocol):
    """A way to run a server on a folder that has its configuration."""

    def start(self, folder: Path, port: int) -> "Process": ...


class Process(Protocol):
    """What was started."""

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""

    @property
    def is_running(self) -> bool: ...


def find_runtime() -> Runtime:
    """Raises ZooKeeperUnavailable."""
    try:
        return DockerRuntime.connect()
    except ZooKeeperUnavailable as no_docker:
        try:
            return LocalRuntime(fetched_jars(f"zookeeper-{ZOOKEEPER_VERSION}", ARTIFACTS))
        except JavaUnavailable as no_java:
            raise ZooKeeperUnavailable(f"{no_docker}; {no_java}") from None


@attrs.frozen
class LocalRuntime:
    """The Java that is installed."""

    jars: Path

    def start(self, folder: Path, port: int) -> Process:
        del port  # The configuration says so.
        log = (folder / "zookeeper.log").open("ab")
        with log:
            process = subprocess.Popen(
                [
                    *("java", *JAVA_OPTIONS, "-cp", f"{self.jars}/*"),
                    *(MAIN_CLASS, str(folder / "zoo.cfg")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return LocalProcess(process)


@attrs.frozen
class LocalProcess:
    """A Java process of ours."""

    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_S_MAX)


@attrs.frozen
class DockerRuntime:
    """ZooKeeper's own image, on the host's network."""

    client: Any

    @classmethod
    def connect(cls) -> "DockerRuntime":
        """Raises ZooKeeperUnavailable unless an engine answers and has or gets the image."""
        try:
            from testcontainers.core.docker_client import DockerClient

            client = DockerClient().client
            client.ping()
            if IMAGE not in {tag for image in client.images.list() for tag in image.tags}:
                client.images.pull(IMAGE)
        except Exception as error:  # whatever is wrong, there is no Docker
            raise ZooKeeperUnavailable(f"no Docker engine ({type(error).__name__})") from error
        return cls(client)

    def start(self, folder: Path, port: int) -> Process:
        del port
        from testcontainers.core.container import DockerContainer

        container = (
            DockerContainer(IMAGE)
            .with_volume_mapping(str(folder), str(folder), "rw")
            .with_command(["zkServer.sh", "--config", str(folder), "start-foreground"])
            .with_env("ZOO_LOG_DIR", str(folder))
            .with_kwargs(network_mode="host", entrypoint=[], user=f"{os.getuid()}:{os.getgid()}")
        )
        container.start()
        return DockerProcess(container.get_wrapped_container())


@attrs.frozen
class DockerProcess:
    """A container of ours."""

    container: Any

    @property
    def is_running(self) -> bool:
        self.container.reload()
        return bool(self.container.status == "running")

    def kill(self) -> None:
        self.container.remove(force=True)


class ZooKeeperServer:
    """A server in a folder of its own; it comes back with what it had."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder
        [self._port] = free_ports(1)
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """HOST:PORT, the same after a restart."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(folder=self._folder, port=self._port)
        (self._folder / "zoo.cfg").write_text(config)
        (self._folder / "zookeeper.log").touch()
        self._process = process = self._runtime.start(self._folder, self._port)
        end = time.monotonic() + START_S_MAX
        while True:
            client = KazooClient(self.address, timeout=1)
            try:
                client.start(timeout=1)
            except KazooTimeoutError:
                assert process.is_running, (self._folder / "zookeeper.log").read_text()
                assert time.monotonic() < end, "ZooKeeper does not answer"
            else:
                return
            finally:
                client.stop()
                client.close()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    @contextmanager
    def client(self, chroot: str = "", **options: Any) -> Iterator[KazooClient]:
        """A session of a test's own."""
        client = KazooClient(self.address + chroot, timeout=10, **options)
        client.start(timeout=START_S_MAX)
        try:
            yield client
        finally:
            client.stop()
            client.close()


@contextmanager
def running_zookeeper(runtime: Runtime, folder: Path) -> Iterator[ZooKeeperServer]:
    """Started within, killed after."""
    server = ZooKeeperServer(runtime, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
