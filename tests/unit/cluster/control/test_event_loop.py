"""The event loop of workers."""

from __future__ import annotations

import asyncio
import sys

import pytest
import uvloop

from flinknet.cluster.control.event_loop import loop_factory
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError

AUTO, ASYNCIO = ClusterConfig(), ClusterConfig(event_loop="asyncio")


def test_it_is_uvloop_where_that_is_there() -> None:
    assert loop_factory(AUTO) is uvloop.new_event_loop
    assert loop_factory(ASYNCIO) is asyncio.new_event_loop


def test_without_uvloop_auto_is_asyncio_and_its_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory(AUTO) is asyncio.new_event_loop
    assert loop_factory(ASYNCIO) is asyncio.new_event_loop
    with pytest.raises(ConfigurationError, match=r'event_loop is "uvloop".*pip install uvloop'):
        loop_factory(ClusterConfig(event_loop="uvloop"))
