"""Parts of a call about all groups: which log partitions to ask of which node next.

Each log partition is asked of one node at a time. If its owner changes meanwhile, the new owner
goes on with it. So no group is left out, and none comes twice.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any

import attrs
from offsetd.v1.types_pb2 import ClusterShare


@attrs.frozen
class Part:
    """Log partitions of one node, in ascending order, and where to go on in the first of them.

    Without log partitions: all that the asked server serves.
    """

    log_partitions: tuple[int, ...] = ()
    page_token: str = ""

    def split(self) -> list["Part"]:
        """A part for each log partition, for when their owners differ."""
        return [
            Part((log_partition,), "" if place else self.page_token)
            for place, log_partition in enumerate(self.log_partitions)
        ]


def further_parts(response: Any) -> list[Part]:
    """What remains after one page of a list."""
    token = response.next_page_token
    if not response.HasField("cluster"):
        return [Part((), token)] if token else []
    share = response.cluster
    here = [each for each in share.log_partitions if each >= response.next_log_partition]
    return [*([Part(tuple(here), token)] if token else []), *parts_elsewhere(share)]


def parts_elsewhere(share: ClusterShare) -> Iterable[Part]:
    """A part for each other node, and one for each log partition that no node serves now."""
    for node in share.elsewhere:
        part = Part(tuple(node.log_partitions))
        yield from [part] if node.address else part.split()


def token_of(parts: Iterable[Part]) -> str:
    """What remains of a list, as one token for callers. Empty if nothing remains."""
    places = [[each.log_partitions, each.page_token] for each in parts]
    if not places:
        return ""
    return base64.urlsafe_b64encode(json.dumps(places).encode()).decode()


def parts_of(token: str) -> list[Part]:
    """Decodes a page token into its parts. An empty token means the whole list.

    Raises ValueError.
    """
    if not token:
        return [Part()]
    try:
        places = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        parts = [_part_of(*place) for place in places]
    except (TypeError, ValueError, RecursionError):
        parts = []
    if not parts:
        raise ValueError("the page token is not one of this client")
    return parts


def _part_of(log_partitions: object, page_token: object) -> Part:
    is_list = isinstance(log_partitions, list) and all(type(each) is int for each in log_partitions)
    if not (is_list and isinstance(page_token, str)):
        raise TypeError("no part of a list")
    return Part(tuple(log_partitions), page_token)  # type: ignore[arg-type]
