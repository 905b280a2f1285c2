"""Runs Kafka's classes: in a container if a Docker engine answers, else from Maven's jars."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from deploy.kafka.maven_jars import JavaUnavailable, fetched_jars, jars_folder

KAFKA_VERSION = "4.1.1"
IMAGE = f"apache/kafka:{KAFKA_VERSION}"
TOOL_S_MAX = 120
STOP_S_MAX = 60

ARTIFACTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
)
LOGGING = """rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n%ex
"""
# Starts in seconds on a small machine; a test's broker has little to do.
JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_JARS = f"kafka-{KAFKA_VERSION}"
UTF_8 = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")


class KafkaUnavailable(Exception):
    """No Kafka can be run here; says why."""


class ToolFailed(Exception):
    """One of Kafka's tools ended with an exit code other than 0."""


@attrs.frozen
class Said:
    """What a tool printed. What it finds wrong it may say on either."""

    stdout: str
    stderr: str


class RunningJvm(Protocol):
    """A Java process that was started and is to be ended."""

    def is_running(self) -> bool: ...
    def terminate(self) -> None:
        """SIGTERM; returns when it is gone."""

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""

    def pause(self) -> None:
        """SIGSTOP."""

    def resume(self) -> None:
        """SIGCONT."""

    def pid(self) -> int:
        """Of the process, as this machine's /proc has it."""


class Runtime(Protocol):
    """Runs main classes of Kafka's. `folder` is its current folder, the only one it has to see."""

    def run(self, main_class: str, arguments: Sequence[str], folder: Path) -> Said:
        """Runs a tool to its end. Raises ToolFailed."""

    def start(
        self, main_class: str, arguments: Sequence[str], folder: Path, log: Path
    ) -> RunningJvm:
        """Starts a server whose stdout and stderr go to `log`."""


def find_runtime(java_options: tuple[str, ...] = JAVA_OPTIONS) -> Runtime:
    """The way to run Kafka on this machine. Raises KafkaUnavailable."""
    try:
        return DockerRuntime.connect(java_options)
    except KafkaUnavailable as no_docker:
        try:
            return LocalRuntime.install(java_options)
        except KafkaUnavailable as no_java:
            raise KafkaUnavailable(f"{no_docker}; {no_java}") from None


@attrs.frozen
class LocalRuntime:
    """Jars from Maven Central, run by the Java that is installed."""

    jars: Path
    java_options: tuple[str, ...] = JAVA_OPTIONS

    @staticmethod
    def is_installed() -> bool:
        """Whether the jars are there."""
        return jars_folder(_JARS).is_dir()

    @classmethod
    def install(cls, java_options: tuple[str, ...] = JAVA_OPTIONS) -> "LocalRuntime":
        """Fetches the jars into the cache folder unless they are there. Raises KafkaUnavailable."""
        try:
            jars = fetched_jars(_JARS, ARTIFACTS, files={"log4j2.properties": LOGGING})
        except JavaUnavailable as unavailable:
            raise KafkaUnavailable(str(unavailable)) from None
        return cls(jars, java_options)

    def run(self, main_class: str, arguments: Sequence[str], folder: Path) -> Said:
        ended = subprocess.run(
            self._command(main_class, arguments, quiet=True),
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TOOL_S_MAX,
            check=False,
        )
        if ended.returncode != 0:
            raise ToolFailed(f"{main_class}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        return Said(ended.stdout, ended.stderr)

    def start(
        self, main_class: str, arguments: Sequence[str], folder: Path, log: Path
    ) -> RunningJvm:
        with log.open("ab") as output:
            process = subprocess.Popen(
                self._command(main_class, arguments, quiet=False),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the caller, which ends it in its turn.
            )
        return LocalJvm(process)

    def _command(self, main_class: str, arguments: Sequence[str], *, quiet: bool) -> list[str]:
        logging = self.jars / "log4j2.properties"
        options = [*self.java_options, *UTF_8]
        options.append(f"-Dlog4j2.configurationFile={logging}")
        if quiet:
            options.append("-Dlog4j2.level=ERROR")
        return ["java", *options, "-cp", f"{self.jars}/*", main_class, *arguments]


@attrs.frozen
class LocalJvm:
    """A Java process of ours."""

    process: subprocess.Popen[bytes]

    def is_running(self) -> bool:
        return self.process.poll() is None

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_S_MAX)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_S_MAX)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def pid(self) -> int:
        return self.process.pid


@attrs.frozen
class DockerRuntime:
    """Kafka's own image: the host's network, our user, and the folder under the same path."""

    client: Any
    java_options: tuple[str, ...] = JAVA_OPTIONS

    @classmethod
    def connect(cls, java_options: tuple[str, ...] = JAVA_OPTIONS) -> "DockerRuntime":
        """Raises KafkaUnavailable unless a Docker engine answers and has or gets the image."""
        try:
            from testcontainers.core.docker_client import DockerClient

            client = DockerClient().client
            client.ping()
            if IMAGE not in {tag for image in client.images.list() for tag in image.tags}:
                client.images.pull(IMAGE)
        except Exception as error:  # whatever is wrong, there is no Docker
            raise KafkaUnavailable(f"no Docker engine ({type(error).__name__})") from error
        return cls(client, java_options)

    def run(self, main_class: str, arguments: Sequence[str], folder: Path) -> Said:
        container = self._container(main_class, arguments, folder)
        try:
            code = container.wait(timeout=TOOL_S_MAX)["StatusCode"]
            said = Said(
                stdout=str(container.logs(stdout=True, stderr=False), "utf-8"),
                stderr=str(container.logs(stdout=False, stderr=True), "utf-8"),
            )
            if code != 0:
                raise ToolFailed(f"{main_class}: {said.stdout[-2000:]}{said.stderr[-2000:]}")
            return said
        finally:
            container.remove(force=True)

    def start(
        self, main_class: str, arguments: Sequence[str], folder: Path, log: Path
    ) -> RunningJvm:
        return DockerJvm(self._container(main_class, arguments, folder), log)

    def _container(self, main_class: str, arguments: Sequence[str], folder: Path) -> Any:
        from testcontainers.core.container import DockerContainer

        container = (
            DockerContainer(IMAGE)
            .with_volume_mapping(str(folder), str(folder), "rw")
            .with_env("LOG_DIR", "/tmp")
            .with_env("KAFKA_HEAP_OPTS", " ".join(self.java_options[:1]))
            .with_env("KAFKA_JVM_PERFORMANCE_OPTS", " ".join([*self.java_options[1:], *UTF_8]))
            .with_command([main_class, *arguments])
            .with_kwargs(
                entrypoint=["/opt/kafka/bin/kafka-run-class.sh"],
                network_mode="host",
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir=str(folder),
            )
        )
        container.start()
        return container.get_wrapped_container()


@attrs.frozen
class DockerJvm:
    """A container of ours. Its output is written to `log` when it ends."""

    container: Any
    log: Path

    def is_running(self) -> bool:
        self.container.reload()
        return bool(self.container.status == "running")

    def terminate(self) -> None:
        self.container.stop(timeout=STOP_S_MAX)
        self._remove()

    def kill(self) -> None:
        self.container.kill("SIGKILL")
        self.container.wait(timeout=STOP_S_MAX)
        self._remove()

    def pause(self) -> None:
        self.container.kill("SIGSTOP")

    def resume(self) -> None:
        self.container.kill("SIGCONT")

    def pid(self) -> int:
        self.container.reload()
        return int(self.container.attrs["State"]["Pid"])

    def _remove(self) -> None:
        with self.log.open("ab") as output:
            output.write(self.container.logs())
        self.container.remove(force=True)
