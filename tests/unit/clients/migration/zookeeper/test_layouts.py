"""Every layout: what its znodes say, what is wrong with them, and how they are written back."""

from __future__ import annotations

from typing import Any

import pytest
from fake_zookeeper import FakeZooKeeper
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    ProblemKind,
    SourceFailed,
)
from offsetd_clients.migration.zookeeper.kazoo_tree import KazooTree
from offsetd_clients.migration.zookeeper.layouts import layout_of
from offsetd_clients.migration.zookeeper.layouts.layout import (
    BadLayout,
    CannotWriteBack,
    LayoutOptions,
)
from offsetd_clients.migration.zookeeper.source import ZooKeeperSource

STORM = (
    '{"topology":{"id":"i","name":"n"},"offset":%d,"partition":%d,'
    '"broker":{"host":"h","port":1},"topic":"t"}'
)
TRIDENT = '{"offset":%d,"nextOffset":%d,"partition":%d,"topic":"t"}'
TRIDENT_CLIENT = '{"firstOffset":%d,"lastOffset":%d,"tp":{"topic":"t","partition":%d}}'


def read(zookeeper: FakeZooKeeper, layout: str, **options: Any) -> dict[str, FoundGroup]:
    found = list(
        ZooKeeperSource.of(
            KazooTree(zookeeper),  # type: ignore[arg-type]
            "h:1",
            layout,
            LayoutOptions(**options),
        ).groups()
    )
    assert not [each for each in found if isinstance(each, Problem)]
    return {each.group_id: each for each in found if isinstance(each, FoundGroup)}


def offsets(group: FoundGroup) -> dict[str, int]:
    return {str(each.topic_partition): each.offset for each in group.offsets}


CASES: list[tuple[str, dict[str, Any], dict[str, str], dict[str, dict[str, int]]]] = [
    (
        "kafka08",
        {},
        {
            "/consumers/g/offsets/t/0": "5",
            "/consumers/g/offsets/t/10": "6\n",
            "/consumers/g/lastSeen/t/0": "99",  # Secor's.
            "/consumers/h:1/offsets/u/0": "7",
            "/consumers/none/ids": "",
        },
        {"g": {"t:0": 5, "t:10": 6}, "h:1": {"u:0": 7}, "none": {}},
    ),
    (
        "kafka08",
        {"root": "/spark/jobs", "is_last": True},
        {"/spark/jobs/g/offsets/t/0": "5"},
        {"g": {"t:0": 6}},
    ),
    (
        "storm",
        {"root": "/kafkastorm"},
        {
            "/kafkastorm/spout/partition_0": STORM % (5, 0),
            "/kafkastorm/spout/partition_1": STORM % (6, 1),
            "/kafkastorm/wild/t/partition_2": STORM % (7, 2),
        },
        {"spout": {"t:0": 5, "t:1": 6}, "wild": {"t:2": 7}},
    ),
    (
        "trident",
        {},
        {
            "/transactional/tx/user/partition_0/9": TRIDENT % (5, 10, 0),
            "/transactional/tx/user/partition_0/10": TRIDENT % (10, 20, 0),  # The highest counts.
            "/transactional/tx/user/partition_1/11": TRIDENT % (30, 40, 1),
            "/transactional/tx/user/partition_1/12": TRIDENT % (40, 50, 1),  # Emitted, too.
            "/transactional/tx/coordinator/currtx": "11",  # Not finished: to be emitted again.
            "/transactional/wild/user/t/3/1": TRIDENT % (1, 2, 3),
        },
        {"tx": {"t:0": 20, "t:1": 30}, "wild": {"t:3": 2}},
    ),
    (
        "trident-client",
        {"root": "/tx"},
        {
            "/tx/a/user/t@0/1": TRIDENT_CLIENT % (5, 9, 0),
            "/tx/a/user/t@1/2": TRIDENT_CLIENT % (7, 8, 1),
            "/tx/a/user/t@1/3": TRIDENT_CLIENT % (9, 10, 1),
            "/tx/a/coordinator/currtx": "2",
        },
        {"a": {"t:0": 10, "t:1": 7}},
    ),
    (
        "packed",
        {"root": "/sparkstreaming", "topic": "t"},
        {"/sparkstreaming/20171128": "0:123,1:456", "/sparkstreaming/x": "0:1"},
        {"20171128": {"t:0": 123, "t:1": 456}, "x": {"t:0": 1}},
    ),
    (
        "packed",
        {"root": "/one/node", "topic": "t", "group": "g", "is_last": True},
        {"/one/node": "0:123, 1:456"},
        {"g": {"t:0": 124, "t:1": 457}},
    ),
    (
        "regex",
        {
            "root": "/app",
            "path_pattern": r"/app/(?P<topic>[^/]+)/(?P<group>[^/]+)-p(?P<partition>[0-9]+)",
            "value_pattern": r"v1;(?P<offset>[0-9]+);.*",
        },
        {"/app/t/g-p0": "v1;5;x", "/app/t/g-p1": "v1;6;", "/app/u/h-p0": "v1;7;", "/app/t/q": ""},
        {"g": {"t:0": 5, "t:1": 6}, "h": {"u:0": 7}},
    ),
    (
        "regex",
        {"path_pattern": r"/pos/(?P<partition>[0-9]+)", "topic": "t", "group": "g"},
        {"/pos/0": "5", "/pos/1": "6", "/other/1": "7"},
        {"g": {"t:0": 5, "t:1": 6}},
    ),
]


