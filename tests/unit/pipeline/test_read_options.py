"""What the options of a batch reader may be."""

from __future__ import annotations

import pytest
from offsetd_pipeline.read_options import Chosen, ReadOptions


def test_groups_and_topics_are_chosen_by_comma_or_json() -> None:
    found = ReadOptions.of({"path": "x", "Groups": "a, b", "topics": '["t,u"]'})
    assert found.chosen == Chosen(groups=("a", "b"), topics=("t,u",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "a", "group_prefix": "b"}, "one of groups and group_prefix"),
        ({"mode": "groups", "topics": "t"}, "mode groups has no topics"),
        ({"mode": "damage", "topics": "t"}, "mode damage has no topics"),
        ({"mode": "damage", "groups": "a"}, "mode damage has no groups"),
        ({"mode": "damage", "group_prefix": "a"}, "mode damage has no groups"),
        ({"group": "a"}, "no option 'group': there are columns, group_prefix, groups, mode"),
    ],
)
def test_a_choice_that_a_table_does_not_have_is_refused(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ReadOptions.of({"path": "x", **options})


@pytest.mark.parametrize("text", ["[group", '["group"', "[1]"])
def test_a_list_that_is_none_is_shown(text: str) -> None:
    with pytest.raises(ValueError, match="a list is text by comma, or in JSON, not"):
        ReadOptions.of({"path": "x", "columns": text})
