"""Kafka's own cleaner does to small logs what is known of it: the harness that runs it works."""

from pathlib import Path

import pytest
from interop.cleaner_examples import Example, Expected, examples, outline
from interop.kafka_cleaner import CleanedCase, KafkaCleaner
from interop.kafka_runtime import KafkaUnavailable
from interop.requirements import no_kafka
from offsetd_storage.record_batch import decode_batches

pytestmark = pytest.mark.kafka

EXAMPLES = examples()


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CleanedCase]:
    try:
        cleaner = KafkaCleaner.install()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))
    return cleaner.clean(
        [each.case for each in EXAMPLES], tmp_path_factory.mktemp("kafka") / "work"
    )


def outlines(state: Path) -> list[list[str]]:
    """Of a folder's segments, the last one aside."""
    logs = sorted(state.glob("*.log"))[:-1]
    return [[outline(batch) for batch in decode_batches(log.read_bytes())] for log in logs]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.case.name)
def test_kafkas_cleaner_does_what_is_known_of_it(
    cleaned: dict[str, CleanedCase], example: Example
) -> None:
    done = cleaned[example.case.name]
    found = [
        Expected(next_first_dirty=report.next_first_dirty, segments=outlines(state))
        for report, state in zip(done.rounds, done.states[1:], strict=True)
    ]
    assert found == example.expected