@pytest.mark.parametrize(("layout", "options", "nodes", "expected"), CASES)
def test_what_the_znodes_of_a_layout_say(
    layout: str,
    options: dict[str, Any],
    nodes: dict[str, str],
    expected: dict[str, dict[str, int]],
) -> None:
    zookeeper = FakeZooKeeper(nodes)
    found = read(zookeeper, layout, **options)
    assert {group_id: offsets(group) for group_id, group in found.items()} == expected
    assert not [group.problems for group in found.values() if group.problems]
    for group in found.values():
        for each in group.offsets:
            value, stat = zookeeper.get_async(each.place).get()
            assert value
            assert (each.version, each.order, each.commit_time_ms) == (
                stat.version,
                stat.mzxid,
                stat.mtime,
            )


@pytest.mark.parametrize(("layout", "options", "nodes", "expected"), CASES)
def test_what_is_written_back_is_read_again(
    layout: str,
    options: dict[str, Any],
    nodes: dict[str, str],
    expected: dict[str, dict[str, int]],
) -> None:
    zookeeper = FakeZooKeeper(nodes)
    written: dict[str, dict[str, int]] = {}
    plug_in = layout_of(layout, LayoutOptions(**options))
    for group in read(zookeeper, layout, **options).values():
        written[group.group_id] = {}
        for each in group.offsets:
            before = zookeeper.value(each.place)
            assert before is not None
            new = each.offset + 1000
            if _is_unfinished(zookeeper, each.place):
                with pytest.raises(CannotWriteBack, match="not finished"):
                    plug_in.rendered(before, each, new)
                new = each.offset
            else:
                zookeeper.set(each.place, plug_in.rendered(before, each, new))
            written[group.group_id][str(each.topic_partition)] = new
    found = read(zookeeper, layout, **options)
    assert {group_id: offsets(group) for group_id, group in found.items()} == written
    assert sum(new >= 1000 for group in written.values() for new in group.values())
    assert written.keys() == expected.keys()


