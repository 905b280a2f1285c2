"""A server that was paused, as a virtual machine is: nobody is taken for dead because of it."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import GroupState, LeaseHeld, OffsetClient, UnknownMember
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 60
SESSION_S = 6.0
PAUSE_S = 8.0
SETTINGS = {"group.initial.rebalance.delay.ms": 100}
PROTOCOLS = {"range": b"m"}


def test_members_and_leases_outlive_a_pause_of_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings=SETTINGS) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            joined = client.join_group("g", PROTOCOLS, session_timeout_s=SESSION_S)
            member = joined.membership
            client.sync_group(member, {member.member_id: b"all"})
            lease = client.acquire_group("l", "holder", ttl=timedelta(seconds=SESSION_S))
            client.heartbeat(member)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(PAUSE_S)
            os.kill(server.pid, signal.SIGCONT)
            assert client.get_group("g").state == GroupState.STABLE
            client.heartbeat(member)
            with pytest.raises(LeaseHeld):
                client.acquire_group("l", "another")
            client.renew_group("l", lease.epoch)
            # A member that is silent while the server runs is removed as ever.
            poll(lambda: client.get_group("g").state == GroupState.EMPTY, WAIT_S)
            with pytest.raises(UnknownMember):
                client.heartbeat(member)
        server.stop_well()
