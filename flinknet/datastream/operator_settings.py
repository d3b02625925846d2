"""What can be set of one operator, in PyFlink's names: on its stream, or on a sink."""

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
    """The settings of the operator that made a stream, or of a sink. Each method returns self."""

    @abstractmethod
    def _operator(self, method: str) -> Transformation:
        """Return the operator that ``method`` is about; ConfigurationError if there is not one."""

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._operator("get_name").name

    def name(self, name: str) -> Self:
        """Name the operator; errors, metrics and collected results use the name."""
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> Self:
        """Give the operator an id that finds its state in another version of the job."""
        self._operator("uid").uid = uid
        return self

    def set_description(self, description: str) -> Self:
        """Describe the operator at more length than its name does, in plans."""
        self._operator("set_description").description = description
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Run the operator in this many subtasks, instead of the environment's parallelism."""
        operator = self._operator("set_parallelism")
        if operator.max_parallelism == 1 and checked_parallelism(parallelism) > 1:
            raise ConfigurationError(
                f'"{operator.display_name}" is not parallel: its parallelism stays 1'
            )
        operator.parallelism = checked_parallelism(parallelism)
        return self

    def force_non_parallel(self) -> Self:
        """Run the operator in one subtask, now and in any other version of the job."""
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, so the most subtasks that the operator can ever have."""
        self._operator("set_max_parallelism").max_parallelism = checked_parallelism(max_parallelism)
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> Self:
        """Share slots with operators of this group only; by default the group of the inputs."""
        if not isinstance(slot_sharing_group, str):
            raise ConfigurationError(
                f"a slot sharing group is a name, not {slot_sharing_group!r}: slots have no "
                "resources of their own here"
            )
        self._operator("slot_sharing_group").slot_sharing_group = slot_sharing_group
        return self

    def disable_chaining(self) -> Self:
        """Give the operator a task of its own."""
        self._operator("disable_chaining").chaining = ChainingStrategy.NEVER
        return self

    def start_new_chain(self) -> Self:
        """Do not put the operator into the task of the one before it."""
        self._operator("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout_millis: BufferTimeout) -> Self:
        """Set how long the operator's records may wait in a network buffer that is not full."""
        check_buffer_timeout(timeout_millis)
        self._operator("set_buffer_timeout").buffer_timeout_ms = timeout_millis
        return self


def checked_parallelism(parallelism: int) -> int:
    """Return it if it can be a parallelism or a max parallelism."""
    if isinstance(parallelism, bool) or not isinstance(parallelism, int):
        raise ConfigurationError(f"the parallelism is {parallelism!r}: choose a whole number")
    if not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigurationError(f"the parallelism is {parallelism}: choose 1 to {MAX_PARALLELISM}")
    return parallelism
