"""Java programs: their jars from Maven Central, kept in the cache folder."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

JAVA_VERSION_MIN = 17
DOWNLOAD_S_MAX = 600

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>offsetd</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """
    <dependency>
      <groupId>{0}</groupId>
      <artifactId>{1}</artifactId>
      <version>{2}</version>{3}
    </dependency>"""
# Of all that an artifact needs.
_EXCLUSIONS = """
      <exclusions>
        <exclusion>
          <groupId>*</groupId>
          <artifactId>*</artifactId>
        </exclusion>
      </exclusions>"""


class JavaUnavailable(Exception):
    """No such program can be run here; says why."""


def fetched_jars(
    name: str,
    artifacts: tuple[str, ...],
    *,
    files: Mapping[str, str] | None = None,
    with_dependencies: bool = True,
) -> Path:
    """The folder with the jars of `group:artifact:version`, and with `files`, by name.

    They are fetched unless they are there, with what they need or, where that may come from
    repositories other than Maven Central, alone. Raises JavaUnavailable.
    """
    check_java()
    jars = jars_folder(name)
    cache = jars.parent
    if jars.is_dir():
        return jars
    if shutil.which("mvn") is None:
        raise JavaUnavailable(f"no Maven (mvn) to fetch {name} with")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        download = Path(folder)
        left_out = "" if with_dependencies else _EXCLUSIONS
        dependencies = "".join(_DEPENDENCY.format(*each.split(":"), left_out) for each in artifacts)
        (download / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"],
            cwd=download,
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_S_MAX,
            check=False,
        )
        if fetched.returncode != 0:
            reason = " ".join(fetched.stdout.split())[-300:]
            raise JavaUnavailable(f"Maven cannot fetch {name}: {reason}")
        for file, content in (files or {}).items():
            (download / "jars" / file).write_text(content)
        try:
            (download / "jars").rename(jars)
        except OSError:
            if not jars.is_dir():  # Another run may have been quicker.
                raise
    return jars


def jars_folder(name: str) -> Path:
    """Where the jars are once they were fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsetd" / name


def check_java() -> None:
    """Raises JavaUnavailable unless there is a Java that is new enough."""
    if shutil.which("java") is None:
        raise JavaUnavailable("no Java")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        first_line = told.partition("\n")[0]
        raise JavaUnavailable(f"Java is older than {JAVA_VERSION_MIN}: {first_line}")