@pytest.mark.parametrize(
    ("layout", "options", "before", "after"),
    [
        ("kafka08", {"is_last": True}, "5", "0"),
        ("kafka08", {"is_last": True}, "", "0"),
        ("packed", {"root": "/p", "topic": "t", "is_last": True}, "0:5", "0:0"),
        (
            "regex",
            {"path_pattern": "/(?P<group>.)/(?P<topic>.)/(?P<partition>.)", "is_last": True},
            *("5", "0"),
        ),
        ("trident-client", {}, TRIDENT_CLIENT % (0, 5, 0), TRIDENT_CLIENT % (0, 0, 0)),
    ],
)
def test_where_the_last_offset_is_written_none_stands_for_offset_0(
    layout: str, options: dict[str, Any], before: str, after: str
) -> None:
    plug_in = layout_of(layout, LayoutOptions(**options))
    offset = FoundOffset(topic="t", partition=0, offset=6)
    assert plug_in.rendered(before.encode(), offset, 1) == after.encode()
    with pytest.raises(CannotWriteBack, match="offset 0"):
        plug_in.rendered(before.encode(), offset, 0)


def _is_unfinished(zookeeper: FakeZooKeeper, place: str) -> bool:
    """Whether a transaction is the one that `currtx` names."""
    current = zookeeper.value(f"{place.partition('/user/')[0]}/coordinator/currtx")
    return current is not None and place.endswith(f"/{current.decode()}")


@pytest.mark.parametrize(
    ("nodes", "owners"),
    [
        ({}, ()),
        ({"/consumers/g/ids/c-1": "{}"}, ("c-1",)),
        ({"/consumers/g/owners/t/0": "c-1"}, ("t:0",)),
        ({"/consumers/g/ids": "", "/consumers/g/owners/t": ""}, ()),
    ],
)
def test_who_is_alive_is_seen_by_children_of_ids_and_owners(
    nodes: dict[str, str], owners: tuple[str, ...]
) -> None:
    zookeeper = FakeZooKeeper({"/consumers/g/offsets/t/0": "5", **nodes})
    assert read(zookeeper, "kafka08")["g"].owners == owners


def test_other_layouts_do_not_tell_who_is_alive() -> None:
    for layout, options, nodes, _ in CASES:
        if layout != "kafka08":
            found = read(FakeZooKeeper(nodes), layout, **options)
            assert {group.owners for group in found.values()} == {None}


@pytest.mark.parametrize(
    ("layout", "options", "path", "value", "kind"),
    [
        ("kafka08", {}, "/consumers/g/offsets/t/0", "x", ProblemKind.BAD_VALUE),
        ("kafka08", {}, "/consumers/g/offsets/t/0", "", ProblemKind.BAD_VALUE),
        ("kafka08", {}, "/consumers/g/offsets/t/0", "-1", ProblemKind.BAD_VALUE),
        ("kafka08", {}, "/consumers/g/offsets/t/0", "9" * 19, ProblemKind.BAD_VALUE),
        ("kafka08", {}, "/consumers/g/offsets/t/1-0", "286894308", ProblemKind.BYTE_POSITION),
        ("kafka08", {}, "/consumers/g/offsets/t/x", "5", ProblemKind.BAD_NAME),
        ("kafka08", {}, "/consumers/g/offsets/t/9999999999", "5", ProblemKind.BAD_NAME),
        ("storm", {"root": "/s"}, "/s/g/partition_0", "{", ProblemKind.BAD_VALUE),
        ("storm", {"root": "/s"}, "/s/g/partition_0", "[]", ProblemKind.BAD_VALUE),
        ("storm", {"root": "/s"}, "/s/g/partition_0", STORM % (5, 1), ProblemKind.BAD_VALUE),
        ("storm", {"root": "/s"}, "/s/g/u/partition_0", STORM % (5, 0), ProblemKind.BAD_VALUE),
        ("storm", {"root": "/s"}, "/s/g/t/x", STORM % (5, 0), ProblemKind.BAD_NAME),
        ("storm", {"root": "/s"}, "/s/g/partition_0", '{"offset":5}', ProblemKind.BAD_VALUE),
        ("trident", {}, "/transactional/g/user/0/x", "", ProblemKind.BAD_NAME),
        ("trident", {}, "/transactional/g/user/0/1", TRIDENT % (1, -5, 0), ProblemKind.BAD_VALUE),
        ("trident-client", {}, "/transactional/g/user/t/1", "{}", ProblemKind.BAD_NAME),
        (
            *("trident-client", {}, "/transactional/g/user/t@1/1"),
            *(TRIDENT_CLIENT % (1, 2, 0), ProblemKind.BAD_VALUE),
        ),
        ("packed", {"root": "/p", "topic": "t"}, "/p/g", "0:1,x", ProblemKind.BAD_VALUE),
        (
            *("regex", {"path_pattern": r"/r/(?P<group>.)/(?P<topic>.)/(?P<partition>.)"}),
            *("/r/g/t/0", "x", ProblemKind.BAD_VALUE),
        ),
    ],
)
def test_what_makes_no_sense_is_named_with_its_path(
    layout: str, options: dict[str, Any], path: str, value: str, kind: ProblemKind
) -> None:
    found = read(FakeZooKeeper({path: value}), layout, **options)["g"]
    [problem] = found.problems
    assert (found.offsets, problem.kind, problem.group_id) == ((), kind, "g")
    assert problem.where.startswith(path.rpartition("/")[0])


