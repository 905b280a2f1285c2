"""Ports for the servers of a test: no two servers get the same one."""

from __future__ import annotations

from ports import PORTS, free_ports, ports_of_worker


def test_a_port_is_given_once_even_if_nobody_listens_yet() -> None:
    given = [port for _ in range(300) for port in free_ports(3)]
    assert len({*given}) == len(given)
    assert {*given} <= {*PORTS}


def test_workers_of_xdist_share_no_port() -> None:
    count = 4
    parts = [
        ports_of_worker(
            {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(count)}
        )
        for number in range(count)
    ]
    assert sorted(port for part in parts for port in part) == [*PORTS]
    assert ports_of_worker({}) == PORTS
