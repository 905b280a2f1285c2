"""offsetd_clients.cli.groups.group_description, run in this process."""

from collections.abc import Callable
from typing import Any

import pytest
from cli_calls import Ended, offsetd_of
from google.rpc.status_pb2 import Status
from offsetd.v1 import group_service_pb2, offset_service_pb2, types_pb2


@pytest.fixture
def offsetd(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(fake_server.address, monkeypatch)


def a_group() -> group_service_pb2.GetGroupResponse:
    group = group_service_pb2.Group(
        group_id="workers",
        type="GROUP_TYPE_CLASSIC",
        state="GROUP_STATE_STABLE",
        protocol_type="consumer",
        protocol="range",
        generation=4,
        leader_id="m-1",
        log_partition=12,
        offset_count=3,
        members=[
            group_service_pb2.GroupMember(
                member_id="m-1",
                client_id="app",
                client_host="/10.0.0.7",
                topics=["orders", "clicks"],
                assignment=[
                    types_pb2.TopicPartition(topic="orders", partition=0),
                    types_pb2.TopicPartition(topic="orders", partition=1),
                ],
            )
        ],
    )
    group.state_time.FromMilliseconds(1_795_208_775_341)
    return group_service_pb2.GetGroupResponse(group=group)


def stored(**offsets: tuple[int, int | None]) -> offset_service_pb2.FetchOffsetsResponse:
    """Of `workers`: by `topic_partition`, an offset and the end that was reported with it."""
    group = offset_service_pb2.GroupOffsets(group_id="workers")
    for name, (offset, end) in offsets.items():
        topic, _, number = name.rpartition("_")
        group.offsets.add(topic=topic, partition=int(number), offset=offset, end_offset=end)
    return offset_service_pb2.FetchOffsetsResponse(groups=[group])


def bounds(**ends: tuple[int, int]) -> offset_service_pb2.FetchBoundsResponse:
    response = offset_service_pb2.FetchBoundsResponse()
    for name, (earliest, latest) in ends.items():
        topic, _, number = name.rpartition("_")
        response.bounds.add(topic=topic, partition=int(number), earliest=earliest, latest=latest)
    return response


NO_BOUNDS = offset_service_pb2.FetchBoundsResponse()


def test_describe_prints_kafkas_columns_with_the_ends_that_consumers_reported(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    fake_server.will_answer("FetchOffsets", stored(clicks_0=(5, None), orders_1=(40, 42)))
    fake_server.will_answer("FetchBounds", NO_BOUNDS)
    ended = offsetd("groups", "describe", "workers")
    assert (ended.code, ended.stderr) == (
        0,
        "group workers: stable; total lag 2, without 1 of 2 partitions whose end is unknown\n",
    )
    header, *lines = (line.split() for line in ended.stdout.splitlines())
    assert " ".join(header) == (
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID VERDICT"
    )
    assert [" ".join(line) for line in lines] == [
        "workers clicks 0 5 - - - - - -",
        "workers orders 0 - - - m-1 /10.0.0.7 app -",
        "workers orders 1 40 42 2 m-1 /10.0.0.7 app -",
    ]
    *_, asked = fake_server.requests
    assert [(each.topic, each.partition) for each in asked.partitions] == [
        ("clicks", 0),
        ("orders", 0),
        ("orders", 1),
    ]


def test_a_group_that_is_judged_has_the_verdict_on_each_partition(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    group = a_group()
    group.group.lag_verdict = group_service_pb2.LAG_VERDICT_ERR
    fake_server.will_answer("GetGroup", group)
    fake_server.will_answer("FetchOffsets", stored(clicks_0=(5, 5), orders_1=(40, 42)))
    fake_server.will_answer("FetchBounds", NO_BOUNDS)
    stalls = group_service_pb2.PartitionLag(
        topic="orders", partition=1, verdict=group_service_pb2.LAG_VERDICT_STALL
    )
    first = group_service_pb2.GetGroupResponse(next_page_token="2")
    for page in first, group_service_pb2.GetGroupResponse(lags=[stalls]):
        fake_server.will_answer("GetGroup", page)
    ended = offsetd("groups", "describe", "workers", "-o", "csv")
    rows = [line.split(",")[1:6] + line.split(",")[-1:] for line in ended.stdout.splitlines()[1:]]
    assert rows[0] == ["clicks", "0", "5", "5", "0", ""]
    assert rows[-1] == ["orders", "1", "40", "42", "2", "STALL"]


def test_what_kafka_tells_goes_before_what_was_reported(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    fake_server.will_answer("FetchOffsets", stored(orders_1=(40, 42), orders_2=(7, 7)))
    fake_server.will_answer("FetchBounds", bounds(orders_0=(0, 9), orders_1=(10, 100)))
    ended = offsetd("groups", "describe", "workers", "-o", "csv")
    assert (ended.code, ended.stderr) == (0, "")
    assert [line.split(",")[2:6] for line in ended.stdout.splitlines()[1:]] == [
        ["0", "", "9", ""],
        ["1", "40", "100", "60"],
        ["2", "7", "7", "0"],
    ]


def test_only_with_lag_leaves_out_what_is_not_known_to_be_behind(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    fake_server.will_answer(
        "FetchOffsets", stored(a_0=(1, None), b_0=(3, 3), c_0=(4, 3), d_0=(0, 1))
    )
    fake_server.will_answer("FetchBounds", NO_BOUNDS)
    ended = offsetd("groups", "describe", "workers", "--only-with-lag", "-o", "csv")
    assert [line.split(",")[1] for line in ended.stdout.splitlines()[1:]] == ["d"]


def test_an_offset_that_the_partition_has_not_is_told(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    fake_server.will_answer("FetchOffsets", stored(orders_0=(9, None), orders_1=(5, None)))
    fake_server.will_answer("FetchBounds", bounds(orders_0=(0, 8), orders_1=(6, 8)))
    ended = offsetd("groups", "describe", "workers", "-o", "csv")
    assert [line.split(",")[5] for line in ended.stdout.splitlines()[1:]] == ["0", "3"]
    assert (ended.code, ended.stderr) == (
        0,
        (
            "group workers, orders:0: offset 9 is ahead of the end, 8\n"
            "group workers, orders:1: offset 5 is before the first record, 6\n"
        ),
    )


def test_without_an_answer_of_kafka_it_is_partly_done(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    fake_server.will_answer("FetchOffsets", stored(orders_0=(5, 7), orders_1=(1, None)))
    fake_server.will_answer("FetchBounds", failed("INTERNAL", "KAFKA_UNAVAILABLE", "no answer"))
    ended = offsetd("groups", "describe", "workers", "-o", "csv")
    assert ended.code == 3
    assert [line.split(",")[5] for line in ended.stdout.splitlines()[1:]] == ["2", ""]
    assert ended.stderr == (
        "error: ends of partitions are as last reported, if at all: KAFKA_UNAVAILABLE: no answer\n"
    )


def test_a_member_without_a_partition_has_a_line(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    answer = a_group()
    del answer.group.members[0].assignment[:]
    fake_server.will_answer("GetGroup", answer)
    fake_server.will_answer("FetchOffsets", stored())
    fake_server.will_answer("FetchBounds", NO_BOUNDS)
    ended = offsetd("groups", "describe", "workers", "-o", "csv")
    assert ended.stdout.splitlines()[1:] == ["workers,,,,,,m-1,/10.0.0.7,app,"]
    assert ended.stderr == "group workers has no offsets\n"


def test_all_groups_are_described_by_id(fake_server: Any, offsetd: Callable[..., Ended]) -> None:
    listings = [
        group_service_pb2.GroupListing(group_id=group_id, type="GROUP_TYPE_CLASSIC")
        for group_id in ("z", "a")
    ]
    fake_server.will_answer("ListGroups", group_service_pb2.ListGroupsResponse(groups=listings))
    fake_server.will_answer("GetGroup", a_group(), a_group())
    ended = offsetd("groups", "describe", "--all-groups", "--state")
    assert ended.code == 0
    assert [request.group_id for request in fake_server.requests[1:]] == ["a", "z"]


def test_state_prints_a_line_for_each_group(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    ended = offsetd("groups", "describe", "workers", "--state", "-o", "csv")
    assert ended == Ended(
        0,
        "group,type,state,protocol_type,protocol,generation,leader_id,members,offsets,"
        "log_partition,state_time,retention,lease_holder,lease_epoch,lease_expire_time,verdict\n"
        "workers,classic,stable,consumer,range,4,m-1,1,3,12,2026-11-20T21:06:15.341Z,,,,,\n",
        "",
    )


def test_state_has_the_retention_and_the_lease(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    answer = a_group()
    answer.group.retention.duration.FromMilliseconds(90_000)
    answer.group.lease.holder = "nightly"
    answer.group.lease.epoch = 7
    answer.group.lease.expire_time.FromMilliseconds(1_795_208_775_341)
    fake_server.will_answer("GetGroup", answer)
    ended = offsetd("groups", "describe", "workers", "--state", "-o", "jsonl")
    assert ended.stdout.endswith(
        '"retention": "90s", "lease_holder": "nightly", "lease_epoch": 7,'
        ' "lease_expire_time": "2026-11-20T21:06:15.341Z", "verdict": null}\n'
    )


def test_members_has_a_line_for_each_member(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    fake_server.will_answer("GetGroup", a_group())
    ended = offsetd("groups", "describe", "workers", "--members", "-o", "csv")
    assert ended.stdout.splitlines() == [
        "group,consumer_id,group_instance_id,host,client_id,partitions,topics,assignment",
        'workers,m-1,,/10.0.0.7,app,2,"orders,clicks","orders:0,orders:1"',
    ]


def test_describe_of_some_groups_that_exist_is_partly_done(
    fake_server: Any, offsetd: Callable[..., Ended], failed: Callable[..., Status]
) -> None:
    absent = failed("NOT_FOUND", "GROUP_ID_NOT_FOUND", "group app does not exist")
    fake_server.will_answer("GetGroup", absent, a_group())
    ended = offsetd("groups", "describe", "app", "workers", "--state", "-o", "jsonl")
    assert ended.code == 3
    assert ended.stdout.startswith('{"group": "workers",')
    assert ended.stderr == ("error: group app: GROUP_ID_NOT_FOUND: group app does not exist\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("workers", "--all-groups"),
        ("workers", "--members", "--state"),
        ("workers", "--offsets", "--members"),
        ("workers", "--members", "--only-with-lag"),
    ],
)
def test_what_contradicts_itself_is_wrong_use(
    fake_server: Any, offsetd: Callable[..., Ended], arguments: tuple[str, ...]
) -> None:
    assert offsetd("groups", "describe", *arguments).code == 2
    assert fake_server.requests == []


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ({"orders_0": (5, 7), "orders_1": (1, 4)}, "total lag 5"),
        ({"orders_0": (5, None)}, "total lag unknown"),
        ({"orders_0": (9, 9)}, "total lag 0"),
    ],
)
def test_above_a_table_stand_the_state_the_total_lag_and_that_nobody_reads(
    fake_server: Any, offsetd: Callable[..., Ended], offsets: dict[str, Any], told: str
) -> None:
    answer = a_group()
    answer.group.state = group_service_pb2.GROUP_STATE_EMPTY
    del answer.group.members[:]
    fake_server.will_answer("GetGroup", answer, answer, answer)
    fake_server.will_answer("FetchOffsets", stored(**offsets), stored(**offsets))
    fake_server.will_answer("FetchBounds", NO_BOUNDS, NO_BOUNDS)
    ended = offsetd("groups", "describe", "workers")
    assert ended.stderr == f"group workers: empty, no active members; {told}\n"
    assert offsetd("groups", "describe", "workers", "-o", "csv").stderr == ""
    ended = offsetd("groups", "describe", "workers", "--members")
    assert ended.stderr == "group workers has no active members\n"


def test_many_groups_are_told_of_in_one_line(
    fake_server: Any, offsetd: Callable[..., Ended]
) -> None:
    names = [f"g{number}" for number in range(11)]
    answers = []
    fetched = offset_service_pb2.FetchOffsetsResponse()
    for name in names:
        answer = a_group()
        answer.group.group_id = name
        answers.append(answer)
        fetched.groups.add(group_id=name).offsets.add(topic="t", offset=1, end_offset=3)
    fake_server.will_answer("GetGroup", *answers)
    fake_server.will_answer("FetchOffsets", fetched)
    fake_server.will_answer("FetchBounds", NO_BOUNDS)
    ended = offsetd("groups", "describe", *names)
    assert ended.stderr == "11 groups: 11 stable; total lag 22\n"
