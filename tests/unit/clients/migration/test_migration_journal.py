"""The journal: what was begun, what is done, and what a kill leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_clients.migration.migration_journal import (
    BadJournal,
    Journal,
    JournalBusy,
    Step,
    request_id_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_newest_word_on_each_step_of_a_group_is_kept(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with Journal.open(plan, "p") as journal:
        assert journal.latest(Step.RUN, "g") is None
        first = journal.begin(Step.RUN, "g", {"a": [1, None, "ü"]})
        journal.finish(first, {"revision": 7})
        journal.begin(Step.UNDO, "g", None)
        journal.begin(Step.RUN, "h", {"b": 2})
    with Journal.open(plan, "p") as journal:
        run = journal.latest(Step.RUN, "g")
        assert run is not None
        assert (run.attempt, run.is_done, run.details) == (1, True, {"a": [1, None, "ü"]})
        assert run.result == {"revision": 7}
        assert journal.newest_step("g") is Step.UNDO
        other = journal.latest(Step.RUN, "h")
        assert other is not None
        assert (other.attempt, other.is_done, other.details) == (1, False, {"b": 2})
        again = journal.begin(Step.RUN, "g", {})
        assert again.attempt == 2
        latest = journal.latest(Step.RUN, "g")
        assert latest is not None
        assert not latest.is_done  # What the first came to is not what this one did.


def test_the_same_attempt_has_the_same_request_id_and_any_other_another(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "plan", "p") as journal:
        first = journal.begin(Step.RUN, "g", {})
        ids = [request_id_of("p", first), request_id_of("q", first)]
        ids.append(request_id_of("p", journal.begin(Step.RUN, "g", {})))
        ids.append(request_id_of("p", journal.begin(Step.CUTOVER, "g", {})))
        ids.append(request_id_of("p", journal.begin(Step.RUN, "h", {})))
    with Journal.open(tmp_path / "plan", "p") as journal:
        latest = journal.latest(Step.RUN, "h")
        assert latest is not None
        assert request_id_of("p", latest) == ids[-1]
    assert len(set(ids)) == len(ids)
    assert all(len(each.encode()) <= 64 for each in ids)


def test_a_line_that_a_kill_has_torn_is_cut_off(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with Journal.open(plan, "p") as journal:
        journal.begin(Step.RUN, "g", {"a": 1})
        path = journal.path
    whole = path.read_bytes()
    with Journal.open(plan, "p") as journal:
        journal.finish(journal.begin(Step.RUN, "h", {}), None)
    content = path.read_bytes()
    for end in range(len(whole) + 1, len(content)):
        path.write_bytes(content[:end])
        with Journal.open(plan, "p") as journal:
            assert journal.latest(Step.RUN, "g") is not None
            entry = journal.begin(Step.RUN, "i", {"after": end})
        with Journal.open(plan, "p") as journal:
            assert journal.latest(Step.RUN, "i") == entry


def test_damage_before_the_last_line_is_not_passed_over(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with Journal.open(plan, "p") as journal:
        journal.begin(Step.RUN, "g", {"a": 1})
        journal.begin(Step.RUN, "h", {"a": 1})
        path = journal.path
    content = bytearray(path.read_bytes())
    content[content.index(b'"a":1')] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadJournal, match="damaged"):
        Journal.open(plan, "p")


def test_one_process_at_a_time_and_one_plan_has_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with Journal.open(plan, "p"), pytest.raises(JournalBusy):
        Journal.open(plan, "p")
    with pytest.raises(BadJournal, match="another plan"):
        Journal.open(plan, "q")
