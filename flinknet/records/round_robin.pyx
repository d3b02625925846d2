# cython: binding=False
"""See ``round_robin.py``."""

cimport cython

from functools import partial

__all__ = ["round_robin"]


@cython.final
cdef class RoundRobin:
    """Counter from 0 to ``channels - 1``, which then begins again; ``channels`` is at least 1."""

    def __init__(self, Py_ssize_t channels, Py_ssize_t first):
        if not 0 <= first < channels:
            raise ValueError(f"there is no channel {first} of {channels}")
        self._channels = channels
        self._next = first

    def __iter__(self):
        return self

    def __next__(self):
        return take_turn(self)


cdef RoundRobin turns_behind(select):
    """Return the iterator that a partitioner's ``select`` advances; None for any other function."""
    if type(select) is not partial or select.func is not next or select.keywords:
        return None
    turns = select.args[0] if len(select.args) == 1 else None
    return turns if type(turns) is RoundRobin else None


def round_robin(channels, first):
    return RoundRobin(channels, first)
