"""The client by which a node of a cluster backs the nodes up: TLS, its certificate, its token."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients.cluster_backup import ClusterBackupClient

if TYPE_CHECKING:
    from pathlib import Path

    from security.secured_server import SecuredFiles
    from server_process import ServerProcess

SECONDS_MAX = 60


def identity(files: SecuredFiles, folder: Path, name: str) -> dict[str, str]:
    """The files of a caller, as `backup.client.*` names them."""
    issued = files.authority.issue(name)
    (folder / f"{name}.pem").write_bytes(issued.certificate_pem)
    (folder / f"{name}.key").write_bytes(issued.key_pem)
    return {
        "ca_file": str(files.truststore),
        "certificate_file": str(folder / f"{name}.pem"),
        "key_file": str(folder / f"{name}.key"),
    }


def client(server: ServerProcess, **more: Any) -> ClusterBackupClient:
    return ClusterBackupClient(
        server.address, has_tls=True, timeout_s=more.pop("timeout_s", SECONDS_MAX), **more
    )


def test_it_reads_all_chunks_with_a_certificate_that_may(
    mtls_server: ServerProcess, files: SecuredFiles, tmp_path: Path
) -> None:
    backups = client(mtls_server, **identity(files, tmp_path, "root"))
    [(head, answers)] = backups.streams([])
    assert head.log_partitions == 50
    assert all(each.chunk.digest for each in answers)
    backups.close()
    backups.close()


def test_a_caller_without_the_right_is_told(
    mtls_server: ServerProcess, files: SecuredFiles, tmp_path: Path
) -> None:
    backups = client(mtls_server, **identity(files, tmp_path, "reader"))
    with pytest.raises(ConnectionError, match="AUTHORIZATION_FAILED"):
        backups.streams([])
    backups.close()


def test_a_token_is_sent_and_read_anew_by_each_client(
    token_server: ServerProcess, files: SecuredFiles, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("nobody's\n")
    named: dict[str, Any] = {"ca_file": str(files.truststore), "token_file": str(token)}
    backups = client(token_server, **named)
    with pytest.raises(ConnectionError, match="AUTHENTICATION_FAILED"):
        backups.streams([])
    backups.close()


@pytest.mark.parametrize("missing", ["ca_file", "certificate_file", "token_file"])
def test_a_file_that_is_missing_is_named(
    missing: str, files: SecuredFiles, tmp_path: Path, mtls_server: ServerProcess
) -> None:
    named = {**identity(files, tmp_path, "root"), missing: str(tmp_path / "nothing")}
    with pytest.raises(OSError, match="nothing"):
        client(mtls_server, **named)


def test_a_token_is_not_sent_to_another_machine_in_plain_text(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with pytest.raises(ConnectionError, match="without TLS"):
        ClusterBackupClient("10.0.0.1:7171", has_tls=False, token_file=str(token), timeout_s=1)


def test_it_can_be_closed_while_it_waits() -> None:
    backups = ClusterBackupClient("127.0.0.1:1", has_tls=False, timeout_s=SECONDS_MAX)
    closing = threading.Timer(0.2, backups.close)
    closing.start()
    begun_s = time.monotonic()
    with pytest.raises(ConnectionError):
        backups.streams([])
    assert time.monotonic() - begun_s < SECONDS_MAX
    closing.join()
