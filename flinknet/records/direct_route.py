"""Direct routes: the routes of ``route.py``, which are faster if compiled.

``direct_route.pyx`` emits a record without creating an object for its bytes. In plain Python this
would only add a call, so the classes here equal their bases.
"""

from __future__ import annotations

from flinknet.records.route import PartitionedRoute, SingleOutputRoute

__all__ = ["DirectPartitionedRoute", "DirectSingleOutputRoute"]


class DirectSingleOutputRoute(SingleOutputRoute):
    """Route of all records to one output."""

    __slots__ = ()


class DirectPartitionedRoute(PartitionedRoute):
    """Route of each record to the output that the partitioner chooses."""

    __slots__ = ()
