"""Every record type against bytes and JSON that Kafka's own classes made."""

import contextlib
import random
from pathlib import Path

import attrs
import pytest
from offsetd_storage.offsets_topic.schemas.kafka_json import message_json
from offsetd_storage.offsets_topic.schemas.layout import (
    read_message,
    read_versioned,
    write_message,
    write_versioned,
)
from offsetd_storage.offsets_topic.schemas.primitives import (
    Reader,
    UndecodableRecord,
    UnknownValueVersion,
    Writer,
)
from offsetd_storage.offsets_topic.schemas.record_layouts import (
    KEY_LAYOUTS,
    VALUE_LAYOUTS,
    RecordType,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1-records.tsv"


@attrs.frozen
class KafkaRecord:
    """A row of the golden file."""

    record_type: RecordType = attrs.field(converter=lambda text: RecordType(int(text)))
    version: int = attrs.field(converter=int)
    key: bytes = attrs.field(converter=bytes.fromhex)
    value: bytes = attrs.field(converter=bytes.fromhex)
    key_json: str
    value_json: str


RECORDS = [
    KafkaRecord(*line.split("\t"))
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
NAMES = [f"{record.record_type.name}-v{record.version}" for record in RECORDS]


def test_the_golden_file_has_every_record_type_and_version() -> None:
    versions = {
        (record_type, version)
        for record_type, layout in VALUE_LAYOUTS.items()
        for version in range(layout.version_last + 1)
    }
    assert {(record.record_type, record.version) for record in RECORDS} == versions
    assert set(RecordType) == set(KEY_LAYOUTS) == set(VALUE_LAYOUTS)


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_a_value_reads_and_writes_as_kafka_does(record: KafkaRecord) -> None:
    layout = VALUE_LAYOUTS[record.record_type]
    message = read_versioned(layout, record.value)
    assert message.version == record.version
    assert message_json(layout, message) == record.value_json
    assert write_versioned(layout, message.fields, record.version) == record.value


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_a_key_reads_and_writes_as_kafka_does(record: KafkaRecord) -> None:
    layout = KEY_LAYOUTS[record.record_type]
    reader = Reader(record.key)
    assert reader.int16() == record.record_type
    message = read_message(layout, reader, version=0)
    assert message_json(layout, message) == record.key_json
    writer = Writer()
    writer.int16(record.record_type)
    write_message(layout, message.fields, 0, writer)
    assert writer.result() == record.key


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_a_value_cut_short_anywhere_raises(record: KafkaRecord) -> None:
    layout = VALUE_LAYOUTS[record.record_type]
    for size in range(len(record.value)):
        with pytest.raises(UndecodableRecord):
            read_versioned(layout, record.value[:size])


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_bytes_after_the_last_field_and_unknown_tags_are_passed_over(record: KafkaRecord) -> None:
    layout = VALUE_LAYOUTS[record.record_type]
    message = read_versioned(layout, record.value)
    assert read_versioned(layout, record.value + b"\x00\x01") == message
    tags = [field for field in layout.fields if field.tag is not None]
    if not layout.is_flexible(record.version) or any(
        message.fields[field.name] != field.default for field in tags
    ):
        return
    tagged = read_versioned(layout, record.value[:-1] + bytes.fromhex("01 8a01 02 beef"))
    assert tagged == attrs.evolve(message, unknown_tags={138: b"\xbe\xef"})


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_a_version_of_the_future_is_told_from_damage(version: int) -> None:
    with pytest.raises(UnknownValueVersion, match=f"no version {version}"):
        read_versioned(
            VALUE_LAYOUTS[RecordType.OFFSET_COMMIT], version.to_bytes(2, "big", signed=True)
        )


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes_never_raise_anything_else(seed: int) -> None:
    chance = random.Random(seed)
    for record in RECORDS:
        layout = VALUE_LAYOUTS[record.record_type]
        for _ in range(50):
            damaged = bytearray(record.value)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(2, len(damaged))] = chance.randrange(256)
            with contextlib.suppress(UndecodableRecord):
                read_versioned(layout, bytes(damaged))
