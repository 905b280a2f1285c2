"""Offsets exported and imported through the services, in every format."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.code_pb2 import Code
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.services import offset_imports
from offsetd_coordinator.services.offset_exports import PIECE_BYTES, ExportService
from offsetd_coordinator.services.offset_imports import ImportService
from offsetd_storage.offsets_topic.placement import partition_of
from serving_nodes import METADATA_UNITS_MAX, PARTITIONS, WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Response = admin_service_pb2.ImportOffsetsResponse
DAY_MS = 86_400_000


async def export(serving: ServingNode, file_format: str, **fields: Any) -> bytes:
    request = admin_service_pb2.ExportOffsetsRequest(
        format=f"OFFSET_FORMAT_{file_format}",  # type: ignore[arg-type]
        **fields,
    )
    content = b""
    async for answer in ExportService(serving.node).export_offsets(request.SerializeToString()):
        piece = admin_service_pb2.ExportOffsetsResponse.FromString(answer).content
        assert piece
        content += piece
    return content


async def import_file(
    serving: ServingNode,
    content: bytes,
    file_format: str,
    *,
    piece_bytes: int = 7,
    service: ImportService | None = None,
    **fields: Any,
) -> Response:
    options = admin_service_pb2.ImportOffsetsOptions(
        format=f"OFFSET_FORMAT_{file_format}",  # type: ignore[arg-type]
        **fields,
    )

    async def messages() -> AsyncIterator[bytes]:
        yield admin_service_pb2.ImportOffsetsRequest(options=options).SerializeToString()
        for start in range(0, len(content), piece_bytes):
            yield admin_service_pb2.ImportOffsetsRequest(
                content=content[start : start + piece_bytes]
            ).SerializeToString()

    return await import_of(serving, messages(), service)


async def import_of(
    serving: ServingNode, messages: AsyncIterator[bytes], service: ImportService | None = None
) -> Response:
    service = service or ImportService(serving.node, metadata_units_max=METADATA_UNITS_MAX)
    answer = await asyncio.wait_for(service.import_offsets(messages), WAIT_SECONDS)
    return Response.FromString(answer)


def audit_end(serving: ServingNode) -> int:
    return serving.store.logs[AUDIT_PARTITION].offset_next


ORDERS = [
    {"topic": "orders", "partition": 0, "offset": 100},
    {"topic": "orders", "partition": 1, "offset": 50, "metadata": "früh", "leader_epoch": 3},
    {"topic": "other", "partition": 0, "offset": 7},
]


async def test_each_format_is_as_its_own_tool_writes_it() -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        one = {"group_ids": ["g"]}
        assert (
            await export(serving, "KAFKA_CSV", **one) == b"orders,0,100\norders,1,50\nother,0,7\n"
        )
        assert await export(serving, "RPK", **one) == b"orders 0 100\norders 1 50\nother 0 7\n"
        assert json.loads(await export(serving, "KAFKA_UTILS_JSON", **one)) == {
            "groupid": "g",
            "offsets": {"orders": {"0": 100, "1": 50}, "other": {"0": 7}},
        }
        lines = (await export(serving, "JSONL", **one)).decode().splitlines()
        assert json.loads(lines[1]) == {
            "group": "g",
            "topic": "orders",
            "partition": 1,
            "offset": 50,
            "leader_epoch": 3,
            "metadata": "früh",
            "commit_timestamp_ms": serving.clock.now_ms(),
            "expire_timestamp_ms": None,
            "revision": 1,
        }
        csv = await export(serving, "KAFKA_CSV", topics=["other"])
        assert csv == b"g,other,0,7\n"


@pytest.mark.parametrize(
    ("file_format", "named"),
    [
        ("KAFKA_CSV", {}),
        ("RPK", {"group_id": "g"}),
        ("KAFKA_UTILS_JSON", {}),
        ("JSONL", {}),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 1000])
async def test_what_was_exported_is_imported_elsewhere(
    file_format: str, named: dict[str, str], piece_bytes: int
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        await serving.commit_offsets("h", ORDERS[0])
        several = file_format in ("KAFKA_CSV", "JSONL")
        groups = ["g", "h"] if several else ["g"]
        content = await export(serving, file_format, group_ids=groups)
        before = await serving.fetch(*groups)
    async with serving_node() as serving:
        preview = await import_file(serving, content, file_format, validate_only=True, **named)
        assert [group.group_id for group in preview.groups] == groups
        assert not any(group.HasField("revision") for group in preview.groups)
        assert (await serving.fetch("g"))[0].offsets == []
        assert audit_end(serving) == 0
        response = await import_file(
            serving, content, file_format, piece_bytes=piece_bytes, request_id="r", **named
        )
        assert [(each.group_id, each.offset_count) for each in response.groups] == [
            (group.group_id, len(group.offsets)) for group in before
        ]
        assert audit_end(serving) == len(groups)
        for one, other in zip(before, await serving.fetch(*groups), strict=True):
            for old, new in zip(one.offsets, other.offsets, strict=True):
                assert (old.topic, old.partition, old.offset) == (
                    new.topic,
                    new.partition,
                    new.offset,
                )
                if file_format == "JSONL":
                    assert (old.metadata, old.leader_epoch) == (new.metadata, new.leader_epoch)
        again = await import_file(serving, content, file_format, request_id="r", **named)
        assert [each.revision for each in again.groups] == [
            each.revision for each in response.groups
        ]
        assert audit_end(serving) == len(groups)


async def test_times_of_expiry_come_along_be_they_one_or_several() -> None:
    async with serving_node() as serving:
        now_ms = serving.clock.now_ms()
        for times in ([DAY_MS, DAY_MS], [DAY_MS, None], [DAY_MS, 2 * DAY_MS], [None, None]):
            content = "".join(
                json.dumps(
                    {
                        "group": "g",
                        "topic": "t",
                        "partition": partition,
                        "offset": 1,
                        "metadata": "m",
                        "leader_epoch": 4,
                        "expire_timestamp_ms": None if time is None else now_ms + time,
                    }
                )
                + "\n"
                for partition, time in enumerate(times)
            )
            await import_file(serving, content.encode(), "JSONL")
            lines = (await export(serving, "JSONL", group_ids=["g"])).decode().splitlines()
            assert [json.loads(line)["expire_timestamp_ms"] for line in lines] == [
                None if time is None else now_ms + time for time in times
            ]
            [group] = await serving.fetch("g")
            assert [(each.metadata, each.leader_epoch) for each in group.offsets] == [("m", 4)] * 2


def json_line(partition: int, offset: int, **fields: Any) -> bytes:
    line = {"group": "g", "topic": "t", "partition": partition, "offset": offset, **fields}
    return json.dumps(line).encode() + b"\n"


@pytest.mark.parametrize("keeps", [True, False])
async def test_commit_times_are_kept_where_that_is_asked_for(keeps: bool) -> None:
    async with serving_node() as serving:
        now_ms = serving.clock.now_ms()
        times = [now_ms - 5 * DAY_MS, now_ms + DAY_MS, None]
        content = b"".join(
            json_line(partition, 1, commit_timestamp_ms=time)
            for partition, time in enumerate(times)
        )
        await import_file(serving, content, "JSONL", keep_commit_times=keeps)
        lines = (await export(serving, "JSONL", group_ids=["g"])).decode().splitlines()
        assert [json.loads(line)["commit_timestamp_ms"] for line in lines] == [
            now_ms - 5 * DAY_MS if keeps else now_ms,
            now_ms,  # A time that has not come yet is of no use to anybody.
            now_ms,
        ]


@pytest.mark.parametrize(
    ("expectations", "conflicts"),
    [
        ([{"expected_revision": 0}, {"must_not_exist": True}], []),
        ([{"expected_revision": 1}, {"must_not_exist": True}], [(0, 7, 0)]),
        ([{"must_not_exist": True}, {"expected_revision": 0}], [(0, 7, 0), (1, None, None)]),
        ([{}, {"expected_revision": 3}], [(1, None, None)]),
        ([{}, {}], []),
    ],
)
async def test_a_group_is_imported_if_what_is_stored_is_what_its_lines_expect(
    expectations: list[dict[str, Any]], conflicts: list[tuple[int, int | None, int | None]]
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", {"topic": "t", "partition": 0, "offset": 7})
        content = b"".join(
            json_line(partition, 9, **expected) for partition, expected in enumerate(expectations)
        )
        for options in ({"validate_only": True}, {}):
            [imported] = (await import_file(serving, content, "JSONL", **options)).groups
            assert imported.HasField("error") == bool(conflicts)
            if conflicts:
                assert imported.error.code == grpc.StatusCode.ABORTED.value[0]
        [group] = await serving.fetch("g")
        assert [each.offset for each in group.offsets] == ([7] if conflicts else [9, 9])
        assert audit_end(serving) == (0 if conflicts else 1)


@pytest.mark.slow
async def test_a_group_with_expectations_is_one_batch_or_nothing() -> None:
    count = 40_000
    content = b"".join(json_line(number, 1) for number in range(count - 1))
    async with serving_node() as serving:
        whole = content + json_line(count - 1, 1, must_not_exist=True)
        [imported] = (await import_file(serving, whole, "JSONL", piece_bytes=1 << 20)).groups
        assert imported.HasField("error")
        assert (await serving.fetch("g"))[0].offsets == []
        [imported] = (await import_file(serving, content, "JSONL", piece_bytes=1 << 20)).groups
        assert not imported.HasField("error")


async def test_an_import_that_is_not_audited_leaves_no_record_of_it() -> None:
    async with serving_node() as serving:
        line = json_line(0, 5, must_not_exist=True)
        await import_file(serving, line, "JSONL", is_unaudited=True)
        assert [each.offset for each in (await serving.fetch("g"))[0].offsets] == [5]
        assert audit_end(serving) == 0
        with pytest.raises(errors.InvalidRequest, match="not audited"):
            await import_file(serving, line, "JSONL", is_unaudited=True, reason="why")


async def test_an_import_that_is_not_audited_needs_a_precondition_in_each_line() -> None:
    compares = json_line(0, 5, must_not_exist=True) + json_line(1, 5, expected_revision=0)
    async with serving_node() as serving:
        for content, file_format, line in (
            (compares + json_line(2, 5), "JSONL", 3),
            (b"g,t,0,5\n", "KAFKA_CSV", 1),
        ):
            with pytest.raises(errors.InvalidImport, match="needs a precondition") as refused:
                await import_file(serving, content, file_format, is_unaudited=True)
            assert [each["line"] for each in refused.value.listed] == [line]
        assert [group.offsets for group in await serving.fetch("g")] == [[]]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"must_not_exist": False}, "not true"),
        ({"expected_revision": -1}, "not a whole number"),
        ({"expected_revision": 1, "must_not_exist": True}, "one precondition"),
    ],
)
async def test_expectations_that_are_none_are_named(fields: dict[str, Any], problem: str) -> None:
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidImport, match=problem):
            await import_file(serving, json_line(0, 5, **fields), "JSONL")


async def test_more_than_a_batch_holds_is_imported_and_exported() -> None:
    count = 40_000
    content = "".join(f"big,t,{number},{number}\n" for number in range(count)).encode()
    async with serving_node() as serving:
        response = await import_file(
            serving, content, "KAFKA_CSV", piece_bytes=1 << 16, request_id="r"
        )
        assert response.groups[0].offset_count == count
        assert response.groups[0].revision.log_offset == count - 1
        again = await import_file(
            serving, content, "KAFKA_CSV", piece_bytes=1 << 16, request_id="r"
        )
        assert again.groups[0].revision == response.groups[0].revision
        [group] = await serving.fetch("big")
        assert [each.offset for each in group.offsets] == list(range(count))
        exported = await export(serving, "KAFKA_CSV", group_id_prefix="b")
        assert exported == content
        assert len(exported) > PIECE_BYTES


@pytest.mark.parametrize(
    ("content", "listed"),
    [
        (b"g,t,0,1\nnone\n", [(2, "neither")]),
        (b"g,t,0,1\nt,1,1\n", [(2, "names none, and --group was not given")]),
        (b"g,t,0,1\ng,t,0,2\nh,t,0,1\n", [(2, "t:0 of group 'g' is repeated")]),
        (b"g,,0,1\n", [(1, "topic: empty")]),
        (b"g," + b"x" * 250 + b",0,1\n", [(1, "250 UTF-16 units")]),
        (b"g,t,0,x\n\ng,t,y,0\n", [(1, "offset 'x'"), (3, "partition 'y'")]),
    ],
)
async def test_lines_that_cannot_be_imported_are_named_and_nothing_is(
    content: bytes, listed: list[tuple[int, str]]
) -> None:
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidImport) as refused:
            await import_file(serving, content, "KAFKA_CSV")
        assert len(refused.value.listed) == len(listed)
        for entry, (number, problem) in zip(refused.value.listed, listed, strict=True):
            assert entry["line"] == number
            assert problem in str(entry["problem"])
        assert [group.offsets for group in await serving.fetch("g", "h")] == [[], []]
        assert audit_end(serving) == 0


@pytest.mark.parametrize(
    ("file_format", "content", "fields", "refusal"),
    [
        ("UNSPECIFIED", b"", {}, errors.InvalidRequest),
        ("RPK", b"t 0 1\n", {}, errors.InvalidRequest),
        ("KAFKA_CSV", b"g,t,0,1\n", {"group_id": "h"}, errors.InvalidImport),
        ("KAFKA_CSV", b"g,t,0,1\n", {"reason": "x" * 1025}, errors.InvalidRequest),
        ("KAFKA_CSV", b"g,t,0,1\n", {"request_id": "x" * 65}, errors.InvalidRequestId),
        ("KAFKA_UTILS_JSON", b" " * (5 << 20), {}, errors.InvalidRequest),
        (
            "JSONL",
            b'{"group":"g","topic":"t","partition":0,"offset":1,"metadata":"' + b"m" * 4097 + b'"}',
            {},
            errors.InvalidImport,
        ),
    ],
)
async def test_what_cannot_be_imported_says_why(
    file_format: str,
    content: bytes,
    fields: dict[str, Any],
    refusal: type[errors.CoordinatorError],
) -> None:
    async with serving_node() as serving:
        with pytest.raises(refusal):
            await import_file(serving, content, file_format, piece_bytes=1 << 20, **fields)
        assert audit_end(serving) == 0


_DIGITS = b"9" * 5000
_HALF = b"\\ud800"
_LINE = b'{"group":"%b","topic":"%b","partition":%b,"offset":%b,"metadata":"%b"}\n'
_UTILS = b'{"groupid":"%b","offsets":{"%b":{"%b":%b}}}'


@pytest.mark.parametrize(
    ("file_format", "content"),
    [
        ("JSONL", _LINE % (b"g", b"t", b"0", _DIGITS, b"")),
        ("JSONL", _LINE % (b"g", b"t", _DIGITS, b"1", b"")),
        ("JSONL", _LINE % (_HALF, b"t", b"0", b"1", b"")),
        ("JSONL", _LINE % (b"g", _HALF, b"0", b"1", b"")),
        ("JSONL", _LINE % (b"g", b"t", b"0", b"1", _HALF)),
        ("JSONL", _LINE % (b"g", b"t", b'"' + _HALF + b'"', b"1", b"")),
        ("JSONL", b'{"' + _HALF + b'":1,"' + _HALF + b'":2}\n'),
        ("KAFKA_UTILS_JSON", _UTILS % (b"g", b"t", b"0", _DIGITS)),
        ("KAFKA_UTILS_JSON", _UTILS % (b"g", b"t", _DIGITS, b"1")),
        ("KAFKA_UTILS_JSON", _UTILS % (_HALF, b"t", b"0", b"1")),
        ("KAFKA_UTILS_JSON", _UTILS % (b"g", _HALF, b"0", b"1")),
        ("KAFKA_UTILS_JSON", _UTILS % (b"g", b"t", _HALF, b"1")),
        ("KAFKA_CSV", b"g,t,0," + _DIGITS + b"\n"),
        ("KAFKA_CSV", b"g,t," + _DIGITS + b",1\n"),
        ("RPK", b"t 0 " + _DIGITS + b"\n"),
        ("RPK", b"t " + _DIGITS + b" 1\n"),
    ],
)
async def test_what_python_cannot_hold_is_refused_like_other_mistakes(
    file_format: str, content: bytes
) -> None:
    fields = {"group_id": "g"} if file_format == "RPK" else {}
    async with serving_node() as serving:
        with pytest.raises(errors.InvalidField) as refused:
            await import_file(serving, content, file_format, **fields)
        assert status_of(refused.value).code == Code.INVALID_ARGUMENT
        assert audit_end(serving) == 0


async def test_options_come_first_and_once() -> None:
    options = admin_service_pb2.ImportOffsetsRequest(
        options=admin_service_pb2.ImportOffsetsOptions(format="OFFSET_FORMAT_JSONL")
    ).SerializeToString()

    async def sent(*messages: bytes) -> AsyncIterator[bytes]:
        for message in messages:
            yield message

    async with serving_node() as serving:
        for messages in ((), (b"",), (options, options), (b"\xff",)):
            with pytest.raises(errors.InvalidRequest):
                await import_of(serving, sent(*messages))
        assert (await import_of(serving, sent(options))).groups == []


async def test_a_group_that_is_refused_does_not_stop_the_others() -> None:
    async with serving_node() as serving:
        groups = [f"g{number}" for number in range(8)]
        damaged = serving.quarantine_log_of(groups[0])
        content = "".join(f"{group},t,0,1\n" for group in groups).encode()
        response = await import_file(serving, content, "KAFKA_CSV")
        for imported in response.groups:
            is_refused = partition_of(imported.group_id, PARTITIONS) == damaged
            assert imported.HasField("error") == is_refused
            assert imported.HasField("revision") != is_refused


async def test_an_export_names_the_group_whose_log_partition_is_damaged() -> None:
    async with serving_node() as serving:
        damaged = serving.quarantine_log_of("g")
        with pytest.raises(errors.LogPartitionQuarantined, match="group 'g' cannot be") as refused:
            await export(serving, "JSONL", group_ids=["g"])
        assert refused.value.variables["log_partition"] == str(damaged)


async def test_an_import_is_bounded_and_so_are_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_imports, "OFFSETS_MAX", 10)
    monkeypatch.setattr(offset_imports, "NODE_OFFSETS_MAX", 15)

    def lines(count: int) -> bytes:
        return b"".join(b"g,t,%d,1\n" % number for number in range(count))

    async with serving_node() as serving:
        service = ImportService(serving.node, metadata_units_max=METADATA_UNITS_MAX)
        with pytest.raises(errors.InvalidRequest, match="split it"):
            await import_file(serving, lines(11), "KAFKA_CSV", service=service)
        await import_file(serving, lines(10), "KAFKA_CSV", service=service)
        # One that never ends holds what it has, until it is given up.
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            request = admin_service_pb2.ImportOffsetsRequest(
                options=admin_service_pb2.ImportOffsetsOptions(format="OFFSET_FORMAT_KAFKA_CSV"),
                content=lines(10),
            )
            yield request.SerializeToString()
            begun.set()
            await goes_on.wait()

        held = asyncio.ensure_future(service.import_offsets(endless()))
        await begun.wait()
        with pytest.raises(errors.TooManyBytesInFlight):
            await import_file(serving, lines(10), "KAFKA_CSV", service=service)
        held.cancel()
        await asyncio.wait([held])
        await import_file(serving, lines(10), "KAFKA_CSV", service=service)


@pytest.mark.parametrize(
    ("file_format", "fields", "refusal"),
    [
        ("UNSPECIFIED", {}, errors.InvalidRequest),
        ("RPK", {}, errors.InvalidRequest),
        ("KAFKA_UTILS_JSON", {"group_ids": ["g", "h"]}, errors.InvalidRequest),
        ("KAFKA_CSV", {"group_ids": ["g", "g"]}, errors.InvalidGroupId),
        ("KAFKA_CSV", {"group_ids": ["none"]}, errors.GroupIdNotFound),
        ("KAFKA_CSV", {"group_ids": ["g"], "group_id_prefix": "g"}, errors.InvalidRequest),
        ("KAFKA_CSV", {"topics": [""]}, errors.InvalidTopic),
        ("RPK", {"group_ids": ["h"]}, errors.InvalidRequest),
    ],
)
async def test_what_cannot_be_exported_says_why(
    file_format: str, fields: dict[str, Any], refusal: type[errors.CoordinatorError]
) -> None:
    async with serving_node() as serving:
        await serving.commit_offsets("g", *ORDERS)
        await serving.commit_offsets("h", {"topic": "my orders", "partition": 0, "offset": 1})
        with pytest.raises(refusal):
            await export(serving, file_format, **fields)
