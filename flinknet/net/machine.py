"""What this machine must have before an environment starts: memory, open files, and a place for
long records.

Without this look, memory would be missed in the middle of a job, open files when many have
connected, and the place by the first record that needs it.
"""

from __future__ import annotations

import os
from pathlib import Path

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError
from flinknet.net.open_files import provide_open_files

__all__ = ["check_machine"]


def check_machine(config: NetworkConfig, environments: int = 1) -> None:
    """Raise ConfigurationError if this machine cannot hold so many environments side by side."""
    _check_memory(config, environments)
    provide_open_files(config)
    _check_spill_directory(config.spill_directory)


def _check_memory(config: NetworkConfig, environments: int) -> None:
    each = config.network_memory_bytes
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if each * environments > installed:
        workers = f"{environments} workers" if environments > 1 else "a worker"
        raise ConfigurationError(
            f"{workers} with network.network_memory_bytes = {each} each need "
            f"{each * environments} bytes, but this machine has {installed}: use fewer workers "
            "(--workers) or less network memory"
        )


def _check_spill_directory(directory: str) -> None:
    if not directory:
        return
    try:
        usable = Path(directory).is_dir() and os.access(directory, os.W_OK | os.X_OK)
    except ValueError:  # a null byte
        usable = False
    if not usable:
        raise ConfigurationError(
            f"network.spill_directory is {directory!r}, where no file can be made: make that "
            "directory, choose another one, or leave the option empty for the system's own"
        )
