"""``python -m flinknet`` runs the command ``flinknet``."""

from __future__ import annotations

from flinknet.cli.main import main

main()
