"""``python -m bench``. Measured processes import this module too, so it imports nothing else."""

from __future__ import annotations

if __name__ == "__main__":
    from bench.cli import main

    main()
