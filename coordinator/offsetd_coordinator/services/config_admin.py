"""AdminService's settings methods: reading settings, and changing them while the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd.v1 import admin_service_pb2
from offsetd_storage.configuration.settings import canonical_name
from offsetd_storage.configuration.topic_configs import SettingEntry, Source

from offsetd_coordinator.configuration.config_state import UpdateConfig
from offsetd_coordinator.errors import InvalidConfig, InvalidRequest
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.audit_events import change_event
from offsetd_coordinator.messages.topic_partitions import named_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_storage.configuration.topic_configs import TopicConfigs

    from offsetd_coordinator.configuration.config_state import AppliedConfigs
    from offsetd_coordinator.node import Node

_SOURCES: Final = {
    Source.DYNAMIC_TOPIC: admin_service_pb2.CONFIG_SOURCE_DYNAMIC_TOPIC,
    Source.STATIC_TOPIC: admin_service_pb2.CONFIG_SOURCE_STATIC_TOPIC,
    Source.TOPIC: admin_service_pb2.CONFIG_SOURCE_TOPIC_DEFAULT,
    Source.DYNAMIC_SERVER: admin_service_pb2.CONFIG_SOURCE_DYNAMIC_SERVER,
    Source.STATIC_SERVER: admin_service_pb2.CONFIG_SOURCE_STATIC_SERVER,
    Source.DEFAULT: admin_service_pb2.CONFIG_SOURCE_DEFAULT,
    Source.FLOOR: admin_service_pb2.CONFIG_SOURCE_FLOOR,
}
assert set(_SOURCES) == set(Source), "every source has its name in the contract"


class ConfigAdmin:
    """The methods: each takes a request's bytes and returns the answer's bytes."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def describe_config(self, message: bytes) -> bytes:
        """Settings of the server or of a topic."""
        administration = self._node.administering()
        request = validation.parse(admin_service_pb2.DescribeConfigRequest, message)
        topic = self._topic(request.topic)
        applied = await administration.applied()
        described = described_settings(applied, topic)
        names = [canonical_name(name) for name in request.names]
        for index, name in enumerate(names):
            if name not in described:
                raise InvalidConfig(
                    f"names[{index}]",
                    "{name}: {why}",
                    name=name,
                    why=applied.configs.unknown_setting(topic, name).reason,
                )
        return admin_service_pb2.DescribeConfigResponse(
            settings=[described[name] for name in sorted(set(names) or described)]
        ).SerializeToString()

    async def update_config(self, message: bytes) -> bytes:
        """Changes settings; answers once the change is durable and in force."""
        administration = self._node.administering()
        received = validation.parse(admin_service_pb2.UpdateConfigRequest, message)
        request = update_config(received, self._topic(received.topic))
        event = change_event(
            "UpdateConfig",
            {"set": dict(request.changes), "remove": list(request.removals)},
            topic=request.topic,
            time_ms=administration.clock.now_ms(),
            reason=received.reason,
            request_id=received.request_id,
        )
        decision = await administration.update_config(request, event)
        assert decision.reply is not None, "a refusal is raised"
        assert decision.configs is not None, "an accepted update yields settings"
        named = (*request.changes, *request.removals)
        response = admin_service_pb2.UpdateConfigResponse(
            settings=_settings_named(decision.configs, request.topic, named)
        )
        if decision.reply.last_offset is not None:
            response.revision.log_offset = decision.reply.last_offset
        return response.SerializeToString()

    def _topic(self, topic: str) -> str | None:
        return named_topic(self._node.serving().local_store(), topic) if topic else None


def update_config(
    request: admin_service_pb2.UpdateConfigRequest, topic: str | None
) -> UpdateConfig:
    """The checked update. Raises the Invalid… error of the first field that breaks a rule."""
    validation.check_reason(request.reason)
    if not request.set and not request.remove:
        raise InvalidRequest("set", "name at least one setting, to set or to remove")
    changes: dict[str, str] = {}
    set_names: set[str] = set()
    for name, text in sorted(request.set.items()):
        if _is_again(canonical_name(name), set_names):
            raise InvalidConfig(f"set[{name}]", "{name} is set twice", name=name)
        if len(text) > validation.REASON_UNITS_MAX:
            raise InvalidConfig(
                f"set[{name}]",
                "{name}: the text has more than {units_max} characters",
                name=name,
                units_max=validation.REASON_UNITS_MAX,
            )
        changes[name] = text
    removed_names: set[str] = set()
    for index, name in enumerate(request.remove):
        if _is_again(name, removed_names):
            raise InvalidConfig(f"remove[{index}]", "{name} is named twice", name=name)
    return UpdateConfig(
        topic=topic,
        changes=changes,
        removals=tuple(request.remove),
        request_id=validation.read_request_id(request.request_id),
        validate_only=request.validate_only,
    )


def _is_again(name: str, named: set[str]) -> bool:
    """Returns whether `name` is in `named`, and adds it."""
    is_again = name in named
    named.add(name)
    return is_again


def described_settings(
    applied: AppliedConfigs, topic: str | None
) -> dict[str, admin_service_pb2.ConfigSetting]:
    """All settings of a topic, by name; with None, those of the server.

    Settings that are stored but not used have a `problem`.
    """
    described = {entry.name: _setting(entry) for entry in applied.configs.describe(topic)}
    for key, problem in applied.problems.items():
        if key.topic != topic:
            continue
        text = applied.texts[key]
        known = described.get(key.name)
        if known is None:
            known = described[key.name] = admin_service_pb2.ConfigSetting(
                name=key.name,
                value=text,
                source=_SOURCES[Source.DYNAMIC_SERVER if topic is None else Source.DYNAMIC_TOPIC],
                is_dynamic=True,
            )
        known.problem = f"{text!r} is stored, but not used: {problem}"
    return described


def _settings_named(
    configs: TopicConfigs, topic: str | None, names: Iterable[str]
) -> list[admin_service_pb2.ConfigSetting]:
    named = set(map(canonical_name, names))
    return [_setting(entry) for entry in configs.describe(topic) if entry.name in named]


def _setting(entry: SettingEntry) -> admin_service_pb2.ConfigSetting:
    return admin_service_pb2.ConfigSetting(
        name=entry.name,
        value=entry.value,
        default_value=entry.default,
        source=_SOURCES[entry.source],
        unit=entry.unit,
        description=entry.reason,
        is_dynamic=entry.is_dynamic,
        allowed_values=entry.allowed,
    )
