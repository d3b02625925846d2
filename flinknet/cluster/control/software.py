"""The versions that all processes of a cluster, and programs that submit jobs, must share.

Pickled functions fit only the interpreter that made them, and messages only the version of flinknet
that defines them. Python's minor version and flinknet's version are therefore compared when a
worker registers and when a job is submitted.
"""

from __future__ import annotations

import sys

from flinknet.errors import ConfigurationError
from flinknet.version import __version__

__all__ = ["SOFTWARE", "check_software"]

SOFTWARE = f"flinknet {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"
"""The versions of this process."""


def check_software(whose: str, software: str) -> None:
    """Raise ConfigurationError, which names both, unless it is the coordinator's software."""
    if software != SOFTWARE:
        raise ConfigurationError(
            f"{whose} has {software or 'an unknown version of flinknet'}, but this cluster's "
            f"coordinator has {SOFTWARE}: install the same on both sides"
        )
