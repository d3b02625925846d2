"""The table of a life cycle."""

from __future__ import annotations

from enum import Enum

import pytest

from flinknet.transitions import Transitions


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"


class Act(Enum):
    PUSH = "push"
    PULL = "pull"


TABLE = Transitions({(Door.OPEN, Act.PULL): Door.SHUT, (Door.SHUT, Act.PUSH): Door.OPEN})


def test_a_legal_pair_leads_to_a_state() -> None:
    assert TABLE[Door.OPEN, Act.PULL] is Door.SHUT


def test_an_event_that_is_not_in_the_table_is_refused_and_not_added() -> None:
    with pytest.raises(AssertionError, match=r"Act\.PUSH must not happen in Door\.OPEN"):
        TABLE[Door.OPEN, Act.PUSH]
    assert len(TABLE) == 2
