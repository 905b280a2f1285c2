"""What a scrape says, and the rules that such a text keeps."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

import attrs
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

UNITS = ("seconds", "bytes", "ratio", "info")
LABELS = {
    "partition",
    "method",
    "code",
    "operation",
    "task",
    "state",
    "reason",
    "verdict",
    "le",
}
# Only what is bounded by a setting has a label that clients can fill.
LABELS_OF = {
    "offsetd_group_commits_last_minute": {"group"},
    "offsetd_group_verdict": {"group"},
    "offsetd_group_members": {"group"},
    "offsetd_group_committed_offset": {"group", "topic"},
    "offsetd_group_lag_records": {"group", "topic"},
    "offsetd_quota_refusals": {"principal", "quota"},
    "offsetd_quota_delay_seconds": {"principal"},
}
# Counts of things have no unit.
_NAME = re.compile(r"offsetd(_[a-z]+)+")
_WORDS_OF_OTHER_UNITS = {"ms", "milliseconds", "millis", "percent", "mb", "kb", "minutes", "hours"}


@attrs.frozen
class Scrape:
    """The text, and its families as Prometheus reads them."""

    text: str
    families: Mapping[str, Metric]

    @classmethod
    def of(cls, text: str) -> Scrape:
        """Raises ValueError where the text is none that Prometheus reads."""
        families = list(text_string_to_metric_families(text))
        names = [family.name for family in families]
        assert len(set(names)) == len(names), "a family is there twice"
        return cls(text, {family.name: family for family in families})

    @classmethod
    def from_address(cls, address: str) -> Scrape:
        """Reads HOST:PORT's /metrics."""
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=")
            return cls.of(response.read().decode())

    def value(self, name: str, **labels: str) -> float:
        """A sample's value. Fails where it is not there."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        ]
        assert len(found) == 1, f"{len(found)} samples of {name} {labels}"
        return float(found[0])

    @property
    def sample_names(self) -> set[str]:
        """Names that rules and dashboards may use, also of families without samples now."""
        names = set()
        for family in self.families.values():
            names |= {sample.name for sample in family.samples}
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
            names |= {family.name + each for each in suffixes.get(family.type, [""])}
        return names


def rule_problems(scrape: Scrape) -> Iterator[str]:
    """What `promtool check metrics` would say of our own metrics, and a little more."""
    helped = set(re.findall(r"^# HELP (\S+) \S", scrape.text, re.MULTILINE))
    typed = dict(re.findall(r"^# TYPE (\S+) (\w+)$", scrape.text, re.MULTILINE))
    for family in scrape.families.values():
        name = family.name
        if not name.startswith("offsetd_"):
            continue
        declared = name + "_total" if family.type == "counter" else name
        words = name.split("_")
        if not _NAME.fullmatch(name):
            yield f"{name}: no name of ours"
        if declared not in helped:
            yield f"{declared}: no HELP"
        if declared not in typed or typed[declared] == "untyped":
            yield f"{declared}: no TYPE"
        if set(words) & _WORDS_OF_OTHER_UNITS:
            yield f"{name}: Prometheus's units are seconds, bytes and ratios"
        for unit in UNITS:
            if unit in words[:-1]:
                yield f"{name}: its unit is not last"
        if family.type != "counter" and words[-1] in ("total", "count", "sum", "bucket"):
            yield f"{name}: a suffix of another type"
        for sample in family.samples:
            if not set(sample.labels) <= LABELS | LABELS_OF.get(name, set()):
                yield f"{name}: labels {sorted(sample.labels)}"
