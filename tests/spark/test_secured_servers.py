"""Spark against servers with TLS and rules: by a client certificate, and by a token."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from certificates import Authority
from offsetd_pipeline import OffsetsRejected, UnfinishedWrite, write_offsets
from promised import promised_by
from pyspark.errors import PySparkException
from security.secured_server import ACLS, SecuredFiles
from server_process import ServerProcess
from token_files import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli_calls import Ended
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/spark.md")

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"
BY_CERTIFICATE: Final = "certificate"
BY_TOKEN: Final = "token"
SHORT_S: Final = "1"
"""How long a write that has to fail tries."""


only_by_certificate = pytest.mark.parametrize("secured", [BY_CERTIFICATE], indirect=True)
only_by_token = pytest.mark.parametrize("secured", [BY_TOKEN], indirect=True)


@attrs.frozen
class Secured:
    """A server, and the files of callers, which they show in one way."""

    kind: str
    address: str
    folder: Path
    authority: Authority

    def options(self, name: str, authority: Authority | None = None) -> dict[str, str]:
        """The options of Spark for a caller, with files that are made once."""
        found = {"server": self.address, "tls_ca_file": str(self.folder / "ca.pem")}
        if self.kind == BY_TOKEN:
            return found | {"token_file": str(self.token_file(name))}
        issued = (authority or self.authority).issue(name)
        stem = f"{name}-{'theirs' if authority else 'ours'}"
        for kind, content in (("pem", issued.certificate_pem), ("key", issued.key_pem)):
            (self.folder / f"{stem}.{kind}").write_bytes(content)
        return found | {
            "tls_certificate_file": str(self.folder / f"{stem}.pem"),
            "tls_key_file": str(self.folder / f"{stem}.key"),
        }

    def token_file(self, name: str) -> Path:
        """The file with the caller's token."""
        return self.folder / f"{name}.token"

    def arguments(self, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The arguments of jobs for a caller, whose files are named by the environment."""
        options = self.options(name)
        monkeypatch.setenv("OFFSETD_TLS_CA", options["tls_ca_file"])
        if self.kind == BY_TOKEN:
            return ["--token-file", options["token_file"]]
        monkeypatch.setenv("OFFSETD_TLS_CERTIFICATE", options["tls_certificate_file"])
        monkeypatch.setenv("OFFSETD_TLS_KEY", options["tls_key_file"])
        return []


@contextmanager
def served(kind: str, folder: Path) -> Iterator[Secured]:
    authority = Authority("the authority of the tests")
    files = SecuredFiles(folder, authority)
    (folder / "acls.toml").write_text(ACLS)
    settings: dict[str, Any] = {**files.tls_settings, "security.acl.file": folder / "acls.toml"}
    if kind == BY_TOKEN:
        for name in ("owner", "reader", "nobody"):
            token, _ = TokenFile(folder / "tokens.toml").create(f"User:{name}")
            (folder / f"{name}.token").write_text(f"{token}\n")
        settings["security.tokens.file"] = folder / "tokens.toml"
    else:
        settings |= {
            "ssl.client.auth": "required",
            "ssl.truststore.file": files.truststore,
            "ssl.principal.mapping.rules": r"RULE:^CN=([^,+\\]+)(,.*)?$/$1/,DEFAULT",
        }
    with ServerProcess(folder / "data", settings=settings) as server:
        yield Secured(kind, server.wait_until_serving().address, folder, authority)


@pytest.fixture(scope="module", params=[BY_CERTIFICATE, BY_TOKEN])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    with served(request.param, tmp_path_factory.mktemp(request.param)) as secured:
        yield secured


def offsets(spark: SparkSession, *groups: str) -> DataFrame:
    rows = [(group, "orders", partition, 7) for group in groups for partition in range(3)]
    return spark.createDataFrame(rows, "group string, topic string, partition int, offset long")


def test_offsets_are_written_read_and_streamed(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    options = secured.options("owner")
    table = offsets(spark, "billing", "billing-eu")
    table.write.format("offsetd").options(**options).mode("append").save()
    written = write_offsets(table, secured.address, **without_server(options))
    assert written.offset_count == 6
    for mode, count in (("current", 6), ("history", 12)):
        read = spark.read.format("offsetd").options(**options).option("mode", mode).load()
        assert read.count() == count, mode
    stream = spark.readStream.format("offsetd").options(**options).option("mode", "history").load()
    query = (
        stream.writeStream.format("memory")
        .queryName(f"of_{secured.kind}")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert spark.table(f"of_{secured.kind}").count() == 12


def without_server(options: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name != "server"}


def test_a_job_migrates_and_compares(
    secured: Secured, job: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "offsets.csv").write_text("orders,0,42\norders,1,43\n")
    group = ["--file-group", f"billing-moved-{secured.kind}"]
    arguments = [*secured.arguments("owner", monkeypatch), *group]
    moving = ("migrate", tmp_path / "offsets.csv", "--to", secured.address, "--execute")
    moved = job(*moving, "--state", tmp_path / "state", *arguments)
    assert moved.code == 0, moved.stderr
    told = job("compare", tmp_path / "offsets.csv", secured.address, *arguments).stderr
    assert "2 same" in told

    refused = job(
        *moving, "--state", tmp_path / "other", *secured.arguments("nobody", monkeypatch), *group
    )
    assert refused.code == 1
    assert "User:nobody has no right to DescribeConfigs Cluster" in refused.stderr


def test_a_missing_right_names_itself(spark: SparkSession, secured: Secured) -> None:
    options = secured.options("reader")
    table = offsets(spark, "billing", "hidden")
    with pytest.raises(OffsetsRejected) as raised:
        write_offsets(table, secured.address, **without_server(options))
    assert raised.value.written.reasons == {"GROUP_AUTHORIZATION_FAILED": 6}
    assert "User:reader has no right to Read Group" in str(raised.value)
    named = spark.read.format("offsetd").options(**options).option("groups", "hidden")
    with pytest.raises(PySparkException, match="User:reader has no right to Describe Group hidden"):
        named.load().count()


def test_a_caller_who_is_not_let_in_is_told_why(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    if secured.kind == BY_TOKEN:
        options, told = secured.options("owner"), "AUTHENTICATION_FAILED: the token is not valid"
        unknown = tmp_path / "unknown.token"
        unknown.write_text("offsetd_0123456789abcdef_" + "a" * 43)
        options["token_file"] = str(unknown)
    else:
        options = secured.options("owner", Authority("another authority"))
        told = "does not accept the client's certificate"
    with pytest.raises(UnfinishedWrite, match=told):
        write_offsets(
            offsets(spark, "billing"),
            secured.address,
            retry_timeout_s=SHORT_S,
            **without_server(options),
        )


@only_by_certificate
def test_the_guides_block_reads_with_a_certificate(
    spark: SparkSession, secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = re.findall(r"```python\n(secured = .*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    for name, value in secured.options("owner").items():
        block, count = re.subn(rf'{name}="[^"]*"', f'{name}="{value}"', block)
        assert count == 1
    exec(block, {"spark": spark})
    assert "log_partition" in capsys.readouterr().out


@only_by_token
def test_a_token_is_named_by_its_file_and_never_shown(
    spark: SparkSession, secured: Secured
) -> None:
    secret = secured.token_file("owner").read_text().strip()
    reading = spark.read.format("offsetd").options(server=secured.address)
    with pytest.raises(PySparkException, match=r"there are .*token_file") as raised:
        reading.option("token", secret).load().count()
    assert secret not in str(raised.value)
    table = reading.options(**secured.options("owner")).load()
    plan: Any = table._jdf.queryExecution()
    assert secret not in plan.toString()


@only_by_token
@promised("Each task reads the file of the token when it connects")
def test_a_file_with_a_new_token_counts_for_the_next_batch(
    spark: SparkSession, secured: Secured, tmp_path: Path
) -> None:
    options = secured.options("owner")
    path = tmp_path / "current.token"
    path.write_text("of no one")
    table = spark.read.format("offsetd").options(**options | {"token_file": str(path)}).load()
    with pytest.raises(PySparkException, match="AuthenticationFailed: the token is not valid"):
        table.count()
    path.write_text(secured.token_file("owner").read_text())
    table.count()
