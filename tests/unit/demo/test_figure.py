"""The figure of a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from flinknet.demo.figure import DOTS_PER_INCH, HEIGHT_INCHES, MUTED, WIDTH_INCHES, draw
from tests.unit.demo.results import result


@pytest.mark.parametrize(("keyed", "sources"), [(4, 4), (16, 3)])
def test_the_figure_is_a_picture_of_the_declared_size(
    tmp_path: Path, keyed: int, sources: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    draw(result(tmp_path, keyed=keyed, sources=sources), tmp_path / "result.png")
    *_, latency, load = figures[0].axes
    for text in (*latency.texts, *load.texts[-keyed:]):
        assert text.get_zorder() > 2  # lines
        assert text.get_bbox_patch() is not None or text.get_color() == MUTED, text.get_text()
    picture = matplotlib.image.imread(tmp_path / "result.png")
    assert picture.shape[:2] == (HEIGHT_INCHES * DOTS_PER_INCH, WIDTH_INCHES * DOTS_PER_INCH)
    colours = (picture * 255).astype(np.uint8).view(np.uint32)  # four bytes each
    assert len(np.unique(colours)) > 100
