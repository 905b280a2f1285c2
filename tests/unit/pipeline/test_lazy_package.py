"""offsetd_pipeline: its public names are imported when asked for; without PySpark it says so."""

import os
import subprocess
import sys
from pathlib import Path

import offsetd_pipeline
import pytest
from lazy_packages import looked_up, told_to_types
from offsetd_clients.installation import install_command

MISSING = f"pyspark is not installed: {install_command('spark')}"


def test_a_name_is_imported_from_where_those_who_read_types_find_it() -> None:
    told = told_to_types(offsetd_pipeline)
    assert looked_up(offsetd_pipeline) == told
    assert set(told) == set(offsetd_pipeline.__all__) <= set(dir(offsetd_pipeline))


def test_every_public_name_can_be_imported() -> None:
    for name in offsetd_pipeline.__all__:
        assert getattr(offsetd_pipeline, name).__name__ == name
    with pytest.raises(AttributeError, match="'offsetd_pipeline' has no attribute 'Rewind'"):
        getattr(offsetd_pipeline, "Rewind")  # noqa: B009  Types know that it is not there.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["audit"], 1, "", f"error: {MISSING}\n"),
        (["audit", "--help"], 0, f"Not available: {MISSING}", ""),
        (["--help"], 0, "COMMAND [ARGS]", ""),
    ],
)
def test_without_the_extra_spark_it_says_what_to_install(
    tmp_path: Path, arguments: list[str], code: int, out: str, err: str
) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('None', name='pyspark')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "offsetd_pipeline", *arguments],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, err)
    assert out in " ".join(ended.stdout.split())  # The help is wrapped.
