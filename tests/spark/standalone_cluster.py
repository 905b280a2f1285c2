"""Spark's standalone cluster on this machine: a master, workers, and nodes without offsetd."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import venv
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyspark
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from patience import PATIENCE_SECONDS
from ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORKERS: Final = 2
PROJECT: Final = Path(__file__).parents[2]
GUIDE: Final = PROJECT / "docs/guides/spark-cluster.md"
_LAUNCHER: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
_POLL_S: Final = 0.2
_STOP_S_MAX: Final = 30


@attrs.frozen(kw_only=True)
class Cluster:
    """A running cluster. `python` is what its nodes have: the listed libraries, nothing of ours."""

    master_url: str
    python: Path


def zipped_wheel(folder: Path) -> Path:
    """The project's wheel, under a name that Spark takes for one of packages."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", folder, PROJECT], check=True, capture_output=True)
    (wheel,) = folder.glob("offsetd-*.whl")
    return Path(shutil.copy(wheel, folder / "offsetd.zip"))


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers of a core each, until the end of the `with` statement."""
    port, web_port = free_ports(2)
    url = f"spark://127.0.0.1:{port}"
    host = ("--host", "127.0.0.1")
    processes = [
        _launched("master.Master", [*host, "--port", str(port), "--webui-port", str(web_port)])
    ]
    try:
        for number in range(WORKERS):
            work_folder = ("--work-dir", str(folder / f"worker-{number}"), "--webui-port", "0")
            size = ("--cores", "1", "--memory", "1g")
            processes.append(_launched("worker.Worker", [*host, *size, *work_folder, url]))
        _wait_for_workers(f"http://127.0.0.1:{web_port}/json/", processes)
        yield Cluster(master_url=url, python=_python_with(listed_libraries(), folder / "python"))
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(_STOP_S_MAX)


def _launched(main_class: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return subprocess.Popen(
        [_LAUNCHER, f"org.apache.spark.deploy.{main_class}", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _wait_for_workers(url: str, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Workers that ask before the master listens ask again some seconds later."""
    deadline_s = time.monotonic() + 2 * PATIENCE_SECONDS
    alive = 0
    while alive < WORKERS:
        assert time.monotonic() < deadline_s, f"{alive} workers of {WORKERS} are there"
        assert all(process.poll() is None for process in processes), "one of the cluster ended"
        time.sleep(_POLL_S)
        try:
            with urllib.request.urlopen(url) as answer:
                state: dict[str, Any] = json.load(answer)
        except OSError:
            continue
        alive = state["aliveworkers"]


def listed_libraries() -> list[str]:
    """What the guide says that executors need."""
    text = GUIDE.read_text(encoding="utf-8")
    (listed,) = re.findall(r"these libraries: (.+?)\.", text, flags=re.DOTALL)
    return re.findall(r"`([\w-]+)`", listed)


def _python_with(names: Sequence[str], folder: Path) -> Path:
    """An interpreter with some distributions of this one's, and with what they require."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    wanted, seen = list(names), set[str]()
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(found.locate_file(top))))
        required = map(Requirement, found.requires or ())
        wanted += [each.name for each in required if not each.marker or each.marker.evaluate()]
    return folder / "bin" / "python"
