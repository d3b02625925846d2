"""Where temporary files are, if there is such a place: a container may have none."""

from __future__ import annotations

import tempfile

from flinknet.errors import ConfigurationError

__all__ = ["temporary_directory"]


def temporary_directory() -> str:
    """Return the system's directory for temporary files; ConfigurationError if none can be
    written."""
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"there is no directory for temporary files ({error.strerror}): name one that this "
            "user may write in the environment variable TMPDIR"
        ) from error
