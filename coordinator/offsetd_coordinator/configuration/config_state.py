"""The dynamic settings: a pure state that decides and replays, like `shard` for offsets.

It holds the values that operators wrote; `TopicConfigs` interprets them. A setting that is unknown,
or does not fit the settings the server was started with, is kept and reported with the reason.
All other settings take effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.errors import InvalidSetting
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.configuration.acl_state import AclState, has_acls
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    UnknownConfigVersion,
    decode_config_key,
    decode_config_value,
    encode_config_key,
    encode_config_value,
)
from offsetd_coordinator.configuration.dynamic_settings import SETTINGS_THAT_KEEP_RECORDS
from offsetd_coordinator.errors import CoordinatorError, InvalidConfig
from offsetd_coordinator.kernels.table.request_ids import HEADER_NAME
from offsetd_coordinator.request_dedup import OWN_TOPIC_REQUESTS_MAX, RememberedRequests
from offsetd_coordinator.state.internal_topic_state import InternalTopicState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.batch.record_batch import RecordBatch
    from offsetd_storage.configuration.topic_configs import TopicConfigs

    from offsetd_coordinator.configuration.acl_state import AclsDecision, ChangeAcls

REQUEST_ID_HEADER: Final = HEADER_NAME.decode()


@attrs.frozen(kw_only=True)
class UpdateConfig:
    """Sets and unsets settings of a topic, or of the server (None): all of them or none."""

    topic: str | None
    changes: Mapping[str, str] = attrs.field(factory=dict)
    removals: tuple[str, ...] = ()
    request_id: bytes = b""
    validate_only: bool = False


class ConfigReply(NamedTuple):
    """The log offset of the change's last record; None if nothing was written."""

    last_offset: int | None


class ConfigDecision(NamedTuple):
    """The decision on an update; nothing changes until `replay`.

    Exactly one of `reply` and `refusal` is set. `batch` must be appended and replayed before the
    reply may leave; None if there is nothing to write. `configs` are the settings after that.
    """

    reply: ConfigReply | None
    refusal: CoordinatorError | None
    configs: TopicConfigs | None = None
    batch: bytes | None = None


@attrs.frozen(kw_only=True)
class AppliedConfigs:
    """The settings that result from the texts; `problems` has the unused texts and the reasons."""

    texts: Mapping[ConfigKey, str]
    configs: TopicConfigs
    problems: Mapping[ConfigKey, str]


