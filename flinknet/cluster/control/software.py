"""What all processes of a cluster, and the programs that submit jobs to it, must have alike.

Pickled functions are for the interpreter that made them, and messages for the version of flinknet
that defines them. So Python's minor version and flinknet's version are compared when a worker
registers and when a job is submitted.
"""

from __future__ import annotations

import sys

from flinknet.errors import ConfigurationError
from flinknet.version import __version__

__all__ = ["SOFTWARE", "check_software"]

SOFTWARE = f"flinknet {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"
"""That of this process."""


def check_software(whose: str, software: str) -> None:
    """Raise ConfigurationError, which names both, if it is not that of this coordinator."""
    if software != SOFTWARE:
        raise ConfigurationError(
            f"{whose} has {software or 'an unknown version of flinknet'}, but this cluster's "
            f"coordinator has {SOFTWARE}: install the same on both sides"
        )
