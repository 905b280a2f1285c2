"""The coordinator's settings that may change while the server runs, grouped by subject.

The storage's are in `offsetd_storage.configuration.server_config`.
"""

from __future__ import annotations

import functools
from typing import Final

import attrs
from offsetd_storage.configuration.server_config import BackgroundConfig
from offsetd_storage.configuration.setting_kinds import INT32_MAX
from offsetd_storage.configuration.settings import Setting, listed, milliseconds, settings_of, whole
from offsetd_storage.errors import InvalidSetting

from offsetd_coordinator.configuration.lag_config import LagConfig
from offsetd_coordinator.configuration.watch_config import WatchConfig
from offsetd_coordinator.expiry.expiry_guard import Hold
from offsetd_coordinator.expiry.expiry_rules import ExpiryBase, ExpiryTerms, GroupRule, plain_rule
from offsetd_coordinator.state.commit_verdicts import UNCHANGED_SHARE

_MINUTE_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class ExpiryConfig:
    """Settings of expiry: when unused offsets expire, and what suspends expiry."""

    retention_minutes: int = whole(
        10_080,
        "offsets.retention.minutes",
        unit="minutes",
        least=-1,
        most=INT32_MAX,
        reason="Offsets expire when they were not committed, and their group was empty, for this"
        " time. -1: never.",
    )
    check_interval_ms: int = milliseconds(
        600_000,
        "offsets.retention.check.interval.ms",
        least=1,
        reason="How often the server looks for expired offsets.",
    )
    base: str = listed(
        "latest",
        "offsets.expiry.base",
        tuple(each.value for each in ExpiryBase),
        is_ours=True,
        reason="The start of retention in an empty group that had members. latest: the commit, or"
        " the time when the group became empty if that is later. kafka: the time when the group"
        " became empty, even for later commits.",
    )
    enable: str = listed(
        "auto",
        "offsets.expiry.enable",
        ("auto", "true", "false"),
        is_ours=True,
        reason="Whether offsets expire. auto: yes, unless the folder had logs of another server,"
        " such as a broker, when offsetd took it over.",
    )
    grace_ms: int = milliseconds(
        86_400_000,
        "expiry.grace.ms",
        is_ours=True,
        reason="After a stop longer than this, nothing expires for this time, because consumers"
        " could not commit.",
    )
    warning_ms: int = milliseconds(
        86_400_000,
        "offsets.expiry.warning.ms",
        is_ours=True,
        reason="How long before its offsets expire a group is counted and logged, but only in the"
        " second half of their life. 0: never.",
    )

    unchanged_commit_ms: int = milliseconds(
        0,
        "commit.unchanged.suppress.ms",
        is_ours=True,
        reason="A commit that repeats offsets committed less than this time ago is answered but not"
        " written. Their commit time stays, so this is at most a tenth of offsets.retention.minutes"
        " and of a group's own retention. 0: every commit is written.",
    )

    def __attrs_post_init__(self) -> None:
        if self.retention_minutes == 0:
            raise InvalidSetting(
                "offsets.retention.minutes", "0 is neither -1, for never, nor 1 or more"
            )
        most = self.retention_minutes * _MINUTE_MS // UNCHANGED_SHARE
        if self.retention_minutes > 0 and self.unchanged_commit_ms > most:
            raise InvalidSetting(
                "commit.unchanged.suppress.ms",
                f"{self.unchanged_commit_ms} is more than {most}, a tenth of"
                f" offsets.retention.minutes = {self.retention_minutes}: offsets would expire that"
                " are committed",
            )

    @property
    def terms(self) -> ExpiryTerms:
        """The terms of the expiry rules."""
        never = self.retention_minutes < 0
        return ExpiryTerms(
            retention_ms=None if never else self.retention_minutes * _MINUTE_MS,
            base=ExpiryBase(self.base),
            warning_ms=self.warning_ms,
        )

    @functools.cached_property
    def plain_rule(self) -> GroupRule:
        """The rule for a group that has offsets, but no group records."""
        return plain_rule(self.terms)

    def hold(self, is_from_elsewhere: bool) -> Hold | None:
        """The reason why nothing expires until a setting is changed, or None.

        `is_from_elsewhere` means that the folder had logs of another server when offsetd took it
        over.
        """
        if self.enable == "false":
            return Hold.DISABLED
        if self.enable == "auto" and is_from_elsewhere:
            return Hold.FOREIGN_FOLDER
        return None


@attrs.frozen(kw_only=True)
class CommitGuardConfig:
    """Commit rate limits of groups, and whether metrics show the groups that commit most."""

    rate_max: int = whole(
        0,
        "group.commit.rate.max",
        unit="commits a second",
        least=0,
        most=1_000_000,
        is_ours=True,
        reason="Commits of one group above this rate are refused, with a time to retry after. It"
        " counts commits of any size, on this server alone. 0: no bound.",
    )
    burst_max: int = whole(
        0,
        "group.commit.burst.max",
        unit="commits",
        least=0,
        most=1_000_000,
        is_ours=True,
        reason="Commits that an idle group may make at once before group.commit.rate.max applies."
        " 0: those of one second.",
    )
    top_groups_max: int = whole(
        20,
        "metrics.group.commits.top",
        unit="groups",
        least=0,
        most=1000,
        is_ours=True,
        reason="The number of groups with the most commits that have a metric. 0: none.",
    )


DYNAMIC_CLASSES: Final[tuple[type[attrs.AttrsInstance], ...]] = (
    ExpiryConfig,
    CommitGuardConfig,
    LagConfig,
    WatchConfig,
)
# These settings never cause a record to be deleted.
SETTINGS_THAT_KEEP_RECORDS: Final[frozenset[str]] = frozenset(
    setting.name
    for each in (CommitGuardConfig, LagConfig, WatchConfig, BackgroundConfig)
    for setting in settings_of(each).values()
)
DYNAMIC_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting for each in DYNAMIC_CLASSES for setting in settings_of(each).values()
}
