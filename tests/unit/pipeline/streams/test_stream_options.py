"""What a stream can be told, and what it is told then."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd_pipeline.read_options import Chosen
from offsetd_pipeline.source import OffsetdSource
from offsetd_pipeline.streams.limits import Limit, shares
from offsetd_pipeline.streams.options import StreamOptions
from offsetd_pipeline.streams.positions import Positions

FOLDER = {"path": "x", "mode": "raw"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "x"}, "a stream of a folder has mode history or raw, not current"),
        ({"path": "x", "mode": "groups"}, "history or raw, not groups"),
        ({"server": "h:1", "mode": "raw"}, "a stream of a server has mode history, not raw"),
        ({"mode": "raw"}, "set either `path`"),
        ({**FOLDER, "server": "h:1"}, "set either `path`"),
        ({"paths": '["a", "b"]', "mode": "raw"}, "a stream reads one folder"),
        ({**FOLDER, "max_rows": "1"}, "no option 'max_rows' of a stream: there are columns, "),
        ({**FOLDER, "max_records_per_trigger": "0"}, "max_records_per_trigger is a whole number"),
        ({**FOLDER, "starting_offsets": "first"}, "starting_offsets is earliest, latest or"),
        ({**FOLDER, "starting_offsets": "[1]"}, "starting_offsets is earliest, latest or"),
        ({**FOLDER, "fail_on_data_loss": "maybe"}, "fail_on_data_loss is true or false"),
        ({**FOLDER, "groups": "a", "group_prefix": "b"}, "one of groups and group_prefix"),
        ({**FOLDER, "groups": "[1]"}, "a list is text by comma"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamOptions.of(options)


def test_names_of_options_are_of_any_case_and_lists_by_comma_or_json() -> None:
    found = StreamOptions.of(
        {"Path": "x", "MODE": "History", "groups": '["a,b"]', "topics": "t, u"}
    )
    assert (found.path, found.mode) == ("x", "history")
    assert found.chosen == Chosen(groups=("a,b",), topics=("t", "u"))


def test_a_batch_knows_nothing_of_the_options_of_streams() -> None:
    source = OffsetdSource({**FOLDER, "starting_offsets": "latest"})
    schema = source.schema()
    with pytest.raises(ValueError, match="no option 'starting_offsets'"):
        source.reader(schema)
    source.streamReader(schema)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit(), 100),
        (Limit(records_max=30), 30),
        (Limit(records_min=101), 0),
        (Limit(bytes_max=500), 50),
        (Limit(bytes_max=1), 1),
        (Limit(bytes_max=1000), 100),
        (Limit(records_max=3, bytes_max=500), 3),
    ],
)
def test_a_limit_says_how_many_records(limit: Limit, expected: int) -> None:
    assert limit.records_of(100, 1000) == expected


def test_shares_come_to_what_is_allowed_and_never_to_more_than_there_is() -> None:
    for allowed in range(21):
        taken = shares([1, 0, 12, 7], allowed)
        assert sum(taken) == allowed
        assert all(each <= most for each, most in zip(taken, [1, 0, 12, 7], strict=True))
    assert shares([], 0) == []
    assert shares([0, 0], 0) == [0, 0]


@pytest.mark.parametrize(
    "text", [{"0": "1"}, {"0": -1}, {"0": True}, {"0": 1, "gaps": {"x": 1}}, {"token": "x"}]
)
def test_what_are_no_positions_is_refused(text: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not a log offset of a log partition"):
        Positions.of(text)


def test_the_same_positions_are_the_same_text() -> None:
    text = {"2": 5, "10": 0, "gaps": {"2": 3}}
    assert Positions.of(text).text() == text
    assert list(Positions(offsets={10: 0, 2: 5}).text()) == ["2", "10"]
