"""The directory that a function gets for an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.archives import ARCHIVES, job_archive


def test_an_archive_has_a_directory_or_the_error_says_which_there_are(tmp_path: Path) -> None:
    token = ARCHIVES.set({"data": tmp_path})
    try:
        assert job_archive("data") == tmp_path
        with pytest.raises(ConfigurationError, match="no archive model, only data"):
            job_archive("model")
    finally:
        ARCHIVES.reset(token)
