"""``python -m flinknet.cluster.worker``: the worker process."""

from __future__ import annotations

import sys

from flinknet.cluster.worker.worker import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
