"""What a program of an older release does with its own client. It runs by itself, on that code.

    python older_client.py ADDRESS

It uses only what 0.1.0 has, and prints what it got as JSON.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import offsetd_clients
from offsetd_clients import (
    EpochFenced,
    OffsetClient,
    OffsetConflict,
    OffsetFormat,
    OffsetToCommit,
    TopicPartition,
)

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def seen(address: str) -> dict[str, object]:
    """Commits, reads, fences, joins, watches, exports and administers."""
    with OffsetClient(address) as client:
        revision = client.commit("old", {FIRST: 1, SECOND: OffsetToCommit(2, metadata="m")})
        soon = [client.commit_soon("old-soon", {FIRST: offset}) for offset in range(1, 51)]
        last = [future.result(30).log_offset for future in soon]
        lease = client.acquire_group("old-leased", "me", ttl=timedelta(seconds=60))
        client.commit("old-leased", {FIRST: 3}, epoch=lease.epoch)
        joined = client.join_group("old-members", {"range": b""})
        client.sync_group(joined.membership, {joined.membership.member_id: b"all"})
        client.commit("old-members", {FIRST: 4}, membership=joined.membership)
        client.update_config({"offsets.retention.minutes": "20160"})
        return {
            "code": offsetd_clients.__file__,
            "fetched": client.fetch("old")[FIRST].offset,
            "revisions rise": last == sorted(set(last)) and revision.log_offset >= 0,
            "conflict": refusal(
                client, OffsetConflict, {FIRST: OffsetToCommit(9, expected_offset=7)}
            ),
            "fenced": refusal(client, EpochFenced, {FIRST: 9}, epoch=lease.epoch),
            "groups": sorted(each.group_id for each in client.list_groups()),
            "history": len(list(client.list_offset_history("old"))),
            "exported": b"".join(client.export_offsets(OffsetFormat.KAFKA_CSV, ["old"])).decode(),
            "audited": [each.method for each in client.list_audit_events()],
            "generation": joined.membership.generation_id,
            "serving": client.is_serving(),
            "state": client.get_server_info().state.name,
        }


def refusal(client: OffsetClient, kind: type[Exception], offsets: object, **more: object) -> str:
    """The reason of the error that such a commit raises."""
    try:
        client.commit("old", offsets, **more)
    except kind as error:
        return error.reason
    return "accepted"


if __name__ == "__main__":
    print(json.dumps(seen(sys.argv[1])))