@pytest.mark.parametrize(("layout", "options", "nodes", "expected"), CASES)
def test_what_may_not_be_read_and_what_has_gone_meanwhile_is_named(
    layout: str,
    options: dict[str, Any],
    nodes: dict[str, str],
    expected: dict[str, dict[str, int]],
) -> None:
    del expected
    places = [
        each.place
        for group in read(FakeZooKeeper(nodes), layout, **options).values()
        for each in group.offsets
    ]
    for place in dict.fromkeys(places):
        for hidden, kind in (
            ("unreadable", ProblemKind.UNREADABLE),
            ("vanishing", ProblemKind.VANISHED),
        ):
            zookeeper = FakeZooKeeper(nodes)
            if place != options.get("root"):
                getattr(zookeeper, hidden).add(place)
                found = read(zookeeper, layout, **options)
                problems = [each for group in found.values() for each in group.problems]
                assert [(each.kind, each.where) for each in problems] == [(kind, place)]


def test_owners_that_may_not_be_read_are_a_problem_and_not_nobody() -> None:
    for path in ("/consumers/g/ids", "/consumers/g/owners"):
        zookeeper = FakeZooKeeper({"/consumers/g/offsets/t/0": "5", f"{path}/t": ""})
        zookeeper.unreadable.add(path)
        group = read(zookeeper, "kafka08")["g"]
        assert group.owners is None
        assert [each.where for each in group.problems] == [path]


def test_a_root_that_is_not_there_ends_it() -> None:
    for layout, options, _, _ in CASES:
        if layout != "regex":  # It walks whatever there is.
            with pytest.raises(SourceFailed, match="no such znode"):
                read(FakeZooKeeper(), layout, **options)


@pytest.mark.parametrize(
    ("layout", "options", "missing"),
    [
        ("storm", {}, "--root"),
        ("packed", {"root": "/p"}, "--topic"),
        ("regex", {}, "--path-pattern"),
        ("regex", {"path_pattern": "("}, "regular"),
        ("regex", {"path_pattern": "/(?P<group>.)/(?P<topic>.)"}, "partition"),
        ("regex", {"path_pattern": "/(?P<partition>.)", "topic": "t"}, "group"),
        ("storm", {"root": "/s", "is_last": True}, "next"),
    ],
)
def test_what_a_layout_needs_is_asked_for(
    layout: str, options: dict[str, Any], missing: str
) -> None:
    with pytest.raises(BadLayout, match=missing):
        layout_of(layout, LayoutOptions(**options))


def test_several_packed_znodes_are_not_one_group() -> None:
    with pytest.raises(BadLayout, match="each is a group"):
        read(
            FakeZooKeeper({"/p/a": "0:1", "/p/b": "0:2"}),
            "packed",
            root="/p",
            topic="t",
            group="g",
        )
