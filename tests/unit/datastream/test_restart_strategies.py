"""Restart strategies by PyFlink's names."""

from __future__ import annotations

from flinknet.config.restart_strategy import (
    NO_RESTART,
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
)
from flinknet.datastream import GeneratorSource, RestartStrategies, StreamExecutionEnvironment


def test_each_name_makes_its_strategy() -> None:
    strategies = RestartStrategies
    assert strategies.no_restart() == NO_RESTART
    assert strategies.fixed_delay_restart(3, 10.0) == FixedDelayRestart(3, 10.0)
    assert strategies.failure_rate_restart(3, 10.0, 1.0) == FailureRateRestart(3, 10.0, 1.0)
    made = strategies.exponential_delay_restart(1.0, 2.0, 3.0, 4.0)
    assert made == ExponentialDelayRestart(1.0, 2.0, 3.0, 4.0)


def test_a_job_has_the_strategy_of_its_program() -> None:
    environment = StreamExecutionEnvironment()
    environment.from_source(GeneratorSource(str, 1)).print()
    assert environment.job_graph().restart == NO_RESTART
    strategy = RestartStrategies.fixed_delay_restart(3, 10.0)
    assert environment.set_restart_strategy(strategy) is environment
    assert environment.job_graph().restart == strategy
