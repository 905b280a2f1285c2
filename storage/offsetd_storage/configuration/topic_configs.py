"""The settings of each topic and of the server, and the source of each value.

The first source that has a value wins: the topic's values set while the server runs (dynamic); the
topic's values set at the start (static); the topic's own defaults; the values of the whole server,
dynamic before static; Kafka's defaults. As in a broker, every setting of a topic has precedence
over every setting of the server: a server-wide `log.cleanup.policy` does not delete from a topic
that is compacted.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from offsetd_storage.configuration.log_config import OFFSETS_TOPIC, LogConfig
from offsetd_storage.configuration.server_config import (
    BackgroundConfig,
    CleanerConfig,
    DiskConfig,
    RetentionConfig,
    RollConfig,
)
from offsetd_storage.configuration.settings import (
    Setting,
    canonical_name,
    settings_of,
    unknown_setting,
)
from offsetd_storage.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_Config = TypeVar("_Config", bound=attrs.AttrsInstance)

_SERVER_CLASSES: Final = (
    CleanerConfig,
    RetentionConfig,
    RollConfig,
    BackgroundConfig,
    DiskConfig,
)
TOPIC_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting for setting in settings_of(LogConfig).values()
}
_TOPIC_FIELDS: Final = {setting.name: field for field, setting in settings_of(LogConfig).items()}
# For each topic setting, the server setting that is its default.
_SERVER_DEFAULTS: Final = {
    name: of_server
    for name, setting in TOPIC_SETTINGS.items()
    if (of_server := setting.of_server()) is not None
}
SERVER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting for each in _SERVER_CLASSES for setting in settings_of(each).values()
} | {setting.name: setting for setting in _SERVER_DEFAULTS.values()}


class Source(enum.Enum):
    """The source of a value, in the order of precedence."""

    FLOOR = "floor"  # The value was below what the server needs.
    DYNAMIC_TOPIC = "dynamic topic"
    STATIC_TOPIC = "static topic"
    TOPIC = "topic"  # The topic's own default.
    DYNAMIC_SERVER = "dynamic server"
    STATIC_SERVER = "static server"
    DEFAULT = "default"


@attrs.frozen(kw_only=True)
class SettingEntry:
    """A setting with its present value. `default` is the value that it has if nothing is set."""

    name: str
    value: str
    default: str
    source: Source
    unit: str
    allowed: str
    reason: str
    is_dynamic: bool  # May be changed while the server runs.


@attrs.frozen(kw_only=True)
class Floor:
    """A topic's setting counts as at least `least`, because `setting` requires that much."""

    topic: str
    name: str
    least: int
    setting: str
    reason: str


@attrs.frozen(kw_only=True)
class TopicRule:
    """A condition on a topic's settings whose reason is outside of the storage."""

    topic: str
    name: str
    is_kept: Callable[[LogConfig], bool] = attrs.field(eq=False)
    reason: str
    needs_restart: bool = False  # True if the value of the start is kept until a restart.


