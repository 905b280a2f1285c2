"""The image is built by buildah, and a server runs in it. Only the nightly run has the minutes.

Its base is a small Debian, made here: no registry of images has to answer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest
from deployment.tools import DEPLOY, ROOT, tool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.root,
    pytest.mark.long(minutes=8),
    pytest.mark.skipif(not os.environ.get("OFFSETD_NIGHTLY"), reason="only OFFSETD_NIGHTLY=1"),
]

SECONDS_MAX: Final = 1800
SUITE: Final = "bookworm"
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"
BASE: Final = "localhost/offsetd-base:1"
IMAGE: Final = "localhost/offsetd:test"
# As an engine with --read-only --tmpfs /tmp and a volume would run it. $1 is the image's root.
ENGINE: Final = """
set -eu
mount --make-rprivate /
mount --rbind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mount -t tmpfs -o uid=10001,gid=10001,mode=755 tmpfs "$1/var/lib/offsetd"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
ip link set lo up
exec chroot --userspec=10001:10001 "$1" \\
    env -i PATH=/opt/offsetd/bin:/usr/bin:/bin XDG_CACHE_HOME=/var/cache sh -c "$2"
"""
SERVE: Final = "offsetd serve --config /etc/offsetd/offsetd.toml"
USE: Final = f"""
cd /var/lib/offsetd
OFFSETD_SECURITY_ALLOW_INSECURE=true {SERVE} 2>log & server=$!
until offsetd admin health 2>/dev/null; do kill -0 $server; done
offsetd commit billing orders:0=42
kill -TERM $server
wait $server
offsetd admin health || echo unhealthy
cat log
"""


def ran(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )


def did(*command: str | Path) -> str:
    ended = ran(*command)
    assert ended.returncode == 0, f"{command}:\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
    return ended.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The root folder of the built image, mounted."""
    folder = tmp_path_factory.mktemp("image")
    buildah = [tool("buildah"), "--root", f"{folder}/store", "--runroot", f"{folder}/run"]
    root = folder / "base"
    packages = "--include=python3,python3-venv,ca-certificates"
    did(tool("debootstrap"), "--variant=minbase", packages, SUITE, root)
    # The registries of packages are trusted as on this machine.
    shutil.copy(CERTIFICATES, root / CERTIFICATES.removeprefix("/"))
    (root / "etc" / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    base = did(*buildah, "from", "scratch")
    did(*buildah, "add", "--quiet", base, root, "/")
    did(*buildah, "commit", "--quiet", base, BASE)
    shutil.rmtree(root)
    did(
        *(*buildah, "build", "--isolation", "chroot", "--network", "host", "--format", "docker"),
        *("--build-arg", f"BASE={BASE}", "--tag", IMAGE, "--file", DEPLOY / "Containerfile"),
        *("--ignorefile", DEPLOY / "Containerfile.dockerignore", ROOT),
    )
    container = did(*buildah, "from", IMAGE)
    yield did(*buildah, "mount", container)
    did(*buildah, "umount", "--all")
    did(*buildah, "rm", "--all")


def run_in(image: str, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell script as a container of the image would, without a network."""
    namespaces = ("--mount", "--pid", "--net", "--fork", "--kill-child")
    return ran("unshare", *namespaces, "sh", "-c", ENGINE, "engine", image, script)


def test_it_refuses_to_be_open_to_everybody(image: str) -> None:
    ended = run_in(image, SERVE)
    assert ended.returncode == 1
    assert "say security.allow.insecure=true" in ended.stderr


def test_a_server_runs_in_it_without_rights_and_with_compiled_kernels(image: str) -> None:
    ended = run_in(image, USE)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "orders          0      42" in ended.stdout
    assert "unhealthy" in ended.stdout
    assert "compiling" not in ended.stdout
