"""What the guide "Commit storms" promises, beside what a server refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from promised import promised_by
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from promises.conftest import Told

promised = promised_by("docs/guides/commit-storms.md")

P0: Final = TopicPartition("orders", 0)
P1: Final = TopicPartition("orders", 1)
SUPPRESSED: Final = "commit.unchanged.suppress.ms"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"history.ms": None, SUPPRESSED: 60_000}
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=settings) as process:
        yield process.wait_until_serving()


@promised(
    "a commit is answered without writing a record if all its offsets are already stored "
    "unchanged: the same offset, leader epoch and metadata",
    "If one of them differs, all are written as usual.",
    "The answer's `revision` is that of the stored offsets, the newest of the commit's partitions.",
    "The commit time does not change",
    "Watchers and the history show nothing, since nothing changed.",
    "A reported `end_offset` still updates the known end of the partition.",
)
def test_only_what_says_something_new_is_written(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    same = {P0: OffsetToCommit(7, leader_epoch=1, metadata="m"), P1: OffsetToCommit(8)}
    first = client.commit(group, same)
    before = client.fetch(group)
    assert client.commit(group, {**same, P1: OffsetToCommit(8, end_offset=99)}) == first
    after = client.fetch(group)
    assert (after[P0], after[P1].commit_time) == (before[P0], before[P1].commit_time)
    assert after[P1].end_offset == 99
    assert len(offsetd(f"groups history {group} -o jsonl").rows) == 2
    for different in (
        {P0: OffsetToCommit(7, leader_epoch=2, metadata="m")},
        {P0: OffsetToCommit(7, leader_epoch=2, metadata="n")},
        {P0: OffsetToCommit(7, leader_epoch=2, metadata="n"), P1: OffsetToCommit(9)},
    ):
        revision = client.commit(group, different)
        assert revision.log_offset > first.log_offset
        first = revision
    assert len(offsetd(f"groups history {group} -o jsonl").rows) == 2 + 1 + 1 + 2


@promised(
    "These commits are always written: commits with a precondition or with a `retention`, commits "
    "over an offset that has an expiry of its own"
)
def test_what_is_always_written_is_written(client: OffsetClient, group: str) -> None:
    revision = client.commit(group, {P0: 7})
    guarded = client.commit(group, {P0: OffsetToCommit(7, expected_offset=7)})
    assert guarded.log_offset > revision.log_offset
    kept = client.commit(group, {P0: 7}, retention=timedelta(days=30))
    assert kept.log_offset > guarded.log_offset
    over = client.commit(group, {P0: 7})
    assert over.log_offset > kept.log_offset
    assert client.commit(group, {P0: 7}) == over


@promised(
    "The setting is therefore at most a tenth of `offsets.retention.minutes`; more is refused."
)
def test_a_longer_suppression_than_a_tenth_of_the_retention_is_refused(
    offsetd: Callable[[str], Told],
) -> None:
    tenth = 7 * 24 * 3600 * 1000 // 10
    refused = offsetd(f"admin config {SUPPRESSED}={tenth + 1}")
    assert (refused.code, "offsets.retention.minutes" in refused.stderr) == (2, True), refused
    assert offsetd(f"admin config {SUPPRESSED}={tenth}").code == 0
    refused = offsetd(f"admin config offsets.retention.minutes={7 * 24 * 60 - 1}")
    assert refused.code == 2, refused
    assert offsetd(f"admin config --unset {SUPPRESSED}").code == 0


@promised(
    "All of them may be changed while the server runs (`UpdateConfig`, `offsetd admin config "
    "NAME=VALUE`). They keep their values, also after a restart, until `offsetd admin config "
    "--unset NAME`."
)
def test_what_was_set_stays_over_restarts(tmp_path_factory: pytest.TempPathFactory) -> None:
    from cli_calls import offsetd_of

    names = (SUPPRESSED, "group.commit.rate.max", "group.commit.burst.max")
    folder = tmp_path_factory.mktemp("kept") / "data"

    def values(address: str) -> list[str]:
        with pytest.MonkeyPatch.context() as monkeypatch:
            told = offsetd_of(address, monkeypatch)("admin", "config", *names, "-o", "csv")
        return [line.split(",")[1] for line in told.stdout.splitlines()[1:]]

    def change(address: str, *words: str) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            told = offsetd_of(address, monkeypatch)("admin", "config", *words)
            assert told.code == 0, told

    with ServerProcess(folder) as server:
        server.wait_until_serving()
        change(server.address, *(f"{name}={number}" for number, name in enumerate(names, 11)))
        assert sorted(values(server.address)) == ["11", "12", "13"]
        server.kill()
    with ServerProcess(folder) as server:
        server.wait_until_serving()
        assert sorted(values(server.address)) == ["11", "12", "13"]
        change(server.address, *(word for name in names for word in ("--unset", name)))
        server.stop_well()
    with ServerProcess(folder) as server:
        server.wait_until_serving()
        assert values(server.address) == ["0", "0", "0"]


@promised(
    "Changes by administrators do not count.",
    "The number of offsets in a commit does not matter.",
)
def test_only_commits_count_against_the_bound(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    set_to = "admin config group.commit.rate.max={} group.commit.burst.max={}"
    assert offsetd(set_to.format(1, 1)).code == 0
    try:
        where = [TopicPartition("orders", each) for each in range(1000)]
        client.commit(group, dict.fromkeys(where, 1))
        for offset in range(5):
            line = f"groups reset {group} --all-topics --to-offset {offset} --execute"
            assert offsetd(line).code == 0
        refused = [offsetd(f"commit {group} orders:0=1 --timeout 0.1") for _ in range(3)]
        assert any("COMMIT_RATE_EXCEEDED" in each.stderr for each in refused), refused
    finally:
        assert (
            offsetd(
                "admin config --unset group.commit.rate.max --unset group.commit.burst.max"
            ).code
            == 0
        )
    poll(lambda: offsetd(f"commit {group} orders:0=1").code == 0, 60)