@attrs.frozen(kw_only=True)
class TopicConfigs:
    """The settings of all topics and of the server. Texts are by canonical name.

    `check` checks that the settings fit each other. The methods that change a setting call it.
    """

    # The own defaults of each topic.
    brought: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    static_server: Mapping[str, str] = attrs.field(factory=dict)
    static_topics: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    dynamic_server: Mapping[str, str] = attrs.field(factory=dict)
    dynamic_topics: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    floors: tuple[Floor, ...] = ()
    rules: tuple[TopicRule, ...] = ()
    restart_entries: tuple[SettingEntry, ...] = ()  # Settings that are read only at the start.
    # Classes of server settings outside of the storage that are as dynamic as those of the storage.
    more_classes: tuple[type[attrs.AttrsInstance], ...] = ()

    @property
    def cleaner(self) -> CleanerConfig:
        return self.server_config(CleanerConfig)

    @property
    def retention(self) -> RetentionConfig:
        return self.server_config(RetentionConfig)

    @property
    def roll(self) -> RollConfig:
        return self.server_config(RollConfig)

    @property
    def background(self) -> BackgroundConfig:
        return self.server_config(BackgroundConfig)

    @property
    def disk(self) -> DiskConfig:
        return self.server_config(DiskConfig)

    @property
    def topics(self) -> frozenset[str]:
        """The topics with settings of their own."""
        return (
            frozenset(self.brought) | frozenset(self.static_topics) | frozenset(self.dynamic_topics)
        )

    def server_config(self, config_class: type[_Config]) -> _Config:
        """The server's settings for one of the classes, including those of `more_classes`."""
        values: dict[str, Any] = {}
        for field, setting in settings_of(config_class).items():
            text = self._server_text(setting.name)
            if text is not None:
                values[field] = setting.parsed(text, is_internal=True)
        return config_class(**values)

    def log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs. A topic without own settings has the server's."""
        values: dict[str, Any] = {
            _TOPIC_FIELDS[name]: TOPIC_SETTINGS[name].parsed(text, is_internal=True)
            for name, (text, _) in self._resolved(topic).items()
        }
        return LogConfig(**values)

    def ruling_setting(self, topic: str, name: str) -> str:
        """The setting that decides the value of a topic's setting: itself, or a floor's."""
        _, source = self._resolved(topic)[name]
        floors = [each for each in self._floors_of(topic) if each.name == name]
        return floors[-1].setting if source is Source.FLOOR else name

    def texts(self, topic: str | None) -> Mapping[str, str]:
        """The values set while the server runs, for a topic or (None) for the server."""
        return self.dynamic_server if topic is None else self.dynamic_topics.get(topic, {})

    def check(self) -> None:
        """Raises InvalidSetting if values do not fit each other, or do not fit a topic."""
        for each in (*_SERVER_CLASSES, *self.more_classes):
            self.server_config(each)
        for topic in ("", *sorted(self.topics)):
            log = self.log_config(topic)
            for rule in self.rules:
                if rule.topic == topic and not rule.is_kept(log):
                    text = self._resolved(topic)[rule.name][0]
                    raise InvalidSetting(rule.name, f"{text} is not for {topic}: {rule.reason}")

    def describe(self, topic: str | None) -> list[SettingEntry]:
        """Every setting of a topic or (None) of the server, by name."""
        entries = self._server_entries() if topic is None else self._topic_entries(topic)
        return sorted(entries, key=lambda entry: entry.name)

    def with_changes(
        self,
        topic: str | None,
        changes: Mapping[str, str],
        removals: Collection[str] = (),
    ) -> TopicConfigs:
        """The settings after an operator sets some, and resets others.

        Raises InvalidSetting if there is no such setting here, if a value is not allowed, if a
        setting needs a restart, or if values do not fit each other.
        """
        texts = dict(self.texts(topic))
        for name in removals:
            self._setting(topic, name)
            texts.pop(canonical_name(name), None)
        for name, text in changes.items():
            if name in removals:
                raise InvalidSetting(name, "both set and removed")
            texts[canonical_name(name)] = self._normal_text(topic, name, text)
        changed = self._with_texts(topic, texts)
        changed.check()
        return changed

    def with_stored(
        self, stored: Mapping[str | None, Mapping[str, str]]
    ) -> tuple[TopicConfigs, dict[tuple[str | None, str], InvalidSetting]]:
        """The settings with the `stored` values, by topic, as those set while the server runs.

        The values were allowed when they were stored. Values that do not fit any more (because of
        another release, or other static settings) are left out. Also returns the reasons for these,
        by topic and name.
        """
        configs = attrs.evolve(self, dynamic_server={}, dynamic_topics={})
        problems: dict[tuple[str | None, str], InvalidSetting] = {}
        for topic, texts in sorted(stored.items(), key=lambda item: item[0] or ""):
            readable = {}
            for name, text in texts.items():
                try:
                    readable[name] = self._normal_text(topic, name, text, is_stored=True)
                except InvalidSetting as problem:
                    problems[topic, name] = problem
            configs = configs._with_texts(topic, readable)
        try:
            configs.check()
        except InvalidSetting:
            configs, misfits = configs._without_misfits()
            problems |= misfits
        return configs, problems

    def _without_misfits(self) -> tuple[TopicConfigs, dict[tuple[str | None, str], InvalidSetting]]:
        """The settings with all stored values that fit, and the reasons against the others.

        Values are added one by one. If some only fit together, each is left out: offsetd cannot
        guess which of them is right. They stay stored and are shown, and count again after the
        conflict is resolved.
        """
        configs = attrs.evolve(self, dynamic_server={}, dynamic_topics={})
        problems: dict[tuple[str | None, str], InvalidSetting] = {}
        for topic in (None, *sorted(self.dynamic_topics)):
            for name, text in sorted(self.texts(topic).items()):
                larger = configs._with_texts(topic, {**configs.texts(topic), name: text})
                try:
                    larger.check()
                except InvalidSetting as problem:
                    problems[topic, name] = problem
                else:
                    configs = larger
        return configs, problems

    def _with_texts(self, topic: str | None, texts: Mapping[str, str]) -> TopicConfigs:
        if topic is None:
            return attrs.evolve(self, dynamic_server=texts)
        topics = {**self.dynamic_topics, topic: texts}
        return attrs.evolve(
            self, dynamic_topics={name: topics[name] for name in topics if topics[name]}
        )

    def _setting(self, topic: str | None, name: str) -> Setting:
        """The setting of this name. Raises InvalidSetting if no such setting may be changed."""
        known = self._server_settings if topic is None else TOPIC_SETTINGS
        setting = known.get(canonical_name(name))
        if setting is not None:
            return setting
        if any(entry.name == name for entry in self.restart_entries):
            raise InvalidSetting(name, "needs a restart: it is read when the server starts")
        refusal = self.unknown_setting(topic, name)
        if topic is None:
            for rule in self.rules:
                if rule.needs_restart and rule.name == canonical_name(name):
                    told = f"{refusal.reason}; of {rule.topic}: {rule.reason}"
                    raise InvalidSetting(name, told)
        raise refusal

    def unknown_setting(self, topic: str | None, name: str) -> InvalidSetting:
        """The error for a name that is not a setting of a topic, or (None) of the server."""
        of_server = {*self._server_settings, *(entry.name for entry in self.restart_entries)}
        of_topic = set(TOPIC_SETTINGS)
        known, elsewhere = (of_server, of_topic) if topic is None else (of_topic, of_server)
        if canonical_name(name) not in elsewhere:
            where = " with --topic" if topic is None else " of the server"
            return unknown_setting(name, sorted(known), dict.fromkeys(sorted(elsewhere), where))
        if topic is None:
            return InvalidSetting(
                name, f"a setting of a topic, not of the server: say --topic {OFFSETS_TOPIC}"
            )
        return InvalidSetting(name, "a setting of the server, not of a topic")

    def _normal_text(
        self, topic: str | None, name: str, text: str, *, is_stored: bool = False
    ) -> str:
        """The value in the form that Kafka shows. Raises InvalidSetting."""
        setting = self._setting(topic, name)
        is_internal = is_stored or name != setting.name
        return setting.kind.render(setting.parsed(text, is_internal=is_internal))

    @property
    def _server_settings(self) -> dict[str, Setting]:
        more = (setting for each in self.more_classes for setting in settings_of(each).values())
        return SERVER_SETTINGS | {setting.name: setting for setting in more}

    def _server_text(self, name: str) -> str | None:
        return self.dynamic_server.get(name, self.static_server.get(name))

    def _server_source(self, name: str) -> Source:
        if name in self.dynamic_server:
            return Source.DYNAMIC_SERVER
        return Source.STATIC_SERVER if name in self.static_server else Source.DEFAULT

    def _resolved(self, topic: str) -> dict[str, tuple[str, Source]]:
        """Each setting of a topic: its value as text, and the value's source."""
        resolved = {
            name: (setting.kind.render(setting.default), Source.DEFAULT)
            for name, setting in TOPIC_SETTINGS.items()
        }
        for name, setting in _SERVER_DEFAULTS.items():
            if (text := self._server_text(setting.name)) is not None:
                resolved[name] = (text, self._server_source(setting.name))
        for config in (self.retention, self.roll):
            for name, (server_name, value) in config.topic_defaults().items():
                resolved[name] = (str(value), self._server_source(server_name))
        for source, texts_of in (
            (Source.TOPIC, self.brought),
            (Source.STATIC_TOPIC, self.static_topics),
            (Source.DYNAMIC_TOPIC, self.dynamic_topics),
        ):
            for name, text in texts_of.get(topic, {}).items():
                resolved[name] = (text, source)
        for floor in self._floors_of(topic):
            if int(resolved[floor.name][0]) < floor.least:
                resolved[floor.name] = (str(floor.least), Source.FLOOR)
        return resolved

    def _floors_of(self, topic: str) -> Iterator[Floor]:
        return (floor for floor in self.floors if floor.topic == topic)

    def _topic_entries(self, topic: str) -> Iterator[SettingEntry]:
        resolved = self._resolved(topic)
        untouched = attrs.evolve(
            self, static_server={}, static_topics={}, dynamic_server={}, dynamic_topics={}
        )._resolved(topic)
        reasons = {floor.name: floor.reason for floor in self._floors_of(topic)}
        reasons |= {rule.name: rule.reason for rule in self.rules if rule.topic == topic}
        for name, setting in TOPIC_SETTINGS.items():
            value, source = resolved[name]
            reason = " ".join(filter(None, (setting.reason, reasons.get(name))))
            yield entry_of(
                attrs.evolve(setting, reason=reason),
                value=value,
                default=untouched[name][0],
                source=source,
                is_dynamic=True,
            )

    def _server_entries(self) -> Iterator[SettingEntry]:
        for name, setting in self._server_settings.items():
            default = setting.kind.render(setting.default)
            text = self._server_text(name)
            yield entry_of(
                setting,
                value=default if text is None else text,
                default=default,
                source=self._server_source(name),
                is_dynamic=True,
            )
        yield from self.restart_entries


def entry_of(
    setting: Setting, *, value: str, default: str, source: Source, is_dynamic: bool
) -> SettingEntry:
    """A setting with a value."""
    return SettingEntry(
        name=setting.name,
        value=value,
        default=default,
        source=source,
        unit=setting.unit,
        allowed=setting.operator_kind.allowed,
        reason=setting.reason,
        is_dynamic=is_dynamic,
    )
