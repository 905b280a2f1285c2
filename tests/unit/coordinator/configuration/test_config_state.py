"""Dynamic settings: what is decided, what is replayed, and what a load makes of strange records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    encode_config_key,
    encode_config_value,
)
from offsetd_coordinator.configuration.config_state import ConfigReply, ConfigState, UpdateConfig
from offsetd_coordinator.errors import InvalidConfig
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.configuration.topic_configs import TopicConfigs

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.config_state import ConfigDecision

NOW_MS = 1_700_000_000_000
WINDOW_MS = 60_000
AUDIT = "__offsetd_audit"


def new_shard(**fields: Any) -> ConfigState:
    """An empty shard."""
    return ConfigState(TopicConfigs(**fields), request_id_window_ms=WINDOW_MS)


def ask(shard: ConfigState, request: UpdateConfig, now_ms: int = NOW_MS) -> ConfigDecision:
    """Decides, and replays what was decided."""
    decision = shard.decide(request, now_ms)
    if decision.batch is not None:
        shard.replay(decision.batch)
    return decision


def update(topic: str | None = None, *removals: str, **changes: str) -> UpdateConfig:
    """Settings with their dots as underscores."""
    named = {name.replace("_", "."): text for name, text in changes.items()}
    return UpdateConfig(topic=topic, changes=named, removals=removals)


def batch_of(
    base_offset: int, *records: tuple[bytes | None, bytes | None], **batch: object
) -> bytes:
    """A batch of records, given as (key, value)."""
    return encode_batch(
        [
            Record(key=key, value=value, offset=base_offset + place, timestamp_ms=NOW_MS)
            for place, (key, value) in enumerate(records)
        ],
        base_offset=base_offset,
        **batch,  # type: ignore[arg-type]
    )


def test_a_change_is_one_batch_and_counts_once_it_is_replayed() -> None:
    shard = new_shard()
    decision = shard.decide(update(log_cleaner_threads="2", log_retention_ms="1000"), NOW_MS)
    assert decision.batch is not None
    assert decision.reply == ConfigReply(1)
    assert shard.applied.configs.cleaner.threads == 1
    shard.replay(decision.batch)
    assert shard.applied.configs.cleaner.threads == 2
    assert shard.applied.configs.log_config(AUDIT).retention_ms == 1000
    assert shard.offset_next == 2
    ask(shard, update(AUDIT, retention_ms="5"))
    assert shard.applied.configs.log_config(AUDIT).retention_ms == 5
    assert shard.applied.configs.log_config("other").retention_ms == 1000


def test_a_setting_that_is_taken_back_is_a_tombstone() -> None:
    shard = new_shard()
    ask(shard, update(log_cleaner_threads="2"))
    decision = ask(shard, update(None, "log.cleaner.threads", "log.retention.ms"))
    assert decision.batch is not None
    [batch] = decode_batches(decision.batch)
    assert [(record.key, record.value) for record in batch.records] == [
        (encode_config_key(ConfigKey(None, "log.cleaner.threads")), None)
    ]
    assert shard.applied.configs.cleaner.threads == 1
    assert shard.texts == {}


@pytest.mark.parametrize(
    "request_",
    [
        update(None, "log.retention.ms"),
        update(log_cleaner_threads="2"),
        UpdateConfig(topic=None, changes={"log.cleaner.threads": "3"}, validate_only=True),
    ],
    ids=["not set", "as it is", "validate only"],
)
def test_where_nothing_changes_nothing_is_written(request_: UpdateConfig) -> None:
    shard = new_shard()
    ask(shard, update(log_cleaner_threads="2"))
    decision = ask(shard, request_)
    assert decision.reply is not None
    assert (decision.reply.last_offset, decision.batch) == (None, None)
    assert shard.applied.configs.cleaner.threads == 2


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (update(log_cleaner_thread="2"), "set[log.cleaner.thread]", "log.cleaner.threads"),
        (update(log_cleaner_threads="0"), "set[log.cleaner.threads]", "1"),
        (update(AUDIT, retention_ms="soon"), "set[retention.ms]", "'soon'"),
        (update(None, "no.such.setting"), "remove", "no.such.setting"),
        (update(None, "log.retention.ms", log_retention_ms="5"), "set[log.retention.ms]", "both"),
        (
            update("t", min_compaction_lag_ms="9", max_compaction_lag_ms="5"),
            "set[min.compaction.lag.ms]",
            "max.compaction.lag.ms",
        ),
    ],
)
def test_what_is_not_allowed_is_refused_as_a_whole(
    request_: UpdateConfig, field: str, words: str
) -> None:
    shard = new_shard()
    with_another = UpdateConfig(
        topic=request_.topic,
        changes={**request_.changes, "segment.ms" if request_.topic else "log.roll.ms": "77"},
        removals=request_.removals,
    )
    for each in (request_, with_another):
        decision = ask(shard, each)
        assert isinstance(decision.refusal, InvalidConfig)
        assert decision.reply is None
        assert decision.refusal.field == field
        assert words in str(decision.refusal)
    assert (shard.texts, shard.offset_next) == ({}, 0)


def test_a_refusal_names_the_setting_once() -> None:
    refusal = ask(new_shard(), update(nosuch="1")).refusal
    assert str(refusal) == "set[nosuch]: no such setting"


def test_a_request_is_answered_again_within_its_window_and_then_applied_anew() -> None:
    shard = new_shard()
    request = UpdateConfig(topic=None, changes={"log.cleaner.threads": "2"}, request_id=b"once")
    first = ask(shard, request)
    ask(shard, update(log_cleaner_threads="3"))
    again = shard.decide(request, NOW_MS + WINDOW_MS)
    assert (again.reply, again.batch) == (first.reply, None)
    assert shard.decide(request, NOW_MS + WINDOW_MS + 1).batch is not None
    restarted = new_shard()
    assert first.batch is not None
    restarted.replay(first.batch)
    assert restarted.decide(request, NOW_MS).reply == first.reply


def test_strange_records_are_counted_and_fail_no_load() -> None:
    good = encode_config_key(ConfigKey(None, "log.cleaner.threads"))
    shard = new_shard()
    shard.replay(
        batch_of(0, (good, encode_config_value("2")))
        + batch_of(1, (b"\0\1what a newer one writes", b"x"), (good, b"\0\1newer"))
        + batch_of(3, (b"", b"x"), (None, b"x"), (good, b"\0"), (good, b""))
        + batch_of(7, (b"\0\0\0\0", b"\0\0\0\0"), is_control=True)
        + _garbled(batch_of(8, (good, encode_config_value("9"))))
    )
    assert shard.applied.configs.cleaner.threads == 2
    assert (shard.unknown_records, shard.undecodable_records) == (2, 5)
    assert shard.offset_next == 9


def _garbled(batch: bytes) -> bytes:
    """Whole by its header; its record is none."""
    return batch[:61] + b"\xff" * (len(batch) - 61)


def test_a_setting_that_is_not_known_is_kept_named_and_can_be_taken_back() -> None:
    key = ConfigKey(None, "log.of.a.newer.version")
    topic_key = ConfigKey("t", "retention.ms")
    shard = new_shard()
    shard.replay(
        batch_of(
            0,
            (encode_config_key(key), encode_config_value("7")),
            (encode_config_key(topic_key), encode_config_value("never")),
            (
                encode_config_key(ConfigKey(None, "log.cleaner.threads")),
                encode_config_value("2"),
            ),
        )
    )
    assert set(shard.applied.problems) == {key, topic_key}
    assert shard.applied.configs.cleaner.threads == 2
    ask(shard, update(log_cleaner_threads="3"))
    ask(shard, update("t", retention_bytes="5"))
    assert shard.texts[key] == "7"
    assert shard.texts[topic_key] == "never"
    ask(shard, update(None, key.name))
    ask(shard, update("t", retention_ms="8"))
    assert shard.applied.problems == {}
    assert key not in shard.texts
    assert shard.applied.configs.log_config("t").retention_ms == 8


def test_what_does_not_fit_another_start_is_left_out_and_the_rest_counts() -> None:
    texts = [
        (ConfigKey(None, "log.cleaner.dedupe.buffer.size"), "4000000"),
        (ConfigKey(None, "log.retention.ms"), "1000"),
    ]
    shard = new_shard(static_server={"log.cleaner.threads": "8"})
    shard.replay(
        batch_of(0, *((encode_config_key(key), encode_config_value(text)) for key, text in texts))
    )
    assert set(shard.applied.problems) == {texts[0][0]}
    assert shard.applied.configs.log_config(AUDIT).retention_ms == 1000
    assert shard.applied.configs.cleaner.threads == 8


NAMES: dict[str | None, list[str]] = {
    None: ["log.cleaner.threads", "log.cleaner.dedupe.buffer.size", "log.retention.ms", "nonsense"],
    "a": ["retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms"],
    "b": ["retention.ms", "cleanup.policy", "internal.segment.bytes"],
}
TEXTS = st.sampled_from(["1", "2", "100", "2000000", "4000000", "compact", "compact,delete", ""])


@st.composite
def updates(draw: st.DrawFn) -> UpdateConfig:
    """Some that are allowed, and some that are not."""
    topic = draw(st.sampled_from([None, "a", "b"]))
    names = st.sampled_from(NAMES[topic])
    changes = draw(st.dictionaries(names, TEXTS, max_size=3))
    removals = draw(st.lists(names, unique=True, max_size=2))
    return UpdateConfig(
        topic=topic,
        changes=changes,
        removals=tuple(removals),
        request_id=draw(st.sampled_from([b"", b"1", b"2", b"3"])),
        validate_only=draw(st.booleans()),
    )


@given(requests=st.lists(updates(), max_size=12))
def test_a_replay_gives_what_was_live_and_refusals_change_nothing(
    requests: list[UpdateConfig],
) -> None:
    live = new_shard()
    batches = []
    for request in requests:
        before = dict(live.texts), live.offset_next
        decision = ask(live, request)
        if decision.batch is None:
            assert (dict(live.texts), live.offset_next) == before
        else:
            batches.append(decision.batch)
            assert decision.reply is not None
            assert decision.reply.last_offset == live.offset_next - 1
            assert decision.configs == live.applied.configs
        assert live.applied.problems == {}
    loaded = new_shard()
    loaded.replay(b"".join(batches))
    assert loaded.texts == live.texts
    assert loaded.applied == live.applied
    assert loaded.offset_next == live.offset_next
    assert loaded._known == live._known
