from __future__ import annotations

import pytest

from flinknet.buffer import segment as module
from flinknet.buffer.segment import MemorySegment
from flinknet.interpreter import COMPILES_PYTHON


@pytest.fixture(params=["CPython's", "PyPy's"], autouse=True)
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of memory, whoever runs the tests."""
    kind: str = request.param
    monkeypatch.setattr(module, "COMPILES_PYTHON", kind == "PyPy's")
    return kind


def test_writing_starts_at_the_first_byte_each_time() -> None:
    segment = MemorySegment(8)
    segment.writer()(b"old old!")
    write = segment.writer()
    write(b"ne")
    write(b"w")
    assert bytes(segment.view(3)) == b"new"
    assert bytes(segment.view(8)) == b"new old!"


def test_a_segment_has_all_its_memory_from_the_start() -> None:
    segment = MemorySegment(100)
    assert segment.capacity == 100
    assert len(segment.view(100)) == 100


def test_a_view_of_a_segment_is_its_memory() -> None:
    segment = MemorySegment(8)
    view = segment.view(4)
    view[:] = b"read"
    view.release()
    assert bytes(segment.view(4)) == b"read"


@pytest.mark.skipif(COMPILES_PYTHON, reason="PyPy's BytesIO does not know its views")
def test_writing_under_a_view_is_found_at_once(memory: str) -> None:
    """A segment that was recycled too early never sends somebody else's bytes."""
    segment = MemorySegment(8)
    segment.writer()(b"sending!")
    view = segment.view(8)
    assert segment.may_be_viewed
    if memory == "PyPy's":
        assert not segment.is_locked
    else:
        assert segment.is_locked
        with pytest.raises(BufferError):
            segment.writer()(b"next")
        assert bytes(view) == b"sending!"
    view.release()
    assert not segment.is_locked
    assert segment.may_be_viewed == (memory == "PyPy's"), "which is safe, and cannot be known"
    segment.writer()(b"next")
    assert bytes(segment.view(4)) == b"next"


def test_renewed_memory_leaves_the_old_to_its_viewer() -> None:
    segment = MemorySegment(8)
    segment.writer()(b"sending!")
    view = segment.view(8)
    segment.renew()
    segment.writer()(b"next")
    assert bytes(view) == b"sending!"
    assert bytes(segment.view(4)) == b"next"
