"""The guides that need a Kafka cluster, run word for word but for its address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from interop.kafka_protocol import KafkaOffset
from interop.kafka_topic import KafkaTopic
from interop.test_readme import Block, blocks, normalised
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interop.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

KAFKA: Final = "localhost:9092"
STEP_SECONDS_MAX: Final = 120


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """With messages in `orders`, the last of which is `stop`, and two groups."""
    copy = used_broker.copy_to(tmp_path_factory.mktemp("guides") / "broker")
    with copy.running():
        topic = KafkaTopic(copy.address, 3, name="orders", is_new=False)
        topic.produce(0, ["a", "b", "stop"])
        yield copy


@pytest.fixture
def follow(broker: KafkaBroker, tmp_path: Path) -> Iterator[Callable[[Block], str]]:
    """Does what a block says, against a fresh server; returns what it prints."""
    with ServerProcess(tmp_path / "data") as server:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("OFFSETD_")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        address = server.wait_until_serving().address
        environment = {**inherited, "PATH": path, "OFFSETD_ADDRESS": address}

        def do(block: Block) -> str:
            text = block.text.replace(KAFKA, broker.address)
            is_python = block.language == "python"
            ended = subprocess.run(
                [sys.executable, "-c", text] if is_python else ["sh", "-ec", text],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                check=False,
                timeout=STEP_SECONDS_MAX,
            )
            assert ended.returncode == 0, f"{text}\n{ended.stdout}"
            return ended.stdout

        yield do


def followed(follow: Callable[[Block], str], guide: str, steps_min: int) -> None:
    steps = blocks(f"docs/guides/{guide}.md")
    assert len(steps) >= steps_min
    for step in steps:
        printed = follow(step)
        if step.printed is not None:
            assert normalised(printed) == normalised(step.printed), step.text


def test_a_consumer_of_kafka_keeps_its_offsets_here_as_the_guide_says(
    follow: Callable[[Block], str],
) -> None:
    followed(follow, "kafka-data-offsets-here", 2)


def test_groups_move_here_and_back_as_the_guide_says(
    broker: KafkaBroker, follow: Callable[[Block], str]
) -> None:
    two = KafkaOffset(offset=2, leader_epoch=None, metadata="")
    one = KafkaOffset(offset=1, leader_epoch=None, metadata="")
    none = KafkaOffset(offset=0, leader_epoch=None, metadata="")
    broker.commit("billing", {("orders", 0): two, ("orders", 1): none})
    broker.commit("shipping", {("orders", 0): one})
    followed(follow, "migration-from-kafka", 6)
    assert broker.admin_offsets("billing") == {("orders", 0): 3, ("orders", 1): 0}
