# mypy: ignore-errors
"""Asks a slow service for each record, retries failures, and answers timeouts with None."""

import asyncio
import functools
import json

from pyflink.common import Row, Time, Types
from pyflink.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    StreamExecutionEnvironment,
    async_retry_predicates,
)


class Model(AsyncFunction[Row, str]):
    def open(self, runtime_context: RuntimeContext):
        self.failed = set()

    async def async_invoke(self, value: Row) -> list[str]:
        await asyncio.sleep(0)
        if value.user_id == 2:
            await asyncio.Event().wait()
        if value.user_id == 1 and value.user_id not in self.failed:
            self.failed.add(value.user_id)
            raise TimeoutError
        return [json.dumps({"user_id": value.user_id, "result": "positive"})]

    def timeout(self, value: Row) -> list[str]:
        return [json.dumps({"user_id": value.user_id, "result": None})]


env = StreamExecutionEnvironment.get_execution_environment()
comments = env.from_collection(
    [Row(user, "comment") for user in range(3)],
    type_info=Types.ROW_NAMED(["user_id", "comments"], [Types.INT(), Types.STRING()]),
)
retries = AsyncRetryStrategy.fixed_delay(
    max_attempts=100,
    backoff_time_millis=1,
    result_predicate=None,
    exception_predicate=functools.partial(
        async_retry_predicates.exception_type_predicate, expected_error_type=TimeoutError
    ),
)
answers = AsyncDataStream.unordered_wait_with_retry(
    data_stream=comments,
    async_function=Model(),
    timeout=Time.milliseconds(300),
    async_retry_strategy=retries,
    capacity=1000,
    output_type=Types.STRING(),
)
answers.print()
env.execute()
