"""What a text names: kinds are found by looking, and what could be two things is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from offsetd_pipeline.archive.manifests import MANIFESTS
from offsetd_pipeline.offset_sources.source_kind import SourceKind
from offsetd_pipeline.offset_sources.source_names import BadSource, named_source

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "offsets.csv": b"billing,orders,0,42\n",
    "one-group.csv": b"orders,0,42\norders,1,7\n",
    "quoted.csv": b'"a,b",orders,0,42\n',
    "rpk.txt": b"\norders 0 42\r\norders 1 5\n",
    "saved.json": b'{"groupid": "billing", "offsets": {"orders": {"0": 42}}}',
    "pretty.json": b'{\n  "groupid": "billing",\n  "offsets": {}\n}\n',
    "ours.jsonl": b'\xef\xbb\xbf{"group":"g","topic":"t","partition":0,"offset":1}\n',
    "zk": b"/consumers/billing/offsets/orders/0:42\n/kafka/consumers/g/offsets/t/1:7\n",
    "marked-zk": b"\xef\xbb\xbf/consumers/billing/offsets/orders/0:42\r\n",
    "bad-first.jsonl": b'{"group":"g","top\n{"group":"g","topic":"t","partition":0,"offset":1}\n'
    b'{"group":"g","topic":"t","partition":1,"offset":1}\n',
    "some-bad.csv": b"billing,orders,0,42\n" * 3 + b"what is this\n",
    "neither": b"what is this\n",
    "half": b"orders,0,42\n" * 2 + b"orders 0 42\n" * 2,
    "empty": b"\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    pq.write_table(pa.table({"group": ["g"]}), tmp_path / "table")
    (tmp_path / "data" / "__consumer_offsets-3").mkdir(parents=True)
    (tmp_path / "data" / "meta.properties").touch()
    (tmp_path / "archive" / MANIFESTS).mkdir(parents=True)
    (tmp_path / "parts").mkdir()
    for number in (1, 2):
        (tmp_path / "parts" / f"{number}").write_bytes(FILES["offsets.csv"])
    (tmp_path / "parts" / "_SUCCESS").touch()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a").write_bytes(FILES["offsets.csv"])
    (tmp_path / "mixed" / "b").write_bytes(FILES["zk"])
    (tmp_path / "nothing").mkdir()
    (tmp_path / "host:7171").write_bytes(FILES["offsets.csv"])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("offsets.csv", SourceKind.KAFKA_CSV),
        ("one-group.csv", SourceKind.KAFKA_CSV),
        ("quoted.csv", SourceKind.KAFKA_CSV),
        ("some-bad.csv", SourceKind.KAFKA_CSV),
        ("rpk.txt", SourceKind.RPK),
        ("saved.json", SourceKind.KAFKA_UTILS),
        ("pretty.json", SourceKind.KAFKA_UTILS),
        ("ours.jsonl", SourceKind.JSONL),
        ("bad-first.jsonl", SourceKind.JSONL),
        ("zk", SourceKind.ZOOKEEPER),
        ("marked-zk", SourceKind.ZOOKEEPER),
        ("table", SourceKind.PARQUET),
        ("data", SourceKind.FOLDER),
        ("archive", SourceKind.ARCHIVE),
        ("parts", SourceKind.KAFKA_CSV),
    ],
)
def test_the_kind_is_found_by_looking(folder: Path, name: str, kind: SourceKind) -> None:
    found = named_source(str(folder / name))
    assert (found.kind, found.places) == (kind, (str(folder / name),))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("absent", "is not there, and no HOST:PORT"),
        ("neither", "no file of offsets that is known: if it is one, say KIND:"),
        ("half", "no file of offsets that is known"),
        ("empty", "has no lines"),
        ("mixed", "several kinds: kafka-csv, zookeeper-file"),
        ("nothing", "has no files"),
        ("offsets.csv,{}/zk", "several kinds"),
        ("offsets.csv,", "names no place"),
    ],
)
def test_what_names_no_source_or_two_says_so(folder: Path, name: str, what: str) -> None:
    with pytest.raises(BadSource, match=what):
        named_source(f"{folder}/{name}".format(folder))


def test_a_server_is_an_address_that_is_no_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(named_source("localhost:7171")) == "server:localhost:7171"
    assert str(named_source("server:localhost:7171")) == "server:localhost:7171"
    monkeypatch.chdir(folder)
    with pytest.raises(BadSource, match="may be a server"):
        named_source("host:7171")
    assert named_source("./host:7171").kind is SourceKind.KAFKA_CSV
    assert named_source("server:host:7171").kind is SourceKind.SERVER


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("server:localhost", "HOST:PORT"),
        ("localhost:99999", "HOST:PORT"),
        ("server:a:1,b:2", "several servers"),
        ("s3a://bucket/x", "say folder:s3a://bucket/x or"),
        ("kafka-csv:", "names no place"),
    ],
)
def test_a_wrong_text_says_what_can_be(text: str, what: str) -> None:
    with pytest.raises(BadSource, match=what):
        named_source(text)


def test_a_kind_that_is_said_is_not_looked_for(folder: Path) -> None:
    said = named_source(f"rpk:{folder}/offsets.csv")
    assert said.kind is SourceKind.RPK
    several = named_source(f"folder:{folder}/data,{folder}/other")
    assert several.places == (f"{folder}/data", f"{folder}/other")


def test_a_comma_may_be_part_of_a_path_that_is_there(folder: Path) -> None:
    path = folder / "a,b"
    path.write_bytes(FILES["offsets.csv"])
    assert named_source(str(path)).places == (str(path),)
