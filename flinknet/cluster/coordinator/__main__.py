"""``python -m flinknet.cluster.coordinator``: the coordinator process."""

from __future__ import annotations

import sys

from flinknet.cluster.coordinator.coordinator import main

sys.exit(main())
