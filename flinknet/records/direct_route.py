"""The most direct routes: those of ``route.py``, but where they are compiled.

``direct_route.pyx`` emits without an object for the record's bytes. In plain Python that would be
the same with one call more, so there is no form of it.
"""

from __future__ import annotations

from flinknet.records.route import RouteToChosen, RouteToOne

__all__ = ["DirectRouteToChosen", "DirectRouteToOne"]


class DirectRouteToOne(RouteToOne):
    """Every record to the same output."""

    __slots__ = ()


class DirectRouteToChosen(RouteToChosen):
    """Each record to the output that the partitioner chooses for it."""

    __slots__ = ()
