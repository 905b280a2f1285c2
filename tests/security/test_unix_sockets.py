"""A server on a Unix socket: who may connect, and whose calls they are."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_clients.errors import AuthorizationFailed
from promised import promised_by
from server_process import ServerProcess
from token_files import TokenFile

if TYPE_CHECKING:
    from pathlib import Path

promised = promised_by("docs/guides/security.md")

ACLS = """
[[acl]]
principal = "User:ANONYMOUS"
allow = ["Read"]
group = "local"
host = "unix"
[[acl]]
principal = "User:ANONYMOUS"
allow = ["Read"]
group = "far"
host = "127.0.0.1"
[[acl]]
principal = "User:app"
allow = ["Read"]
group = "app"
[[acl]]
principal = "User:*"
allow = ["Read"]
topic = "*"
"""
P0 = TopicPartition("orders", 0)


@pytest.mark.single_server
@promised(
    "Whoever may write to its file may connect",
    "In rules, such callers have the host `unix`",
)
def test_callers_of_a_unix_socket(tmp_path: Path) -> None:
    (tmp_path / "acls.toml").write_text(ACLS)
    token, _ = TokenFile(tmp_path / "tokens.toml").create("User:app")
    socket = tmp_path / "offsetd.sock"
    settings = {
        "listen.address": f"unix:{socket}",
        "security.acl.file": tmp_path / "acls.toml",
        "security.tokens.file": tmp_path / "tokens.toml",
    }
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        mode = socket.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert not mode & (stat.S_IWGRP | stat.S_IWOTH), "the usual umask"
        with OffsetClient(f"unix:{socket}") as client:
            client.commit("local", {P0: 1})
            with pytest.raises(AuthorizationFailed, match="User:ANONYMOUS has no right"):
                client.commit("far", {P0: 1})
        with OffsetClient(f"unix:{socket}", token=token) as client:
            client.commit("app", {P0: 1})
            with pytest.raises(AuthorizationFailed, match="User:app has no right"):
                client.commit("local", {P0: 1})
