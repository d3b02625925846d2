"""The search for a tag among results, with compiled modules in C."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.operators.tagged_results import has_tags


class Tag:
    """The tag type of the search."""


class Heir(Tag):
    """A subclass, which the search does not find."""


TAG = Tag()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (TAG, True),
        ((TAG,), True),
        ((TAG, 1), True),
        ((TAG, 1, 2), True),
        ((), False),
        ((1, TAG), False),
        ([TAG, 1], False),
        (((TAG, 1), 1), False),
        ((Tag, 1), False),
        ((Heir(), 1), False),
        (None, False),
        ("tag", False),
    ],
)
def test_a_tag_stands_first(value: Any, found: bool) -> None:
    others = [1, "text", (1, 2), (), {"a": 1}]
    assert has_tags([*others, value, *others], Tag) is found
    assert not has_tags([], Tag)
