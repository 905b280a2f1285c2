"""The lines about a whole server, before those about its log."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from offsetd_clients.admin_values import ConfigSource
from offsetd_clients.cli.printing.terminal import Terminal, time_text
from offsetd_clients.plurals import counted
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.values import ServerInfo

_TROUBLES_NAMED_MAX = 10


def server_lines(served: ServerInfo, health: dict[str, bool]) -> Iterator[str]:
    """The server's health, its identity, and the reason if offsets do not expire."""
    for name, serves in health.items():
        yield f"{name}: {'serving' if serves else 'NOT SERVING'}"
    yield (
        f"offsetd {served.version}, node {served.node_id}, {served.state}, started at"
        f" {time_text(served.start_time)}"
    )
    counts = f"{counted(served.group_count, 'group')}, {counted(served.offset_count, 'offset')}"
    if served.counts_hidden:
        yield "the counts of groups and offsets need the right Describe on the cluster"
    else:
        yield f"{counts} on this node" if served.cluster_id else counts
    if served.expiry_suspension is not None:
        suspension = served.expiry_suspension
        until = "until a setting is changed"
        if suspension.end_time is not None:
            until = f"until {time_text(suspension.end_time)} by the server's time"
        if suspension.remaining is not None:
            until = (
                f"for {timedelta(seconds=suspension.remaining // timedelta(seconds=1))}, {until}"
            )
        yield f"nothing expires {until}: {suspension.reason}"
    if served.clock_offset:
        side = "ahead of" if served.clock_offset > timedelta(0) else "behind"
        yield f"the machine's clock is {abs(served.clock_offset)} {side} the server's time"


def server_troubles(served: ServerInfo, health: Mapping[str, bool]) -> list[str]:
    """The names of what is in trouble: the server, and parts of it that are not healthy."""
    stalled = [name for name, serves in health.items() if not serves]
    return [*(["server"] if served.problems else []), *stalled]


def fail_if_any(in_trouble: Sequence[str], terminal: Terminal) -> None:
    """Ends the command with the names of what is in trouble, if anything is."""
    if not in_trouble:
        return
    more = len(in_trouble) - _TROUBLES_NAMED_MAX
    named = ", ".join(in_trouble[:_TROUBLES_NAMED_MAX])
    terminal.fail(f"in trouble: {named}" + (f", and {more} more" if more > 0 else ""))


def note_settings_problem(served: ServerInfo, terminal: Terminal) -> None:
    """Reports the settings that cannot be read, if any."""
    if served.settings_problem:
        terminal.note(
            "not all settings can be read, so nothing expires, is cleaned or taken away:"
            f" {served.settings_problem}"
        )


def why_records_stay(client: OffsetClient, topic: str) -> str:
    """How long the cleaner keeps the records of a topic, and by which setting; empty for 0 ms."""
    [lag] = client.describe_config(topic or "__consumer_offsets", ["min.compaction.lag.ms"])
    if lag.value == "0":
        return ""
    ruling = "history.ms" if lag.source == ConfigSource.FLOOR else lag.name
    return f"; records stay for {lag.value} ms ({ruling})"