class ConfigState(InternalTopicState):
    """The settings of `__offsetd_config`, and its access rules.

    `started_with` are the settings that apply if no dynamic setting replaces them.
    """

    def __init__(self, started_with: TopicConfigs, *, request_id_window_ms: int) -> None:
        super().__init__()
        self.unknown_records = 0
        self.rules = AclState(request_id_window_ms=request_id_window_ms)
        self._started_with = started_with
        self._texts: dict[ConfigKey, str] = {}
        self._known = RememberedRequests[bytes, int](
            window_ms=request_id_window_ms, count_max=OWN_TOPIC_REQUESTS_MAX
        )
        self._applied: AppliedConfigs | None = None

    @property
    def texts(self) -> Mapping[ConfigKey, str]:
        """Every dynamic setting, as it was written."""
        return self._texts

    @property
    def applied(self) -> AppliedConfigs:
        """The settings in force now."""
        if self._applied is None:
            self._applied = applied_configs(self._started_with, self._texts)
        return self._applied

    @property
    def doubt(self) -> str | None:
        """The reason why the settings in force may differ from those that were set, or None."""
        unreadable = self.unknown_records + self.undecodable_records
        if unreadable:
            return f"{unreadable} of the settings' records cannot be read"
        problems = self.applied.problems
        if not problems:  # Cached, because each fetch reads this.
            return None
        for key, problem in sorted(problems.items(), key=str):
            if key.name not in SETTINGS_THAT_KEEP_RECORDS:
                return f"{key} is set, and not used: {problem}"
        return None

    def decide(self, request: UpdateConfig, now_ms: int) -> ConfigDecision:
        """The batch to write and the answer. Changes nothing; a refusal is part of the decision."""
        if request.request_id and not request.validate_only:
            last_offset = self._known.find(request.request_id, now_ms)
            if last_offset is not None:
                return ConfigDecision(ConfigReply(last_offset), None, self.applied.configs)
        try:
            configs = self._changed(request)
        except InvalidSetting as error:
            return ConfigDecision(None, _invalid(request, error))
        records = self._records(request, configs.texts(request.topic), now_ms)
        if request.validate_only or not records:
            return ConfigDecision(ConfigReply(None), None, configs)
        batch = encode_batch(records, base_offset=self.offset_next, leader_epoch=self.leader_epoch)
        return ConfigDecision(ConfigReply(records[-1].offset), None, configs, batch)

    def decide_acls(self, request: ChangeAcls, now_ms: int) -> AclsDecision:
        """The batch to write and the answer. Changes nothing; a refusal is part of the decision."""
        return self.rules.decide(
            request, now_ms, offset_next=self.offset_next, leader_epoch=self.leader_epoch
        )

    def _changed(self, request: UpdateConfig) -> TopicConfigs:
        """The texts after the update. An unused text may be unset even if its name is unknown."""
        applied = self.applied
        removals = [
            name
            for name in request.removals
            if ConfigKey(request.topic, name) not in applied.problems
        ]
        return applied.configs.with_changes(request.topic, request.changes, removals)

    def _records(
        self, request: UpdateConfig, after: Mapping[str, str], now_ms: int
    ) -> list[Record]:
        """Records for the settings that differ from the stored ones, or were not used."""
        topic, problems = request.topic, self.applied.problems
        before = {key.name: text for key, text in self._texts.items() if key.topic == topic}
        changed: list[tuple[str, bytes | None]] = [
            (name, encode_config_value(text))
            for name, text in sorted(after.items())
            if before.get(name) != text
        ]
        changed += [
            (name, None)
            for name in sorted(before)
            if name not in after
            and (ConfigKey(topic, name) not in problems or name in request.removals)
        ]
        headers = ((REQUEST_ID_HEADER, request.request_id),) if request.request_id else ()
        return [
            Record(
                key=encode_config_key(ConfigKey(topic, name)),
                value=value,
                offset=self.offset_next + place,
                timestamp_ms=now_ms,
                headers=() if place else headers,
            )
            for place, (name, value) in enumerate(changed)
        ]

    def replay(self, batches: bytes) -> None:
        """Replays batches. `applied` computes the settings in force later."""
        super().replay(batches)
        self._applied = None

    def _replay_batch(self, batch: RecordBatch) -> None:
        if has_acls(batch):
            self.rules.replay(batch)
            return
        for record in batch.records:
            for name, request_id in record.headers:
                if name == REQUEST_ID_HEADER and request_id:
                    self._known.remember(
                        request_id, batch.last_offset, timestamp_ms=record.timestamp_ms
                    )
            try:
                key = decode_config_key(record.key or b"")
                text = None if record.value is None else decode_config_value(record.value)
            except UnknownConfigVersion:
                self.unknown_records += 1
            except UndecodableRecord:
                self.undecodable_records += 1
            else:
                if text is None:
                    self._texts.pop(key, None)
                else:
                    self._texts[key] = text


def applied_configs(started_with: TopicConfigs, texts: Mapping[ConfigKey, str]) -> AppliedConfigs:
    """The settings with all of `texts` that are known, allowed, and fit each other."""
    stored: dict[str | None, dict[str, str]] = {}
    for key, text in texts.items():
        stored.setdefault(key.topic, {})[key.name] = text
    configs, refusals = started_with.with_stored(stored)
    problems = {ConfigKey(topic, name): error.reason for (topic, name), error in refusals.items()}
    return AppliedConfigs(texts=dict(texts), configs=configs, problems=problems)


def _invalid(request: UpdateConfig, error: InvalidSetting) -> InvalidConfig:
    if error.name in request.changes:
        return InvalidConfig(f"set[{error.name}]", "{why}", why=error.reason)
    field = "remove" if error.name in request.removals else "set"
    return InvalidConfig(field, "{name}: {why}", name=error.name, why=error.reason)
