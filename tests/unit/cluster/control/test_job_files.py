"""A job's files: their transfer, their place, and refused ones."""

from __future__ import annotations

import asyncio
import importlib
import io
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgpack
import pytest

from flinknet.cluster.control.job_files import (
    FilesInUse,
    JobFile,
    pack_job,
    read_job_files,
    unpack_job,
)
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError

CONFIG = ClusterConfig(job_files_unpacked_bytes_max=100_000, job_files_count_max=10)


@pytest.fixture
def in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesInUse:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return FilesInUse(CONFIG)


def zipped(members: Mapping[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file.getvalue()


def tarred(name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    return file.getvalue()


def damaged(archive: bytes) -> bytes:
    """Return an archive with a first member that cannot be decompressed."""
    begin = 30 + 1  # its header, and a name of one letter
    return archive[:begin] + b"\xff" * 4 + archive[begin + 4 :]


def entries(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def python(name: str, content: bytes) -> JobFile:
    return JobFile("python", name, "", content)


def module(text: str) -> JobFile:
    return python("brought.py", text.encode())


def test_files_travel_in_front_of_the_graph() -> None:
    files = (module("X = 1"), JobFile("archive", "a.zip", "data", b""))
    assert unpack_job(pack_job(files, b"\x80graph")) == (files, b"\x80graph")
    assert pack_job((), b"\x80graph") == b"\x80graph", "a job without files is as it was"
    assert unpack_job(b"\x80graph") == ((), b"\x80graph")


@pytest.mark.parametrize(
    "described",
    [
        b"\xc1",
        1,
        [["python", "a.py", ""]],
        [["Python", "a.py", "", 0]],
        [["python", 1, "", 0]],
        [["python", "a.py", "", "0"]],
        [["python", "a.py", "", -1]],
        [["python", "a.py", "", 5]],
    ],
)
def test_damaged_files_are_refused(described: object) -> None:
    header = described if isinstance(described, bytes) else msgpack.packb(described)
    job = b"flinknet files\n" + len(header).to_bytes(4, "big") + header + b"graph"
    with pytest.raises(ConfigurationError, match="files that come with the job are damaged"):
        unpack_job(job)
    with pytest.raises(ConfigurationError, match="files that come with the job are damaged"):
        unpack_job(job[:17])


def test_a_module_is_importable_while_a_job_uses_it(in_use: FilesInUse, tmp_path: Path) -> None:
    first, second = (module("X = 1"),), (module("X = 2"),)
    path = sys.path.copy()
    in_use.take(first)
    in_use.take(first)
    assert importlib.import_module("brought").X == 1
    in_use.give_back(first)
    assert importlib.import_module("brought").X == 1, "another job of the same file goes on"
    with pytest.raises(ConfigurationError, match="has the module brought, but another file"):
        in_use.take(second)
    in_use.give_back(first)
    with in_use.used(second):
        assert importlib.import_module("brought").X == 2, "nothing of the first is left"
    assert "brought" not in sys.modules
    assert (sys.path, list(tmp_path.iterdir())) == (path, [])


def test_a_wheel_and_a_zip_are_packages(in_use: FilesInUse) -> None:
    members = {"brought_pkg/__init__.py": "from .deep import Y", "brought_pkg/deep.py": "Y = 3"}
    wheel = python("b-1-py3-none-any.whl", zipped({**members, "b-1.dist-info/METADATA": "Name: b"}))
    with in_use.used((wheel,)):
        assert importlib.import_module("brought_pkg").Y == 3


async def test_files_taken_for_a_cancelled_task_are_given_back(
    in_use: FilesInUse,
) -> None:
    """A job may be cancelled while a thread unpacks its files, which the thread does to its end."""
    with in_use._lock:
        taking = asyncio.create_task(in_use.take_in_thread((module("X = 1"),)))
        await asyncio.sleep(0)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
    with in_use.used((module("X = 2"),)):
        assert importlib.import_module("brought").X == 2, "nothing of the first is left"


async def test_files_that_are_given_back_do_not_hold_up_the_event_loop(
    in_use: FilesInUse, tmp_path: Path
) -> None:
    """No file is left even if the call is cancelled meanwhile."""
    files = (JobFile("archive", "a.zip", "data", zipped({"x": "1"})),)
    in_use.take(files)
    with in_use._lock:  # as a thread has it that unpacks for long
        giving_back = asyncio.create_task(in_use.give_back_in_thread(files))
        for _ in range(3):
            await asyncio.sleep(0)
            giving_back.cancel()
        assert not giving_back.done()
        assert entries(tmp_path)
    with pytest.raises(asyncio.CancelledError):
        await giving_back
    assert not entries(tmp_path)


def test_the_last_of_several_members_of_one_name_counts(in_use: FilesInUse) -> None:
    """`tar --append` and `zip --grow` make such archives."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for content in (b"old", b"new"):
            member = tarfile.TarInfo("x")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    files = (JobFile("archive", "a.tar", "data", file.getvalue()),)
    assert (in_use.take(files)["data"] / "x").read_text() == "new"
    in_use.give_back(files)


def test_an_archive_has_a_directory_of_its_name(in_use: FilesInUse) -> None:
    archive = JobFile("archive", "a.zip", "data", zipped({"deep/text": "hello"}))
    assert (in_use.take((archive,))["data"] / "deep" / "text").read_text() == "hello"
    in_use.give_back((archive,))


ZEROS = zipped({"zeros": "0" * 1_000_000})
REFUSED: Mapping[str, tuple[Callable[[], JobFile], str]] = {
    "a bomb": (lambda: JobFile("archive", "a.zip", "a", ZEROS), "job_files_unpacked_bytes_max"),
    "many files": (
        lambda: JobFile("archive", "a.zip", "a", zipped({str(n): "" for n in range(11)})),
        "cluster.job_files_count_max = 10",
    ),
    "a way out": (
        lambda: JobFile("archive", "a.zip", "a", zipped({"../x": ""})),
        "'../x', which leaves its directory",
    ),
    "an absolute path": (lambda: JobFile("archive", "a.tgz", "a", tarred("/x")), "leaves its dir"),
    "a link": (
        lambda: JobFile("archive", "a.tgz", "a", tarred("x", tarfile.SYMTYPE)),
        "neither a file nor a directory",
    ),
    "a device": (lambda: JobFile("archive", "a.tgz", "a", tarred("x", tarfile.CHRTYPE)), "neither"),
    "a module elsewhere": (lambda: python("../x.py", b""), "'../x.py' is not the name of a file"),
    "a file in a file": (
        lambda: JobFile("archive", "a.zip", "a", zipped({"x": "", "x/y": ""})),
        "a.zip cannot be unpacked",
    ),
    "a long name": (
        lambda: JobFile("archive", "a.zip", "a", zipped({"x" * 300: ""})),
        "a.zip cannot be unpacked",
    ),
    "damage": (
        lambda: JobFile("archive", "a.zip", "a", damaged(zipped({"x": "0" * 1000}))),
        "a.zip cannot be unpacked",
    ),
    "no archive": (lambda: python("a.whl", b"hello"), "a.whl cannot be unpacked"),
    "a library": (lambda: python("hypothesis.py", b""), "hypothesis, which is already installed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_harmful_files_are_refused_and_leave_nothing(
    in_use: FilesInUse, tmp_path: Path, what: str
) -> None:
    make, why = REFUSED[what]
    with pytest.raises(ConfigurationError, match=why.replace(".", r"\.")):
        in_use.take((module("X = 1"), make()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("python_files", "archives", "why"),
    [
        (["x.txt"], [], "not a file of Python code"),
        (["/nowhere/x.py"], [], "/nowhere/x.py cannot be read"),
        ([], ["x.rar"], "is not an archive"),
        ([], ["x.zip#.."], "is not the name of a directory"),
        ([], ["x.zip#a/b"], "is not the name of a directory"),
    ],
)
def test_a_path_that_names_no_such_file_is_refused(
    python_files: list[str], archives: list[str], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        read_job_files(python_files, archives)
