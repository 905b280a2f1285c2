"""The programs of docs/examples, run as a reader would run them."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import Bounds, OffsetClient, TopicPartition
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 60
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 100}
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=settings) as process:
        yield process.wait_until_serving()
        process.stop_well()


class Program:
    """One of the examples, which prints into files."""

    def __init__(self, name: str, *arguments: object, address: str, output: Path) -> None:
        self._output, self._errors = output, output.with_suffix(".errors")
        with self._output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, EXAMPLES / name, *map(str, arguments)],
                env=os.environ | {"OFFSETD_ADDRESS": address},
                stdout=out,
                stderr=errors,
            )

    def lines(self) -> list[str]:
        """What it has printed."""
        return [each for each in self._output.read_text().splitlines(keepends=True) if "\n" in each]

    def errors(self) -> str:
        """What it has said beside that."""
        return self._errors.read_text()

    def stop(self) -> None:
        """As an operator does. Fails unless it ends well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0, self.errors()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for each in started:
        each.process.kill()
        each.process.wait(WAIT_S)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An example as a module."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_three_workers_tail_a_folder(
    server: ServerProcess, client: OffsetClient, tmp_path: Path, programs: list[Program]
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for name in ("a", "b", "c", "d", "e", "f"):
        (folder / f"{name}.jsonl").write_text('{"number": 1}\nno JSON\n{"number": 2}\n{"num')
    programs += [
        Program("tail_jsonl.py", folder, address=server.address, output=tmp_path / f"worker-{each}")
        for each in range(3)
    ]

    def printed() -> set[str]:
        return {line for program in programs for line in program.lines()}

    poll(lambda: len(printed()) == 12, WAIT_S)
    poll(lambda: len(client.get_group("tail").members) == 3, WAIT_S)
    with (folder / "a.jsonl").open("a") as file:
        file.write('ber": 3}\n')
    (folder / "late.jsonl").write_text('{"number": 4}\n')
    poll(lambda: len(printed()) == 14, WAIT_S)
    assert {line for line in printed() if line[0] in "al"} == {
        'a.jsonl@0 {"number": 1}\n',
        'a.jsonl@22 {"number": 2}\n',
        'a.jsonl@36 {"number": 3}\n',
        'late.jsonl@0 {"number": 4}\n',
    }
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    whole = {name: size - (5 if size == 41 else 0) for name, size in sizes.items()}
    poll(
        lambda: {k.topic: v.offset for k, v in client.fetch("tail").items()} == whole,
        WAIT_S,
        (whole, client.fetch("tail")),
    )
    for program in programs:
        program.stop()
    assert sum(program.errors().count("is passed over") for program in programs) >= 6


def test_objects_are_consumed_by_one_who_holds_the_lease(
    server: ServerProcess, client: OffsetClient, tmp_path: Path, programs: list[Program]
) -> None:
    bucket = tmp_path / "bucket"
    for topic, partition, number in (("clicks", 0, 5), ("clicks", 1, 0), ("views", 0, 7)):
        put(bucket, topic, partition, number)
    for holder in ("first", "second"):
        programs.append(
            Program(
                "object_store.py",
                bucket,
                "objects",
                holder,
                address=server.address,
                output=tmp_path / holder,
            )
        )
        if holder == "first":
            poll(lambda: len(programs[0].lines()) == 3, WAIT_S, programs[0].errors())
    assert sorted(programs[0].lines()) == ["clicks:0 5 7\n", "clicks:1 0 7\n", "views:0 7 7\n"]
    put(bucket, "clicks", 0, 9)
    poll(lambda: "clicks:0 9 7\n" in programs[0].lines(), WAIT_S)
    assert programs[1].lines() == []
    programs[0].stop()
    assert "bytes: " in programs[0].errors()
    put(bucket, "views", 0, 8)
    poll(lambda: "views:0 8 7\n" in programs[1].lines(), WAIT_S)
    programs[1].stop()
    assert {str(k): v.offset for k, v in client.fetch("objects").items()} == {
        "clicks:0": 10,
        "clicks:1": 1,
        "views:0": 9,
    }


def put(bucket: Path, topic: str, partition: int, number: int) -> None:
    path = bucket / topic / str(partition) / f"{number:020}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("content")


class Bucket:
    """What boto3's client answers, page by page."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = sorted(keys)

    def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
        assert asked["Bucket"] == "mine"
        prefix = asked["Prefix"]
        keys = [key for key in self._keys if key.startswith(prefix)]
        if "Delimiter" in asked:
            after = asked.get("ContinuationToken", "")
            found = sorted({prefix + key[len(prefix) :].split("/")[0] + "/" for key in keys})
            page = [each for each in found if each > after][:1]  # One a page.
            return {
                "CommonPrefixes": [{"Prefix": each} for each in page],
                "IsTruncated": bool(page) and page[-1] != found[-1],
                "NextContinuationToken": page[-1] if page else "",
            }
        found = [key for key in keys if key > asked["StartAfter"]][: asked["MaxKeys"]]
        return {"Contents": [{"Key": key} for key in found]}

    def get_object(self, **asked: Any) -> dict[str, Any]:
        return {"Body": io.BytesIO(json.dumps(asked["Key"]).encode())}


@pytest.mark.parametrize("name", ["tail_jsonl.py", "object_store.py"])
def test_a_program_says_how_it_is_called(name: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )

    helped = run("--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith(f"usage: {name} ")
    for arguments, why in (
        ((), "the following arguments are required: "),
        ((str(tmp_path / "none"), "group"), f"{tmp_path / 'none'} is not a folder\n"),
    ):
        refused = run(*arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("usage: ")
        assert f"{name}: error: {why}" in refused.stderr


def test_a_bucket_is_read_like_a_folder(example: Any) -> None:
    object_store = example("object_store")
    keys = [
        f"{topic}/{each}/{number:020}" for topic in "ab" for each in (0, 1) for number in (3, 8)
    ]
    source = object_store.Objects(object_store.S3Store(Bucket(keys), "mine"))
    where = TopicPartition("a", 1)

    async def main() -> None:
        assert await source.partition_counts() == {"a": 2, "b": 2}
        assert await source.bounds(where) == Bounds(earliest=3)
        items = await source.read(where, 0, 10)
        assert [(each.offset, each.offset_next) for each in items] == [(3, 4), (8, 9)]
        assert [each.offset for each in await source.read(where, 4, 10)] == [8]
        assert await source.read(where, 9, 10) == []
        assert json.loads(items[0].value) == keys[2]

    asyncio.run(main())


def test_a_file_that_became_shorter_is_an_error(example: Any, tmp_path: Path) -> None:
    source = example("tail_jsonl").JsonlFolder(tmp_path)
    (tmp_path / "a.jsonl").write_text("{}\n")
    where = TopicPartition("a.jsonl", 0)
    assert [each.offset_next for each in source.read(where, 0, 10)] == [3]
    assert source.bounds(where) == Bounds(0, 3)
    with pytest.raises(RuntimeError, match="shorter"):
        list(source.read(where, 4, 10))
    assert list(source.read(TopicPartition("gone.jsonl", 0), 4, 10)) == []
