"""Flink's jars and the compiled job: fetched and built once, kept in the user's cache directory.

The jars come from the source distribution of the PyPI package ``apache-flink-libraries``, 230 MB.
pip downloads it, so any index that pip is configured for will do. Only the runtime and its logging
are kept. The job is compiled again when its source changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from bench.errors import UnavailableError

__all__ = ["FLINK_VERSION", "Installation", "install"]

FLINK_VERSION = "1.20.3"
PACKAGE = f"apache-flink-libraries=={FLINK_VERSION}"
JARS = ("flink-dist", "log4j")
SOURCES = sorted(Path(__file__).parent.glob("*.java"))


@dataclass(frozen=True, slots=True)
class Installation:
    """The paths of the Java runtime, the jars and the compiled job."""

    java: str
    java_version: str
    class_path: str


def install() -> Installation:
    """Install Flink if necessary. Raises UnavailableError that says which part is missing."""
    java, javac = _jdk_tool("java"), _jdk_tool("javac")
    jars = _cache() / "lib"
    if not jars.is_dir():
        _fetch_jars(jars)
    class_path = str(jars / "*")
    classes = _cache() / f"classes-{_fingerprint()}"
    if not classes.is_dir():
        _compile(javac, class_path, classes)
    return Installation(java, _java_version(java), f"{classes}{os.pathsep}{class_path}")


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "flinknet-bench" / f"flink-{FLINK_VERSION}"


def _jdk_tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if path is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise UnavailableError(
            f"there is no {name} {where}: install a JDK, 11 or 17 "
            "(Debian: apt-get install openjdk-17-jdk-headless)"
        )
    return path


def _java_version(java: str) -> str:
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return printed.split('"')[1]


def _fetch_jars(target: Path) -> None:
    """Put the jars into ``target``, all of them or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
        _run(
            [*pip, "--no-deps", "--no-binary", ":all:", "--dest", directory, PACKAGE],
            f"pip cannot download {PACKAGE}",
        )
        jars = Path(directory) / "lib"
        jars.mkdir()
        with tarfile.open(next(Path(directory).glob("*.tar.gz"))) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.parts[1:3] == ("deps", "lib") and path.name.startswith(JARS):
                    content = archive.extractfile(member)
                    assert content is not None
                    with (jars / path.name).open("wb") as jar:
                        shutil.copyfileobj(content, jar)
        _put(jars, target)


def _put(made: Path, target: Path) -> None:
    """Rename a directory, unless another process has made the same one meanwhile."""
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _compile(javac: str, class_path: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        classes = Path(directory) / "classes"
        _run(
            [javac, "-nowarn", "-d", str(classes), "-cp", class_path, *map(str, SOURCES)],
            "javac cannot compile the Flink job",
        )
        _put(classes, target)


def _fingerprint() -> str:
    return sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:12]


def _run(command: list[str], complaint: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise UnavailableError(f"{complaint}:\n{result.stderr.strip()}")
