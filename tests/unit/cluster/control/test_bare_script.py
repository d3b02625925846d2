"""A module runs as a script from a package that is installed as files or as an archive."""

from __future__ import annotations

import os
import subprocess

import pytest

from flinknet.cluster.control.bare_script import bare_script
from flinknet.cluster.launch.local import keeper


@pytest.mark.parametrize("is_archive", [False, True])
def test_a_module_is_run_with_its_arguments(
    is_archive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_archive:
        monkeypatch.setattr(keeper, "__file__", "/nowhere.zip/keeper.py")
    reading, report = os.pipe()
    with subprocess.Popen(
        [*bare_script(keeper), str(report), "/bin/sh", "-c", "echo $$; exit 3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[report],
    ) as process:
        os.close(report)
        assert process.stdout is not None
        assert process.stdout.read() == os.read(reading, 32), "the process id of what it runs"
        assert process.wait(60) == 3
    os.close(reading)
