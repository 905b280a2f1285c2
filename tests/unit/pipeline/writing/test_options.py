"""offsetd_pipeline.writing.options and offsetd_pipeline.server_options: what can be said."""

from __future__ import annotations

import pytest
from offsetd_clients import InsecureToken
from offsetd_pipeline.writing.columns import WriteMode
from offsetd_pipeline.writing.options import OnError, WriteOptions


def test_options_have_their_defaults_and_names_without_case() -> None:
    found = WriteOptions.of({"Server": "h:1", "checkpointLocation": "somewhere", "path": ""})
    assert (found.server.server, found.write_mode, found.on_error) == (
        "h:1",
        WriteMode.OVERWRITE,
        OnError.FAIL,
    )
    assert found.named() != found.named()
    assert WriteOptions.of({"server": "h:1", "job_id": "nightly-1"}).named() == "nightly-1"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "no option was given"),
        ({"server": "h:1", "mode": "current"}, "no option 'mode'"),
        ({"server": "h:1", "path": "x"}, "not to a folder"),
        ({"server": "h:1", "write_mode": "upsert"}, "write_mode is one of overwrite, compare"),
        ({"server": "h:1", "on_error": "skip"}, "on_error is one of fail, collect"),
        ({"server": "h:1", "on_error": "collect"}, "needs rejects"),
        ({"server": "h:1", "job_id": "a/b"}, "job_id is"),
        ({"server": "h:1", "keep_commit_times": "perhaps"}, "true or false"),
        ({"server": "h:1", "retry_timeout_s": "0"}, "retry_timeout_s is seconds"),
        ({"server": "h:1", "retry_timeout_s": "soon"}, "retry_timeout_s is seconds"),
        ({"server": "h:1", "tls": "2"}, "tls is true or false"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        WriteOptions.of(options)


def test_a_token_of_a_file_is_not_sent_without_tls(tmp_path: pytest.TempPathFactory) -> None:
    token = tmp_path / "token"  # type: ignore[operator]
    token.write_text("secret\n")
    options = WriteOptions.of({"server": "elsewhere:1", "token_file": str(token)})
    with pytest.raises(InsecureToken):
        options.server.client()
    with pytest.raises(FileNotFoundError):
        WriteOptions.of({"server": "h:1", "tls_ca_file": f"{token}.none"}).server.client()
