"""A real Kafka broker is given partition folders in which groups and offsets have expired."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from interop.kafka_broker import KafkaBroker
from interop.kafka_dump import complaints, dump
from interop.served_folder import ServedFolder
from offsetd_clients import OffsetClient, TopicPartition

from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

SETTINGS = ("offsets.retention.check.interval.ms=100",)
EXPIRED_S_MAX = 60
GROUPS = 60
SOON = timedelta(milliseconds=1)


def put(client: OffsetClient, group_id: str, partitions: range, *, expires: bool) -> None:
    client.commit(
        group_id,
        {TopicPartition("orders", partition): 5 + partition for partition in partitions},
        retention=SOON if expires else None,
    )


def stored(client: OffsetClient) -> dict[str, dict[tuple[str, int], int]]:
    """What each group has; groups without offsets are not named."""
    names = [f"{kind}-{number}" for kind in ("gone", "half", "kept") for number in range(GROUPS)]
    fetched = {name: client.fetch(name) for name in names}
    return {
        name: {(key.topic, key.partition): each.offset for key, each in offsets.items()}
        for name, offsets in fetched.items()
        if offsets
    }


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A data folder, and what is left in it."""
    folder = tmp_path_factory.mktemp("ours") / "data"
    server = ServedFolder(folder, settings=SETTINGS)
    with server.running() as client:
        for number in range(GROUPS):
            put(client, f"gone-{number}", range(3), expires=True)
            put(client, f"half-{number}", range(2), expires=False)
            put(client, f"half-{number}", range(1, 4), expires=True)
            put(client, f"kept-{number}", range(2), expires=False)
        deadline = time.monotonic() + EXPIRED_S_MAX
        while len(left := stored(client)) > 2 * GROUPS or len(left["half-0"]) > 1:
            assert time.monotonic() < deadline, "the offsets do not expire"
            time.sleep(0.1)
        # One that was gone is there again.
        put(client, "gone-0", range(1), expires=False)
        left = stored(client)
    assert set(left) == {f"{kind}-{n}" for kind in ("half", "kept") for n in range(GROUPS)} | {
        "gone-0"
    }
    return folder, dict(left)


@pytest.fixture
def broker(
    used_broker: KafkaBroker, expired: tuple[Path, dict[str, object]], tmp_path: Path
) -> Iterator[KafkaBroker]:
    """Running on our partition folders."""
    broker = used_broker.copy_to(tmp_path / "broker")
    broker.take_offsets_topic(expired[0])
    with broker.running():
        yield broker


def test_a_broker_knows_the_groups_that_are_left_and_no_other(
    broker: KafkaBroker, expired: tuple[Path, dict[str, object]]
) -> None:
    left = expired[1]
    assert set(broker.groups()) == set(left)
    assert {group_id: broker.admin_offsets(group_id) for group_id in left} == left


def test_kafkas_dump_finds_nothing_wrong_with_the_tombstones(
    kafka_runtime: Runtime, expired: tuple[Path, dict[str, object]]
) -> None:
    folder = expired[0]
    logs = [str(path.relative_to(folder)) for path in sorted(folder.glob("__consumer*/*.log"))]
    checked = dump(kafka_runtime, folder, logs, "--offsets-decoder", "--deep-iteration")
    assert complaints(checked) == []
    assert checked.stdout.count('"group":"gone-1"') > 0
