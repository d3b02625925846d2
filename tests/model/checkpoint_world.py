"""A world in which every completed checkpoint must be a consistent cut."""

from __future__ import annotations

from collections import Counter

from tests.model.checkpoint_shape import CheckpointShape
from tests.model.checkpoint_sides import CheckpointConsumerSide, CheckpointProducerSide
from tests.model.explorer import Machine, State, World
from tests.model.shape import BrokenInvariantError


class CheckpointWorld(World):
    """Both sides, and the results of checkpoints in the final states (``outcomes``)."""

    shape: CheckpointShape

    def __init__(self, shape: CheckpointShape) -> None:
        self.shape = shape
        self.producer = Machine(CheckpointProducerSide(shape))
        self.consumer = Machine(CheckpointConsumerSide(shape))
        self.outcomes: Counter[str] = Counter()

    def check_end(self, state: State) -> None:
        """Check that each record before a barrier is in the completed checkpoint exactly once.

        It was processed before, is in flight at the input, or is in flight at the output.
        """
        producer, consumer = self.producer.side(state.producer), self.consumer.side(state.consumer)
        assert isinstance(producer, CheckpointProducerSide)
        assert isinstance(consumer, CheckpointConsumerSide)
        super().check_end(state)
        task, writers = consumer.task, producer.writers | consumer.writers
        if consumer.handler.is_pending:
            raise BrokenInvariantError("a checkpoint is under way for ever")
        for checkpoint_id in range(1, max(map(self.checkpoints, range(self.shape.channels))) + 1):
            if checkpoint_id not in task.completed:
                if checkpoint_id in task.begun and checkpoint_id not in task.aborted:
                    raise BrokenInvariantError(f"nothing became of checkpoint {checkpoint_id}")
                self.outcomes[f"{checkpoint_id} aborted"] += 1
                continue
            output = [writer.output_state.get(checkpoint_id, ()) for writer in writers.values()]
            if None in output:
                self.outcomes[f"{checkpoint_id} aborted upstream"] += 1
                continue
            for index, writer in writers.items():
                of_input = task.stored(index, checkpoint_id)
                of_output = writer.output_state.get(checkpoint_id) or ()
                in_front = self.shape.in_front(index, checkpoint_id)
                if of_input + of_output != in_front:
                    raise BrokenInvariantError(
                        f"checkpoint {checkpoint_id} has {of_input} at the input and {of_output} "
                        f"at the output of channel {index}, of {in_front}"
                    )
            self.outcomes[f"{checkpoint_id} complete"] += 1
            if any(task.in_flight[checkpoint_id]):
                self.outcomes[f"{checkpoint_id} with input"] += 1
            if any(output):
                self.outcomes[f"{checkpoint_id} with output"] += 1

    def checkpoints(self, index: int) -> int:
        """Return the number of checkpoints in a script."""
        return self.shape.checkpoint(index, len(self.shape.scripts[index]))
