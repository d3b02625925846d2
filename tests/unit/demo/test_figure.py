"""The figure of a result."""

from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from flinknet.demo.figure import DOTS_PER_INCH, HEIGHT_INCHES, WIDTH_INCHES, draw
from tests.unit.demo.results import result


@pytest.mark.parametrize(("keyed", "sources"), [(4, 4), (16, 3)])
def test_the_figure_is_a_picture_of_the_declared_size(
    tmp_path: Path, keyed: int, sources: int
) -> None:
    draw(result(tmp_path, keyed=keyed, sources=sources), tmp_path / "result.png")
    picture = matplotlib.image.imread(tmp_path / "result.png")
    assert picture.shape[:2] == (HEIGHT_INCHES * DOTS_PER_INCH, WIDTH_INCHES * DOTS_PER_INCH)
    colours = (picture * 255).astype(np.uint8).view(np.uint32)  # four bytes each
    assert len(np.unique(colours)) > 100
