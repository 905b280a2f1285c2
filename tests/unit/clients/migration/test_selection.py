"""Which groups are moved, and under what names."""

from __future__ import annotations

import pytest
from offsetd_clients.migration.selection import BadSelection, Selection, parse_renames


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ((), (), {"billing", "billing-2", "audit"}),
        (("billing.*",), (), {"billing", "billing-2"}),
        (("billing",), (), {"billing"}),  # Whole names.
        ((), ("bill.*",), {"audit"}),
        (("billing.*", "audit"), (".*-2",), {"billing", "audit"}),
    ],
)
def test_patterns_match_whole_names_and_what_is_excluded_is_out(
    include: tuple[str, ...], exclude: tuple[str, ...], taken: set[str]
) -> None:
    groups = Selection(include=include, exclude=exclude)
    topics = Selection(include_topics=include, exclude_topics=exclude)
    names = {"billing", "billing-2", "audit"}
    assert {name for name in names if groups.takes(name)} == taken
    assert {name for name in names if topics.takes_topic(name)} == taken
    assert all(groups.takes_topic(name) and topics.takes(name) for name in names)


def test_a_renaming_is_split_at_its_last_sign() -> None:
    renames = parse_renames(["a=b", "c=d=e", "a=b"])
    assert renames == {"a": "b", "c=d": "e"}
    selection = Selection(renames=renames)
    assert [selection.target(each) for each in ("a", "b", "c=d")] == ["b", "b", "e"]


@pytest.mark.parametrize("texts", [["a"], ["=b"], ["a="], ["a=b", "a=c"]])
def test_what_is_no_renaming_is_named(texts: list[str]) -> None:
    with pytest.raises(BadSelection):
        parse_renames(texts)


def test_what_is_no_pattern_is_named() -> None:
    with pytest.raises(BadSelection, match="regular expression"):
        Selection(include=("(",))


def test_what_is_named_and_not_found_is_told() -> None:
    selection = Selection(
        include=("bill.*", "sales"),
        include_topics=("orders", "clicks"),
        renames={"billing": "b", "biling": "c"},
    )
    assert selection.unmatched({"billing"}, {"orders"}) == [
        "group 'sales'",
        "topic 'clicks'",
        "group 'biling' to rename",
    ]
    assert Selection().unmatched((), ()) == []
