"""A consumer that is to be killed: ADDRESS OF-KAFKA TOPIC FILE, a line for each message."""

import os
import sys
from pathlib import Path

from offsetd_clients import ConsumerSettings, LeaseTerms, OffsetClient
from offsetd_clients.kafka import KafkaConsumer

COMMIT_INTERVAL_S = 0.005


def main(address: str, kafka_address: str, topic: str, file: Path) -> None:
    settings = ConsumerSettings(
        lease=LeaseTerms(holder="worker"),
        auto_commit_interval_s=COMMIT_INTERVAL_S,
        idle_wait_s=0.005,
        read_items_max=50,
    )
    config = {"bootstrap.servers": kafka_address, "log_level": 0}
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with OffsetClient(address) as client:
        for item in KafkaConsumer(client, topic, [topic], config, settings):
            os.write(out, f"{item.topic_partition.partition} {item.offset}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
