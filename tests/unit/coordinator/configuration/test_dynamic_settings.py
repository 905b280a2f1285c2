"""The coordinator's dynamic settings: of the server, changed as those of the storage are."""

from __future__ import annotations

import pytest
from offsetd_coordinator.configuration.dynamic_settings import DYNAMIC_SETTINGS, ExpiryConfig
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.expiry.expiry_rules import ExpiryBase
from offsetd_storage.errors import InvalidSetting


def test_they_count_from_the_moment_they_are_set_until_they_are_removed() -> None:
    configs = Settings(said={"offsets.retention.minutes": "7"}).configs
    assert configs.server_config(ExpiryConfig).retention_minutes == 7
    changed = configs.with_changes(None, {"offsets.retention.minutes": "9"})
    assert changed.server_config(ExpiryConfig).retention_minutes == 9
    removed = changed.with_changes(None, {}, ["offsets.retention.minutes"])
    assert removed.server_config(ExpiryConfig).retention_minutes == 7


def test_they_are_described_among_the_servers_as_dynamic() -> None:
    found = {each.name: each for each in Settings().configs.describe(None)}
    assert all(found[name].is_dynamic for name in DYNAMIC_SETTINGS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("offsets.retention.minutes", "0"),
        ("offsets.retention.minutes", "-2"),
        ("offsets.retention.minutes", "2147483648"),
        ("offsets.retention.check.interval.ms", "0"),
        ("expiry.grace.ms", "-1"),
        ("offsets.expiry.enable", "maybe"),
        ("offsets.expiry.base", "commit"),
        ("commit.unchanged.suppress.ms", "-1"),
        ("group.commit.rate.max", "-1"),
        ("group.commit.rate.max", "1000001"),
        ("group.commit.burst.max", "-1"),
        ("metrics.group.commits.top", "1001"),
    ],
)
def test_what_is_out_of_bounds_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting):
        Settings().configs.with_changes(None, {name: text})


def test_they_are_no_settings_of_a_topic() -> None:
    with pytest.raises(InvalidSetting, match="a setting of the server"):
        Settings().configs.with_changes("t", {"expiry.grace.ms": "1"})


@pytest.mark.parametrize(
    ("minutes", "retention_ms"), [(1, 60_000), (10_080, 604_800_000), (-1, None)]
)
def test_the_rules_take_milliseconds(minutes: int, retention_ms: int | None) -> None:
    terms = ExpiryConfig(retention_minutes=minutes, base="kafka").terms
    assert terms.retention_ms == retention_ms
    assert terms.base is ExpiryBase.KAFKA


@pytest.mark.parametrize(
    ("minutes", "unchanged_ms", "fits"),
    [
        (10_080, 60_480_000, True),
        (10_080, 60_480_001, False),
        (1, 6000, True),
        (1, 6001, False),
        (-1, 2**40, True),
    ],
)
def test_commits_are_left_out_for_at_most_a_tenth_of_the_retention(
    minutes: int, unchanged_ms: int, fits: bool
) -> None:
    texts = {
        "offsets.retention.minutes": str(minutes),
        "commit.unchanged.suppress.ms": str(unchanged_ms),
    }
    if fits:
        changed = Settings().configs.with_changes(None, texts)
        assert changed.server_config(ExpiryConfig).unchanged_commit_ms == unchanged_ms
        assert Settings(said=texts).configs.server_config(ExpiryConfig).retention_minutes == minutes
        return
    for configs in (
        lambda: Settings().configs.with_changes(None, texts),
        lambda: Settings(said=texts),
    ):
        with pytest.raises(InvalidSetting, match=r"suppress\.ms.*a tenth of offsets\.retention"):
            configs()
