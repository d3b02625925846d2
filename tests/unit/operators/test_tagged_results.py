"""Whether there is a tag among results, looked for in C where that is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.operators.tagged_results import has_tags


class Tag:
    """What is looked for."""


class Heir(Tag):
    """What is not."""


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
