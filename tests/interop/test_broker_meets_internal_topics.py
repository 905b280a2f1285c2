"""A broker meets the topics of ours that it has never heard of."""

from collections.abc import Callable
from pathlib import Path

import pytest
from interop.kafka_broker import KafkaBroker
from interop.served_folder import ServedFolder
from offsetd_clients import TopicPartition

pytestmark = pytest.mark.kafka

INTERNAL_TOPICS = ("__offsetd_audit", "__offsetd_config")


def test_a_broker_sets_our_own_topics_aside_and_we_take_them_back(
    used_broker: KafkaBroker, tmp_path: Path, serve: Callable[[Path], ServedFolder]
) -> None:
    broker = used_broker.copy_to(tmp_path / "broker")
    server = serve(broker.data_folder)
    for turn in range(2):
        with server.running() as client:
            client.commit("ours", {TopicPartition("orders", 0): 1})
            settings = {each.name: each.value for each in client.describe_config()}
            assert settings["log.retention.ms"] == ("777000" if turn else "")
            client.update_config({"log.retention.ms": "777000"}, reason="before the broker")
            client.update_config({"log.retention.ms": "888000"}, reason="before the broker")
            client.update_config({"log.retention.ms": "777000"}, reason="before the broker")
        with broker.running():
            assert "ours" in broker.groups()
        for topic in INTERNAL_TOPICS:
            assert not (broker.data_folder / f"{topic}-0").exists()
            assert len(list(broker.data_folder.glob(f"{topic}-0.*-stray"))) == 1
    with server.running() as client:
        [setting] = client.describe_config(names=["log.retention.ms"])
        assert setting.value == "777000"
        [audit] = client.describe_log("__offsetd_audit")
        assert (audit.log_start_offset, audit.log_end_offset) == (0, 5)
