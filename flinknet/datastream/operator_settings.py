"""Settings of one operator, on its stream or on a sink, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.config import BufferTimeout, check_buffer_timeout
from flinknet.errors import ConfigurationError
from flinknet.graph.graph import MAX_PARALLELISM
from flinknet.graph.transformation import ChainingStrategy, Transformation

__all__ = ["OperatorSettings", "checked_parallelism"]


class OperatorSettings(PyFlinkNames, ABC):
    """The settings of the operator that made a stream, or of a sink; each setter returns self."""

    @abstractmethod
    def _operator(self, method: str) -> Transformation:
        """Return the operator that ``method`` applies to.

        Raises ConfigurationError if there is no single one.
        """

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._with_source("get_name")[0].name

    def name(self, name: str) -> Self:
        """Name the operator; errors, metrics and collected results use the name."""
        self._with_source("name")[0].name = name
        return self

    def uid(self, uid: str) -> Self:
        """Set an id that identifies the operator's state in other versions of the job."""
        self._with_source("uid")[0].uid = uid
        return self

    def set_description(self, description: str) -> Self:
        """Set a description for plans, longer than the name."""
        self._with_source("set_description")[0].description = description
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks, instead of the environment's parallelism."""
        for operator in self._with_source("set_parallelism"):
            if operator.max_parallelism == 1 and checked_parallelism(parallelism) > 1:
                raise ConfigurationError(
                    f'"{operator.display_name}" is not parallel: its parallelism stays 1'
                )
            operator.parallelism = checked_parallelism(parallelism)
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask, in every version of the job."""
        for operator in self._with_source("force_non_parallel"):
            operator.parallelism = operator.max_parallelism = 1
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, which limits the number of subtasks of the operator."""
        for operator in self._with_source("set_max_parallelism"):
            operator.max_parallelism = checked_parallelism(max_parallelism)
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> Self:
        """Share slots only with operators of this group; by default the group of the inputs."""
        if not isinstance(slot_sharing_group, str):
            raise ConfigurationError(
                f"a slot sharing group is a name, not {slot_sharing_group!r}: slots have no "
                "individual resources here"
            )
        for operator in self._with_source("slot_sharing_group"):
            operator.slot_sharing_group = slot_sharing_group
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in a task of its own."""
        self._operator("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Start a new task at this operator, instead of chaining it to the one before."""
        self._operator("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout_millis: BufferTimeout) -> Self:
        """Set how long the operator's records may wait in a partly filled network buffer."""
        check_buffer_timeout(timeout_millis)
        self._operator("set_buffer_timeout").buffer_timeout_ms = timeout_millis
        return self

    def _with_source(self, method: str) -> tuple[Transformation, ...]:
        """Return the operator; before it the source, if the two came from one ``from_source``.

        The first of them has the name and the state.
        """
        operator = self._operator(method)
        return (operator,) if operator.source is None else (operator.source, operator)


def checked_parallelism(parallelism: int) -> int:
    """Return the parallelism if it is valid; ConfigurationError otherwise."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        raise ConfigurationError(f"the parallelism is {parallelism!r}: choose a whole number")
    if not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigurationError(f"the parallelism is {parallelism}: choose 1 to {MAX_PARALLELISM}")
    return parallelism
