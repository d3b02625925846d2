"""Programs in the README and in ``docs/`` that need more of a test than a comparison of output.

``integration/test_readme.py`` and ``integration/test_embedding.py`` run them. The programs on all
other pages, each with its output behind it, run in ``integration/test_docs.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / page
        for page in (
            "how-to/run-jobs.md",
            "how-to/recovery.md",
            "how-to/streams.md",
            "how-to/embed.md",
            "how-to/monitoring.md",
            "reference/records.md",
        )
    ),
]
BLOCKS: list[str] = [
    block
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
]
NAMED = re.compile(r"# (\w+\.py)\n")
PROGRAMS = {named[1]: block for block in BLOCKS if (named := NAMED.match(block))}
FRAGMENTS = [block for block in BLOCKS if not NAMED.match(block)]
