"""offsetd_pipeline.writing.commit_sender: imports, and what becomes of groups they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from commit_store import failure
from offsetd_clients import GroupNotEmpty, ImportedGroup, InvalidImport, OffsetdError, Unavailable
from offsetd_pipeline.writing import commit_sender
from offsetd_pipeline.writing.columns import WriteMode
from offsetd_pipeline.writing.commit_requests import RequestMaker
from offsetd_pipeline.writing.commit_sender import CommitSender
from offsetd_pipeline.writing.outcome import UnfinishedWrite
from offsetd_pipeline.writing.rejects import Rejects
from offsetd_pipeline.writing.written_groups import GroupedRows
from written_rows import columns_of, packed, tables

COLUMNS = columns_of("metadata", "commit_time", keep_commit_times=True)
TIME = datetime(2026, 1, 2, tzinfo=UTC)


class Imports:
    """Takes files, but for lines with metadata that are too long, of which it names one."""

    def __init__(self, **refusals: OffsetdError) -> None:
        self.files: list[list[dict[str, Any]]] = []
        self._refusals = refusals

    def import_offsets(
        self, content: bytes, _format: object, *, keep_commit_times: bool, request_id: str
    ) -> list[ImportedGroup]:
        assert keep_commit_times
        assert request_id
        lines = [json.loads(line) for line in content.splitlines()]
        for number, line in enumerate(lines, 1):
            if len(line["metadata"] or "") > 3:
                wrong = json.dumps([{"line": number, "problem": "too long"}])
                details = {"lines": wrong}
                raise InvalidImport(failure("INVALID_ARGUMENT", "INVALID_IMPORT", details=details))
        if refusal := self._refusals.get("all"):
            raise refusal
        self.files.append(lines)
        return [
            ImportedGroup(
                group_id=each, offset_count=0, revision=None, error=self._refusals.get(each)
            )
            for each in dict.fromkeys(line["group"] for line in lines)
        ]


def sent(client: Any, *rows: dict[str, Any]) -> tuple[CommitSender, Rejects]:
    rejects = Rejects(COLUMNS.given_schema, None)
    sender = CommitSender(client, RequestMaker("job", WriteMode.OVERWRITE), rejects)
    groups = GroupedRows(tables([packed(COLUMNS, *rows)]))
    sender.import_with_times(groups)
    return sender, rejects


def row(group: str, partition: int = 0, metadata: str | None = None) -> dict[str, Any]:
    return {
        "group": group,
        "partition": partition,
        "offset": 1,
        "metadata": metadata,
        "commit_time": TIME,
    }


def test_groups_with_lines_that_are_wrong_are_rejected_and_the_others_imported() -> None:
    imports = Imports(c=GroupNotEmpty(failure("FAILED_PRECONDITION", "NON_EMPTY_GROUP")))
    rows = [row("a"), row("b"), row("b", 1, "long"), row("b", 2), row("c"), row("d", 0, "longer")]
    sender, rejects = sent(imports, *rows, row("e"))
    assert [[line["group"] for line in file] for file in imports.files] == [["a", "c", "e"]]
    assert (sender.group_count, sender.offset_count) == (2, 2)
    assert rejects.groups == {"b", "c", "d"}
    assert rejects.reasons == {"INVALID_IMPORT": 2, "GROUP_REJECTED": 2, "NON_EMPTY_GROUP": 1}
    told = [(each.group, each.partition, each.message) for each in rejects.first]
    assert told[0] == ("b", 1, "too long")


@pytest.mark.parametrize(("offsets_max", "groups_max"), [(2, 100), (100, 1), (100, 100)])
def test_imports_are_divided_between_groups(
    offsets_max: int, groups_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_sender, "IMPORT_OFFSETS_MAX", offsets_max)
    monkeypatch.setattr(commit_sender, "IMPORT_GROUPS_MAX", groups_max)
    imports = Imports()
    rows = [row(group, partition) for group in "abc" for partition in range(3)]
    sender, _ = sent(imports, *rows)
    assert (sender.group_count, sender.offset_count) == (3, 9)
    assert len(imports.files) == (1 if offsets_max == groups_max else 3)
    for file in imports.files:
        assert all(sum(line["group"] == each["group"] for line in file) == 3 for each in file)


def test_an_import_without_an_answer_ends_the_write() -> None:
    gone = Unavailable(failure("UNAVAILABLE", ""))
    with pytest.raises(UnfinishedWrite, match="2 may be written or not"):
        sent(Imports(all=gone), row("a"), row("b"))


@pytest.mark.parametrize("lines", [[], [{"line": 3, "problem": "of another file"}]])
def test_an_import_that_is_refused_for_no_line_of_its_own_ends_the_write(
    lines: list[dict[str, Any]],
) -> None:
    details = {"lines": json.dumps(lines)}
    refused = InvalidImport(failure("INVALID_ARGUMENT", "INVALID_IMPORT", details=details))
    with pytest.raises(UnfinishedWrite, match="INVALID_IMPORT"):
        sent(Imports(all=refused), row("a"), row("b"))
