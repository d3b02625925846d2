"""Messages between a job's sink and its program."""

from __future__ import annotations

import io

from flinknet.graph.record_frames import frame, read_frame


def test_messages_come_as_they_were_sent() -> None:
    file = io.BytesIO(frame("records", [1, ("two", None)]) + frame("end"))
    assert read_frame(file) == ("records", [1, ("two", None)])
    assert read_frame(file) == ("end",)
    assert read_frame(file) is None


def test_a_truncated_frame_is_no_frame() -> None:
    whole = frame("records", [1, 2, 3])
    for length in range(len(whole)):
        assert read_frame(io.BytesIO(whole[:length])) is None


def test_objects_that_pickle_refuses_are_sent_by_value() -> None:
    message = read_frame(io.BytesIO(frame("records", [lambda number: number + 1])))
    assert message is not None
    assert message[1][0](2) == 3
