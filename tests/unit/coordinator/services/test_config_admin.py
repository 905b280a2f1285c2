"""Settings described and changed through the service; what counts after a restart."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.administration.administration import ApplyFailed
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    encode_config_key,
    encode_config_value,
)
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    AUDIT_TOPIC,
    CONFIG_PARTITION,
    CONFIG_TOPIC,
)
from offsetd_coordinator.messages.field_counts import SETTINGS_MAX
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_coordinator.services.config_admin import ConfigAdmin
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFull
from offsetd_storage.retention.log_claims import CleaningState
from offsetd_storage.views.folder_view import read_folder
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.configuration.topic_configs import TopicConfigs
    from offsetd_storage.topic_partition import TopicPartition

Setting = admin_service_pb2.ConfigSetting


async def describe(serving: ServingNode, topic: str = "", *names: str) -> dict[str, Setting]:
    """Settings by name."""
    request = admin_service_pb2.DescribeConfigRequest(topic=topic, names=names)
    answer = await asyncio.wait_for(
        ConfigAdmin(serving.node).describe_config(request.SerializeToString()), WAIT_SECONDS
    )
    settings = admin_service_pb2.DescribeConfigResponse.FromString(answer).settings
    assert [each.name for each in settings] == sorted({each.name for each in settings})
    return {each.name: each for each in settings}


async def update(serving: ServingNode, **fields: Any) -> admin_service_pb2.UpdateConfigResponse:
    """Changes settings."""
    request = admin_service_pb2.UpdateConfigRequest(**fields)
    answer = await asyncio.wait_for(
        ConfigAdmin(serving.node).update_config(request.SerializeToString()), WAIT_SECONDS
    )
    return admin_service_pb2.UpdateConfigResponse.FromString(answer)


def ends(serving: ServingNode) -> tuple[int, int]:
    """Where the topics of settings and of the audit end."""
    logs = serving.store.logs
    return logs[CONFIG_PARTITION].offset_next, logs[AUDIT_PARTITION].offset_next


def records(serving: ServingNode, topic_partition: TopicPartition) -> Iterator[Record]:
    """What is in the files of a log."""
    log = serving.store.logs[topic_partition]
    for buffer, end in log.read_chunks(1 << 16):
        for batch in decode_batches(buffer[:end].tobytes()):
            yield from batch.records


async def test_settings_say_what_they_are_and_where_they_are_from() -> None:
    async with serving_node() as serving:
        server = await describe(serving)
        assert server["log.cleaner.threads"] == Setting(
            name="log.cleaner.threads",
            value="1",
            default_value="1",
            source=admin_service_pb2.CONFIG_SOURCE_DEFAULT,
            unit="threads",
            description=server["log.cleaner.threads"].description,
            is_dynamic=True,
            allowed_values="a whole number from 1 to 1024",
        )
        assert server["log.cleaner.threads"].description
        assert not server["journal.file.bytes"].is_dynamic
        audit = await describe(serving, AUDIT_TOPIC)
        assert audit["retention.ms"].value == str(90 * 86_400_000)
        assert audit["retention.ms"].source == admin_service_pb2.CONFIG_SOURCE_TOPIC_DEFAULT
        assert "log.cleaner.threads" not in audit
        assert set(await describe(serving, AUDIT_TOPIC, "retention.ms", "segment.ms")) == {
            "retention.ms",
            "segment.ms",
        }


async def test_a_change_counts_for_what_runs_is_recorded_and_is_there_after_a_restart() -> None:
    files = SimulatedFiles()
    async with serving_node(files=files, cleaning=True) as serving:
        changed = await update(
            serving,
            set={"log.cleaner.threads": "2", "log.retention.check.interval.ms": "777"},
            reason="früher",
        )
        assert changed.revision.log_offset == 1
        assert [(each.name, each.value) for each in changed.settings] == [
            ("log.cleaner.threads", "2"),
            ("log.retention.check.interval.ms", "777"),
        ]
        assert len(serving.upkeep.cleaner.status.threads) == 2
        assert serving.upkeep.config.retention.check_interval_ms == 777
        await update(serving, topic=AUDIT_TOPIC, set={"retention.ms": "5", "segment.ms": "6"})
        await update(serving, topic=AUDIT_TOPIC, remove=["segment.ms"])
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms == 5
        assert serving.store.logs[AUDIT_PARTITION].config.segment_ms == 604_800_000
        audited = [json.loads(each.value or b"") for each in records(serving, AUDIT_PARTITION)]
        assert [(each["method"], each["topic"], each["what"]) for each in audited] == [
            (
                "UpdateConfig",
                None,
                {
                    "set": {"log.cleaner.threads": "2", "log.retention.check.interval.ms": "777"},
                    "remove": [],
                },
            ),
            (
                "UpdateConfig",
                AUDIT_TOPIC,
                {"set": {"retention.ms": "5", "segment.ms": "6"}, "remove": []},
            ),
            ("UpdateConfig", AUDIT_TOPIC, {"set": {}, "remove": ["segment.ms"]}),
        ]
        assert [each["reason"] for each in audited] == ["früher", "", ""]
    async with serving_node(files=files) as serving:
        assert serving.upkeep.config.cleaner.threads == 2
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms == 5
        described = await describe(serving, "", "log.cleaner.threads")
        assert described["log.cleaner.threads"].source == (
            admin_service_pb2.CONFIG_SOURCE_DYNAMIC_SERVER
        )
        await update(serving, remove=["log.cleaner.threads"])
        assert serving.upkeep.config.cleaner.threads == 1


async def test_nothing_acts_by_a_setting_before_it_is_durable() -> None:
    async with serving_node(flushing=False) as serving:
        asked = asyncio.ensure_future(update(serving, topic=AUDIT_TOPIC, set={"retention.ms": "5"}))
        looked = asyncio.ensure_future(describe(serving, AUDIT_TOPIC))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert ends(serving) == (1, 1)
        assert not asked.done()
        assert not looked.done()
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms != 5
        asked.cancel()  # Whoever asked goes away; the change stays.
        serving.runtime.start()
        assert (await looked)["retention.ms"].value == "5"
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms == 5


async def test_a_change_that_is_being_applied_is_not_overtaken_when_its_caller_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as serving:
        apply = serving.administration._apply
        begun: list[TopicConfigs] = []
        may_end = threading.Event()

        def apply_slowly(configs: TopicConfigs, doubt: str | None) -> None:
            begun.append(configs)
            may_end.wait(WAIT_SECONDS)
            apply(configs, doubt)

        monkeypatch.setattr(serving.administration, "_apply", apply_slowly)
        first = asyncio.ensure_future(update(serving, set={"log.cleaner.threads": "2"}))
        async with asyncio.timeout(WAIT_SECONDS):
            while not begun:  # noqa: ASYNC110  In another thread.
                await asyncio.sleep(0.001)
        first.cancel()
        second = asyncio.ensure_future(update(serving, set={"log.cleaner.threads": "3"}))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(begun) == 1
        may_end.set()
        await second
        assert [each.cleaner.threads for each in begun] == [2, 3]
        assert serving.upkeep.config.cleaner.threads == 3


async def test_changes_are_applied_in_their_order() -> None:
    async with serving_node() as serving:
        await asyncio.gather(
            *(
                update(serving, topic=AUDIT_TOPIC, set={"retention.ms": f"{number}"})
                for number in range(1, 30)
            )
        )
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms == 29


async def test_a_retry_is_answered_once_and_also_after_a_restart() -> None:
    files = SimulatedFiles()
    request = {"set": {"log.cleaner.threads": "2"}, "request_id": "once"}
    async with serving_node(files=files) as serving:
        first, again = await asyncio.gather(update(serving, **request), update(serving, **request))
        assert first == again
        await update(serving, set={"log.cleaner.threads": "3"})
        assert (await update(serving, **request)).revision == first.revision
        assert ends(serving) == (2, 2)
        assert serving.upkeep.config.cleaner.threads == 3
    async with serving_node(files=files) as serving:
        assert (await update(serving, **request)).revision == first.revision
        assert ends(serving) == (2, 2)


async def test_what_is_only_validated_changes_nothing() -> None:
    async with serving_node() as serving:
        seen = await update(serving, set={"log.cleaner.threads": "2"}, validate_only=True)
        assert not seen.HasField("revision")
        assert [each.value for each in seen.settings] == ["2"]
        assert (await describe(serving))["log.cleaner.threads"].value == "1"
        assert ends(serving) == (0, 0)
        with pytest.raises(errors.InvalidConfig):
            await update(serving, set={"log.cleaner.threads": "0"}, validate_only=True)


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"set": {"log.cleaner.thread": "2"}}, errors.InvalidConfig, "set[log.cleaner.thread]"),
        ({"set": {"log.cleaner.threads": "x"}}, errors.InvalidConfig, "set[log.cleaner.threads]"),
        (
            {"set": {"journal.file.bytes": "70000000"}},
            errors.InvalidConfig,
            "set[journal.file.bytes]",
        ),
        (
            {"topic": OFFSETS_TOPIC, "set": {"cleanup.policy": "compact,delete"}},
            errors.InvalidConfig,
            "set[cleanup.policy]",
        ),
        (
            {"topic": CONFIG_TOPIC, "set": {"cleanup.policy": "delete"}},
            errors.InvalidConfig,
            "set[cleanup.policy]",
        ),
        (
            {"topic": OFFSETS_TOPIC, "set": {"max.message.bytes": "2000000"}},
            errors.InvalidConfig,
            "set[max.message.bytes]",
        ),
        (
            {"topic": AUDIT_TOPIC, "set": {"retention.ms": "5", "internal.retention.ms": "6"}},
            errors.InvalidConfig,
            "set[retention.ms]",
        ),
        (
            {"set": {"log.cleaner.threads": "2"}, "remove": ["log.cleaner.threads"]},
            errors.InvalidConfig,
            "set[log.cleaner.threads]",
        ),
        ({"remove": ["a", "a"]}, errors.InvalidConfig, "remove[1]"),
        ({"remove": ["no.such.setting"]}, errors.InvalidConfig, "remove"),
        ({"set": {"log.dir": "x" * 1025}}, errors.InvalidConfig, "set[log.dir]"),
        ({}, errors.InvalidRequest, "set"),
        ({"remove": ["a"] * (SETTINGS_MAX + 1)}, errors.InvalidRequest, "remove"),
        ({"set": {"a": "b"}, "reason": "x" * 1025}, errors.InvalidRequest, "reason"),
        ({"set": {"a": "b"}, "request_id": "x" * 65}, errors.InvalidRequestId, "request_id"),
        ({"topic": "orders", "set": {"retention.ms": "5"}}, errors.InvalidTopic, "topic"),
    ],
)
async def test_what_is_not_allowed_is_refused_and_changes_nothing(
    fields: dict[str, Any], error: type[errors.InvalidField], field: str
) -> None:
    async with serving_node() as serving:
        with pytest.raises(error) as refused:
            await update(serving, **fields)
        assert refused.value.field == field
        assert ends(serving) == (0, 0)


async def test_names_that_are_asked_for_have_to_exist() -> None:
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidConfig, match=r"log\.cleaner\.threads"):
            await describe(serving, "", "log.cleaner.thread")
        with pytest.raises(errors.InvalidTopic, match="__offsetd_audit"):
            await describe(serving, "orders")
        with pytest.raises(errors.InvalidConfig, match=r"did you mean segment\.ms with --topic"):
            await describe(serving, "", "segmnt.ms")


async def test_a_setting_of_topics_says_at_once_all_that_is_asked_for() -> None:
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidConfig, match=r"of a topic, .*: say --topic"):
            await describe(serving, "", "segment.ms")
        with pytest.raises(errors.InvalidConfig, match=r"say --topic .*needs a restart.*--set"):
            await update(serving, set={"max.message.bytes": "2000000"})
        with pytest.raises(errors.InvalidConfig, match="of the server, not of a topic"):
            await describe(serving, OFFSETS_TOPIC, "listen.address")


async def test_a_full_disk_refuses_a_change_and_nothing_is_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as serving:

        def refuse(*_: object, **__: object) -> None:
            raise StorageFull("no room")

        monkeypatch.setattr(serving.log, "_append", refuse)
        with pytest.raises(errors.DiskFull):
            await update(serving, set={"log.cleaner.threads": "2"})
        assert (await describe(serving))["log.cleaner.threads"].value == "1"
        assert ends(serving) == (0, 0)


async def test_a_low_disk_takes_no_commits_and_settings_all_the_same() -> None:
    async with serving_node() as serving:
        serving.runtime.disk = serving.upkeep.disk
        serving.upkeep.disk.note_full(StorageFull("no room"))
        with pytest.raises(errors.DiskFull):
            await serving.commit("g", 1)
        await update(serving, set={"log.cleaner.backoff.ms": "10"})
        found = await describe(serving, "", "log.cleaner.backoff.ms")
        assert found["log.cleaner.backoff.ms"].value == "10"
        with pytest.raises(errors.DiskFull):
            await serving.commit("g", 1)


async def test_the_reserve_follows_the_segments_unless_it_is_set() -> None:
    async with serving_node() as serving:
        disk = serving.upkeep.disk
        for change, shown, reserve_mib in (
            ({"topic": OFFSETS_TOPIC, "set": {"segment.bytes": "1048576"}}, "", 2),
            ({"topic": OFFSETS_TOPIC, "set": {"segment.bytes": "104857600"}}, "", 128),
            ({"set": {"disk.reserve.bytes": "5242880"}}, "5242880", 5),
            ({"topic": OFFSETS_TOPIC, "set": {"segment.bytes": "1048576"}}, "5242880", 5),
            ({"remove": ["disk.reserve.bytes"]}, "", 2),
        ):
            await update(serving, **change)
            disk.check()
            assert disk.status.reserve_bytes_held == reserve_mib << 20
            found = (await describe(serving, "", "disk.reserve.bytes"))["disk.reserve.bytes"]
            assert (found.value, found.default_value) == (shown, "")


async def test_what_is_not_known_is_kept_shown_and_taken_back() -> None:
    files = SimulatedFiles()
    stored = {
        ConfigKey(None, "log.of.a.newer.version"): "7",
        ConfigKey(AUDIT_TOPIC, "retention.ms"): "never",
    }
    async with serving_node(files=files) as serving:
        batch = encode_batch(
            [
                Record(
                    key=encode_config_key(key),
                    value=encode_config_value(text),
                    offset=place,
                    timestamp_ms=serving.clock.now_ms(),
                )
                for place, (key, text) in enumerate(stored.items())
            ],
            base_offset=0,
        )
        serving.store.append(CONFIG_PARTITION, batch, last_offset=1, max_timestamp_ms=0)
    async with serving_node(files=files) as serving:
        newer = (await describe(serving))["log.of.a.newer.version"]
        assert (newer.value, newer.source) == ("7", admin_service_pb2.CONFIG_SOURCE_DYNAMIC_SERVER)
        assert "'7' is stored, but not used" in newer.problem
        retention = (await describe(serving, AUDIT_TOPIC))["retention.ms"]
        assert retention.value == str(90 * 86_400_000)
        assert "is set, and not used" in (serving.node.settings_doubt or "")
        assert "'never' is stored, but not used" in retention.problem
        await update(serving, remove=["log.of.a.newer.version"])
        await update(serving, topic=AUDIT_TOPIC, set={"retention.ms": "6"})
        assert "log.of.a.newer.version" not in await describe(serving)
        assert (await describe(serving, AUDIT_TOPIC))["retention.ms"].problem == ""
        assert serving.node.settings_doubt is None, "what was taken back, or set anew, is no doubt"


async def test_what_cannot_be_put_in_force_is_told_once_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as serving:
        apply = serving.administration._apply

        def fail(*_: object) -> None:
            raise MemoryError("no room for a map")

        monkeypatch.setattr(serving.administration, "_apply", fail)
        with pytest.raises(ApplyFailed):
            await update(serving, set={"log.cleaner.threads": "2"})
        assert (await describe(serving))["log.cleaner.threads"].value == "2"
        monkeypatch.setattr(serving.administration, "_apply", apply)
        await update(serving, set={"log.cleaner.threads": "3"})
        assert serving.upkeep.config.cleaner.threads == 3


async def test_a_change_is_answered_when_nothing_goes_on_by_the_settings_before() -> None:
    async with serving_node() as serving:
        states = serving.upkeep.cleaner.states
        for each in (AUDIT_PARTITION, CONFIG_PARTITION):
            states.begin(each)  # As a round does, or retention.
        asked = asyncio.ensure_future(
            update(serving, topic=AUDIT_TOPIC, set={"retention.ms": "-1"})
        )
        while states.state(AUDIT_PARTITION) is not CleaningState.ABORTED:
            await asyncio.sleep(0.005)
            assert not asked.done()
        assert serving.store.logs[AUDIT_PARTITION].config.retention_ms == -1
        assert states.state(CONFIG_PARTITION) is CleaningState.IN_PROGRESS
        states.end(AUDIT_PARTITION)
        await asked
        assert states.state(AUDIT_PARTITION) is CleaningState.IDLE


class TickingClock(ManualClock):
    """No two looks at it say the same."""

    def now_ms(self) -> int:
        """A millisecond more than the last time."""
        self.advance(1)
        return super().now_ms()


async def test_indexes_of_settings_and_audit_log_have_the_times_of_their_records() -> None:
    files = SimulatedFiles()
    async with serving_node(files=files, clock=TickingClock()) as serving:
        await update(serving, set={"log.cleaner.threads": "2"})
        now_ms = serving.clock.now_ms()
        serving.administration.note_events(
            [
                AuditEvent(time_ms=time_ms, method="Noted", topic=None, what={}, request_id="")
                for time_ms in (now_ms + 1, now_ms)
            ]
        )
    logs = {each.topic_partition: each for each in read_folder(files, Path("/data")).logs}
    for topic_partition in (CONFIG_PARTITION, AUDIT_PARTITION):
        verifier = LogVerifier(files, logs[topic_partition], partitions=None)
        assert list(verifier.findings()) == []
        assert verifier.records
