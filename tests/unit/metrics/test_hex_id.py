"""Ids computed from names."""

from __future__ import annotations

import re

from flinknet.metrics.hex_id import hex_id


def test_an_id_has_32_digits_and_follows_from_the_name() -> None:
    assert re.fullmatch("[0-9a-f]{32}", hex_id("map"))
    assert hex_id("map") == hex_id("map") != hex_id("Map")


def test_a_name_that_is_not_unicode_has_one_too() -> None:
    assert len(hex_id("\ud800")) == 32
