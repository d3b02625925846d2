"""A client's view of a job."""

from __future__ import annotations

from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.runtime.subtask import SubtaskResult
from tests.unit.cluster.graphs import keyed_graph


class NeverShown:
    """A record that must not be converted to text."""

    def __repr__(self) -> str:
        raise AssertionError("a collected record was turned into text")


def test_the_text_of_a_result_counts_its_records_and_shows_none() -> None:
    """asyncio makes such texts of the results of tasks, for its log."""
    collected = {"out": [NeverShown()] * 3}
    result = JobResult("0815", "flights", "FINISHED", 1.5, ("worker-0",), ({},), collected)
    assert repr(result) == (
        "<JobResult 'flights' 0815 FINISHED after 1.50 s, 1 subtasks, collected {'out': 3}>"
    )
    assert "records_in=1" in repr(SubtaskResult(1, 1, 1, 1, 1, 1, 1, collected, {}))


def test_the_text_of_a_submission_leaves_out_the_graph() -> None:
    submission = Submission.of_graph(keyed_graph(records=[("key", "x" * 100_000)]))
    assert len(repr(submission)) < 10_000
