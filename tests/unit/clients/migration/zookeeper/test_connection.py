"""How a ZooKeeper is reached: what of it is shown."""

from __future__ import annotations

from offsetd_clients.cli.migration.zookeeper_options import ZooKeeperChoice
from offsetd_clients.migration.zookeeper.connection import ZooKeeper


def test_no_password_is_shown() -> None:
    choice = ZooKeeperChoice(
        hosts="h:1",
        auth=(("digest", "user:secret"),),
        ca_file=None,
        certificate_file=None,
        key_file=None,
        is_tls=False,
        session_timeout_s=1,
        state_root="/r",
    )
    zookeeper = choice.zookeeper()
    assert zookeeper.auth == ZooKeeper(hosts="", auth=choice.auth).auth == choice.auth
    assert "secret" not in f"{choice!r} {zookeeper!r}"
