"""``python -m flinknet.cluster.worker``: the worker process."""

from __future__ import annotations

import sys

from flinknet.cluster.worker.worker import main

sys.exit(main())
