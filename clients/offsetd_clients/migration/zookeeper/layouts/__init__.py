"""The layouts of offsets in ZooKeeper, one plug-in for each."""

from collections.abc import Callable, Mapping

from offsetd_clients.migration.values import MigrationError
from offsetd_clients.migration.zookeeper.layouts import (
    kafka08,
    packed,
    regex,
    storm,
    trident,
    trident_client,
)
from offsetd_clients.migration.zookeeper.layouts.layout import Layout, LayoutOptions

LAYOUTS: Mapping[str, Callable[[LayoutOptions], Layout]] = {
    "kafka08": kafka08.Kafka08,
    "storm": storm.Storm,
    "trident": trident.Trident,
    "trident-client": trident_client.TridentClient,
    "packed": packed.Packed,
    "regex": regex.Regex,
}
"""The layouts by name. Each raises BadLayout for options that it needs or cannot use."""


def layout_of(name: str, options: LayoutOptions) -> Layout:
    """The layout of that name. Raises MigrationError, BadLayout."""
    if name not in LAYOUTS:
        raise MigrationError(f"there is no layout {name!r}; there are {', '.join(LAYOUTS)}")
    return LAYOUTS[name](options)
