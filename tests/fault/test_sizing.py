"""What `offsetd size` estimates, against a server that has the load."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli_calls import offsetd_of
from offsetd_clients import AsyncOffsetClient, OffsetToCommit, TopicPartition
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.offline.sizing import MEASURED, Workload, loop_share, needs
from promised import ROOT
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

AT_ONCE = 500
TOPIC = "topic-" + 14 * "0"

# Groups, their partitions, and whether commits report ends.
LOADS = [(2000, 50, True)]
if os.environ.get("OFFSETD_NIGHTLY"):
    LOADS += [(100_000, 1, False), (16_667, 6, False)]


def anonymous_bytes(pid: int) -> int:
    """What the process has itself. How much of its files is mapped is up to the kernel."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.findall(r"RssAnon:\s+(\d+)", status)[0])


async def load(address: str, groups: int, partitions: int, *, reports_ends: bool) -> None:
    offset = OffsetToCommit(5, end_offset=9 if reports_ends else None)
    offsets = {TopicPartition(TOPIC, partition): offset for partition in range(partitions)}
    async with AsyncOffsetClient(address) as client:
        for first in range(0, groups, AT_ONCE):
            some = range(first, min(groups, first + AT_ONCE))
            await asyncio.gather(*(client.commit(f"group-{each:014}", offsets) for each in some))


@pytest.mark.single_server
@pytest.mark.parametrize(("groups", "partitions", "reports_ends"), LOADS)
def test_the_estimate_of_memory_and_disk_is_within_30_percent(
    tmp_path: Path, groups: int, partitions: int, *, reports_ends: bool
) -> None:
    workload = Workload(
        groups=groups,
        partitions=partitions,
        commits_per_second=groups / 60,  # All of the load within the window of request ids.
        offsets_per_commit=partitions,
        history_days=0,
        reports_ends=reports_ends,
    )
    found = {need.what: need.amount for need in needs(workload, load_settings())}
    with ServerProcess(tmp_path / "data") as process:
        process.wait_until_serving()
        empty = anonymous_bytes(process.pid)
        asyncio.run(load(process.address, groups, partitions, reports_ends=reports_ends))
        full = anonymous_bytes(process.pid)
        process.stop_well()
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("__consumer_offsets-*/*.log"))
    stored = found["offsets and groups"] + found.get("lag windows", 0) + found["request ids"]
    assert full == pytest.approx(found["the process"] + stored, rel=0.3)
    grown = stored + MEASURED["working memory"].value
    assert full - empty == pytest.approx(grown, rel=0.3)
    assert on_disk == pytest.approx(found["live offsets"], rel=0.3)


@pytest.fixture
def size(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[tuple[str, str], float]]:
    def call(*words: str) -> dict[tuple[str, str], float]:
        ended = offsetd_of("127.0.0.1:1", monkeypatch)("size", "-o", "json", *words)
        assert ended.code == 0, ended.stderr
        return {(row["resource"], row["item"]): row["amount"] for row in json.loads(ended.stdout)}

    return call


SMALL = ("--groups", "10", "--partitions", "4", "--commits-per-second", "2")


def test_totals_are_the_sums_and_grow_with_the_load(
    size: Callable[..., dict[tuple[str, str], float]],
) -> None:
    small = size(*SMALL)
    for resource in ("memory", "disk", "descriptors"):
        parts = [
            amount for (of, item), amount in small.items() if of == resource != item != "total"
        ]
        assert small[resource, "total"] == pytest.approx(sum(parts), abs=len(parts))
    assert small["cores", "total"] == 2
    kept = size(*SMALL, "--history-days", "30")
    assert kept["disk", "history"] == pytest.approx(720 * small["disk", "history"], rel=0.01)
    assert ("memory", "lag windows") not in size(*SMALL, "--no-end-offsets")
    few = size(*SMALL, "--offsets-per-commit", "1")
    assert few["disk", "history"] < small["disk", "history"]
    larger = size(*SMALL, "--set", "max.connections=8000")
    assert larger["descriptors", "total"] - small["descriptors", "total"] == 7875


def test_more_commits_than_one_loop_decides_on_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    call = offsetd_of("127.0.0.1:1", monkeypatch)
    ended = call("size", "--groups", "9", "--partitions", "1", "--commits-per-second", "20000")
    assert "use several nodes" in ended.stderr
    assert call("size", *SMALL, "--set", "no.such=1").code == 2
    workload = Workload(
        groups=1, partitions=1, commits_per_second=10_500, offsets_per_commit=1, history_days=0
    )
    assert loop_share(workload) == pytest.approx(1, abs=0.01)


def test_the_guide_has_each_constant() -> None:
    guide = (ROOT / "docs" / "guides" / "sizing.md").read_text("utf-8")
    for name, measured in MEASURED.items():
        assert f"| {name} | {measured.value:,.10g} {measured.unit} | {measured.how} |" in guide
