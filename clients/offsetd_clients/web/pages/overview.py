"""The overview: is all well? Health, partitions, groups, sizes, warnings."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.printing.server_summary import server_lines
from offsetd_clients.cluster_values import Cluster, LogPartitionState
from offsetd_clients.values import GroupListing, LagVerdict, ServerInfo
from offsetd_clients.web.pages.groups import Choice
from offsetd_clients.web.pages.rates import rates_of
from offsetd_clients.web.served_parts import part

LISTED_MAX = 500
WORST_SHOWN = 8
_SERVICES = ("offsetd.cleaner", "offsetd.disk", "offsetd.clock")
_VERDICTS = (LagVerdict.ERR, LagVerdict.WARN, LagVerdict.OK)


@attrs.frozen
class SampledGroups:
    """The states and verdicts of the groups that were listed, and those with the largest lags."""

    states: Mapping[str, int]
    listed: int
    is_complete: bool
    verdicts: Mapping[str, int]
    worst: Sequence[GroupListing]


async def view(client: AsyncOffsetClient, _: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    cluster, log, groups, health = await asyncio.gather(
        part(client.describe_cluster()),
        part(client.describe_log()),
        part(sampled(client)),
        part(unhealthy(client)),
    )
    servers = [] if cluster.value is None else _servers(cluster.value)
    states = Counter(each.state for each in (cluster.value.partitions if cluster.value else ()))
    return {
        "cluster": cluster,
        "servers": servers,
        "counts_hidden": any(each.counts_hidden for each in servers),
        "group_count": sum(each.group_count for each in servers),
        "offset_count": sum(each.offset_count for each in servers),
        "disk": min(
            (each.disk for each in servers if each.disk is not None),
            key=lambda disk: disk.free_bytes,
            default=None,
        ),
        "serving": states[LogPartitionState.SERVING],
        "rates": rates_of(client).noted(servers, log.value or ()),
        "log": log,
        "log_bytes": sum(each.size_bytes for each in log.value or ()),
        "groups": groups,
        "warnings": list(warnings(cluster.value, log.value or (), health.value or ())),
    }


async def unhealthy(client: AsyncOffsetClient) -> list[str]:
    """The parts of the server that say that they are not healthy."""
    answers = await asyncio.gather(*map(client.is_serving, ("", *_SERVICES)))
    names = ("the server", *_SERVICES)
    return [name for name, serves in zip(names, answers, strict=True) if not serves]


async def sampled(client: AsyncOffsetClient) -> SampledGroups:
    """States, verdicts and the largest lags of the first groups in the order of the log."""
    page = await Choice().page(client, LISTED_MAX, "")
    verdicts = Counter(each.lag_verdict or "none" for each in page.groups)
    behind = [(each.lag, each) for each in page.groups if each.lag]
    return SampledGroups(
        states=Counter(each.state for each in page.groups),
        listed=len(page.groups),
        is_complete=not page.next_page_token,
        verdicts={name: verdicts[name] for name in (*_VERDICTS, "none") if verdicts[name]},
        worst=[each for _, each in sorted(behind, key=lambda pair: -pair[0])[:WORST_SHOWN]],
    )


def _servers(cluster: Cluster) -> list[ServerInfo]:
    return [node.server for node in cluster.nodes if node.server is not None]


@attrs.frozen
class Warned:
    """What needs somebody, and what to do about it."""

    told: str
    advice: str = ""


_UNHEALTHY = "`offsetd doctor` looks for the cause."
_SILENT = "Look whether it runs, and whether its address can be reached from here."
_QUARANTINED = (
    "Stop the server, copy its folder, and restore a backup. Without one, `offsetd log repair`"
    " shows what can be kept."
)
_UNCLEANABLE = "The cleaner tries again by itself; Log shows when. A damaged one needs a repair."
_SETTINGS = "Nothing expires or is cleaned meanwhile. Set it again with `offsetd admin config set`."


def warnings(
    cluster: Cluster | None, log: Sequence[LogPartition], failing: Sequence[str]
) -> Iterator[Warned]:
    """What needs somebody, most urgent first."""
    yield from (Warned(f"{name} reports that it is not healthy", _UNHEALTHY) for name in failing)
    if cluster is not None:
        yield from map(Warned, cluster.problems)
        yield from (
            Warned(f"node {node.node_id} at {node.address} does not answer", _SILENT)
            for node in cluster.nodes
            if node.server is None
        )
        for served in _servers(cluster):
            yield from map(Warned, served.problems)
            if served.settings_problem:
                told = f"not all settings can be read: {served.settings_problem}"
                yield Warned(told, _SETTINGS)
            yield from (Warned(line) for line in server_lines(served, {}) if _is_warning(line))
    for each in log:
        if each.quarantine_reason:
            told = f"log partition {each.partition} is quarantined: {each.quarantine_reason}"
            yield Warned(told, _QUARANTINED)
        elif each.cleaning is not None and each.cleaning.uncleanable is not None:
            reason = each.cleaning.uncleanable.reason
            told = f"log partition {each.partition} cannot be cleaned: {reason}"
            yield Warned(told, _UNCLEANABLE)


def _is_warning(line: str) -> bool:
    return line.startswith(("nothing expires", "the machine's clock"))
