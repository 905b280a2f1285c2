"""systemd as the first process of namespaces of its own, with offsetd's unit installed.

What it can write to is its own, and gone with it. It has a loopback of its own, too, so the unit
uses its real ports.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest
from offsetd_storage.kernels import code_files
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
UNIT_FOLDER: Final = ROOT / "deploy" / "systemd"
SYSTEMD: Final = Path("/lib/systemd/systemd")
SECONDS_MAX: Final = 120
_IN_OPT: Final = {"base": "/opt/venv", "platbase": "/opt/venv"}
# The checkout, its Python and its environment, where the unit's user may read them.
_PACKAGES: Final = ("protos", "storage", "coordinator", "clients", "pipeline")
_PYTHONPATH: Final = ":".join(
    [*(f"/opt/source/{name}" for name in _PACKAGES), sysconfig.get_path("purelib", vars=_IN_OPT)]
)
_OFFSETD: Final = f"""#!/bin/sh
export PYTHONPATH={_PYTHONPATH} LD_LIBRARY_PATH=/opt/python/lib
exec /opt/python/bin/{Path(sys.executable).resolve().name} \\
    -c "from offsetd_clients.cli.main import main; main()" "$@"
"""
_LOG: Final = "/run/offsetd.log"
# The test looks at what the server says, and does not wait for RestartSec.
_DROP_IN: Final = f"[Service]\nStandardError=append:{_LOG}\nRestartSec=100ms\n"
# Nothing outside of the namespaces can be changed once all mounts are read-only: units of the host,
# which empty /tmp at a boot, could. They are also not found, since SYSTEMD_UNIT_PATH has ours only.
_BOOT: Final = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir -p "$1/etc" "$1/work" "$1/opt/source" "$1/opt/venv" "$1/opt/python" "$1/opt/offsetd/bin"
mount --bind "$2" "$1/opt/source"
mount --bind "$3" "$1/opt/venv"
mount --bind "$6" "$1/opt/python"
cp -r "$4" "$1/kernels"
printf %s "$OFFSETD_SCRIPT" >"$1/opt/offsetd/bin/offsetd"
chmod 755 "$1/opt/offsetd/bin/offsetd"
cut -d " " -f 5 /proc/self/mountinfo | while read -r mounted; do
    [ "$mounted" = "$1" ] || mount -o remount,bind,ro "$mounted"
done
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" /etc
mount --rbind "$1/opt" /opt
mkdir -p "$1/cache/offsetd/offsetd"
mv "$1/kernels" "$1/cache/offsetd/offsetd/kernels"
mount --bind "$1/cache" /var/cache
for folder in /dev/shm /run /tmp /var/lib /var/log /var/tmp; do
    mount -t tmpfs -o mode=755 tmpfs $folder
done
mkdir -p /run/units/offsetd.service.d /etc/offsetd
cp /opt/source/deploy/systemd/offsetd.service /run/units
printf %s "$OFFSETD_DROP_IN" >/run/units/offsetd.service.d/test.conf
for unit in basic shutdown sysinit network-online; do
    printf '[Unit]\\nDescription=Nothing\\nDefaultDependencies=no\\n' >/run/units/$unit.target
done
cp /opt/source/deploy/systemd/offsetd.toml /etc/offsetd
systemd-sysusers /opt/source/deploy/systemd/offsetd.sysusers
chown -R offsetd:offsetd /var/cache/offsetd
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
ip link set lo up
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH=/run/units \\
    "$5" --system --unit=basic.target --show-status=no --log-target=null
"""
_ENTER: Final = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"'
_SCRIPT: Final = "OFFSETD_SCRIPT"
_DROP: Final = "OFFSETD_DROP_IN"


@attrs.frozen
class Machine:
    """A running systemd."""

    pid: int

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in the machine, as root."""
        inside = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), *inside, "--", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        )

    def did(self, *command: str) -> str:
        """The output of a command, which has to succeed."""
        ended = self.run(*command)
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}{self.log()}"
        return ended.stdout

    def offsetd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("/opt/offsetd/bin/offsetd", *arguments)

    def shows(self, name: str) -> str:
        """A property of the unit, as `systemctl show` has it."""
        return self.did("systemctl", "show", "offsetd", "--property", name, "--value").strip()

    def configure(self, *lines: str) -> None:
        """Further lines for [Service]; none: as the unit is."""
        text = "\n".join(("[Service]", *lines, ""))
        self.did("sh", "-c", f"cat >/run/units/offsetd.service.d/z.conf <<'E'\n{text}E")
        self.did("systemctl", "daemon-reload")

    def log(self) -> str:
        """What the server wrote."""
        return self.run("cat", _LOG).stdout


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[Machine]:
    """Skips the test where such a machine cannot be had, and by day unless it is asked for.

    A systemd that left its namespaces would change the host: whoever runs the tests decides.
    """
    is_asked_for = "systemd" in os.environ.get("OFFSETD_REQUIRE", "").split(",")
    if not (is_asked_for or os.environ.get("OFFSETD_NIGHTLY")):
        pytest.skip("a systemd is started at night, or with OFFSETD_REQUIRE=systemd")
    if os.geteuid() != 0:
        pytest.skip("systemd can be started by root only")
    needed = ("unshare", "nsenter", "ip", "systemctl", "systemd-sysusers")
    missing = [name for name in needed if not shutil.which(name)]
    if missing or not SYSTEMD.exists():
        pytest.skip(f"no systemd here: {missing or SYSTEMD}")
    kernels = next(code_files._roots())
    arguments = (str(folder), str(ROOT), sys.prefix, str(kernels), str(SYSTEMD), sys.base_prefix)
    namespaces = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
    with _own_cgroup() as cgroup:
        process = subprocess.Popen(
            [
                *("sh", "-c", _ENTER, "enter", cgroup, "unshare", *namespaces, "--fork"),
                *("--kill-child", "sh", "-c", _BOOT, "boot", *arguments),
            ],
            env={**os.environ, _SCRIPT: _OFFSETD, _DROP: _DROP_IN},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield _wait_for(process)
        finally:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def _own_cgroup() -> Iterator[Path]:
    """A control group below which a systemd finds its own tree. It is removed when it is empty."""
    tops = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    top = next((each for each in tops if (each / "cgroup.procs").exists()), None)
    if top is None:
        pytest.skip("no tree of control groups (v2) here")
    cgroup = top / f"offsetd-test-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield cgroup
    finally:
        poll(lambda: "populated 0" in (cgroup / "cgroup.events").read_text(), SECONDS_MAX)
        for folder in sorted(filter(Path.is_dir, cgroup.rglob("*")), reverse=True):
            folder.rmdir()
        cgroup.rmdir()


def _wait_for(process: subprocess.Popen[str]) -> Machine:
    """The machine, once its systemd answers."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    poll(lambda: children.read_text() or process.poll() is not None, SECONDS_MAX)
    machine = Machine(int(children.read_text() or 0))

    def answers() -> bool:
        return machine.run("systemctl", "is-active", "basic.target").returncode == 0

    poll(lambda: process.poll() is not None or answers(), SECONDS_MAX)
    if process.poll() is not None:
        pytest.skip(f"systemd cannot be started here: {process.communicate()[0]}")
    return machine
