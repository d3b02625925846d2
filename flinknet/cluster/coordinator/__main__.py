"""Run the coordinator process: ``python -m flinknet.cluster.coordinator``."""

from __future__ import annotations

import sys

from flinknet.cluster.coordinator.serving import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
