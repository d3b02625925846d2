"""The queries of "Flink Dashboard", number 11049 of grafana.com.

They were read from a copy in guosmilesmile.github.io, in the post of 2020-01-22 on Flink with
Prometheus and Grafana: its ``gnetId`` is 11049, its version 58. This module has the names of
Flink's metrics and the expressions around them, without the variable for the job.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ASKED", "NOT_ANSWERED", "Asked"]


class Asked(NamedTuple):
    """One query: a metric, the expression around it, and the condition under which it is shown."""

    panel: str
    metric: str
    made: str = "%s"
    shown_if: str = ""

    @property
    def query(self) -> str:
        """The query in PromQL, without the condition."""
        return self.made % self.metric


_JOBMANAGER = "flink_jobmanager_"
_JOB = "flink_jobmanager_job_"
_TASK = "flink_taskmanager_job_task_"
_OPERATOR = "flink_taskmanager_job_task_operator_"
_SUM_BY_OPERATOR = "sum(%s) by (operator_name)"

ASKED = (
    Asked("task managers", _JOBMANAGER + "numRegisteredTaskManagers", "sum(%s)"),
    Asked("slots available", _JOBMANAGER + "taskSlotsAvailable", "sum(%s)"),
    Asked("slots in all", _JOBMANAGER + "taskSlotsTotal", "sum(%s)"),
    Asked("running jobs", _JOBMANAGER + "numRunningJobs", "sum(%s)"),
    Asked("restarts", _JOB + "fullRestarts"),
    Asked("records out", _OPERATOR + "numRecordsOutPerSecond", _SUM_BY_OPERATOR),
    Asked("records in", _OPERATOR + "numRecordsInPerSecond", _SUM_BY_OPERATOR),
    Asked(
        "watermark",
        _TASK + "currentInputWatermark",
        "time() - (max(%s) by (task_name) / 1000)",
    ),
    Asked("output pools", _TASK + "Shuffle_Netty_Output_Buffers_outPoolUsage", "%s * 100", "> 50"),
    Asked("input pools", _TASK + "Shuffle_Netty_Input_Buffers_inPoolUsage", "%s * 100", "> 50"),
    Asked(
        "input queues",
        _TASK + "Shuffle_Netty_Input_Buffers_inputQueueLength",
        "sum(%s) by (host)",
    ),
    Asked("late records", _OPERATOR + "numLateRecordsDropped", "sum(delta(%s[30s]))"),
    Asked("threads of the job manager", _JOBMANAGER + "Status_JVM_Threads_Count"),
    Asked(
        "threads of task managers",
        "flink_taskmanager_Status_JVM_Threads_Count",
        "rate(%s[5m])",
        "> 1",
    ),
    Asked("duration of the last checkpoint", _JOB + "lastCheckpointDuration"),
    Asked("size of the last checkpoint", _JOB + "lastCheckpointSize", "rate(%s[2m])"),
    Asked("failed checkpoints", _JOB + "numberOfFailedCheckpoints", "delta(%s[2m])"),
    Asked("downtime", _JOB + "downtime"),
)
"""Queries that flinknet answers."""

_HEAP = "there is no JVM: its heaps and its collectors are nothing that this process has"
_KAFKA = "Flink's Kafka connector has them, of which there is none here"
_ROCKSDB = "off in Flink; RocksDB's own counters are not asked for here"
_SYSTEM = "off in Flink: of the machine, which its own exporter (node_exporter) tells"
_BOND = "off in Flink: of a network interface of the author's machines"

NOT_ANSWERED = {
    "flink_taskmanager_Status_JVM_GarbageCollector_G1_Old_Generation_Count": _HEAP,
    "flink_taskmanager_Status_JVM_GarbageCollector_G1_Old_Generation_Time": _HEAP,
    "flink_taskmanager_Status_JVM_GarbageCollector_G1_Young_Generation_Count": _HEAP,
    "flink_taskmanager_Status_JVM_GarbageCollector_G1_Young_Generation_Time": _HEAP,
    "flink_taskmanager_Status_JVM_Memory_NonHeap_Committed": _HEAP,
    "flink_taskmanager_Status_JVM_Memory_NonHeap_Used": _HEAP,
    "flink_taskmanager_Status_JVM_Memory_Heap_Max": _HEAP,
    "flink_taskmanager_Status_JVM_Memory_Heap_Used": _HEAP,
    "flink_jobmanager_Status_JVM_Memory_NonHeap_Committed": _HEAP,
    "flink_jobmanager_Status_JVM_Memory_NonHeap_Used": _HEAP,
    "flink_jobmanager_Status_JVM_Memory_Heap_Max": _HEAP,
    "flink_jobmanager_Status_JVM_Memory_Heap_Used": _HEAP,
    _OPERATOR + "fetch_latency_avg": _KAFKA,
    _OPERATOR + "commit_latency_avg": _KAFKA,
    _OPERATOR + "commitsFailed": _KAFKA,
    _OPERATOR + "counter_rocksdb_actual_delayed_write_rate": _ROCKSDB,
    _OPERATOR + "counter_rocksdb_num_deletes_imm_mem_tables": _ROCKSDB,
    _OPERATOR + "counter_rocksdb_num_entries_imm_mem_tables": _ROCKSDB,
    _OPERATOR + "counter_rocksdb_background_errors": _ROCKSDB,
    _OPERATOR + "counter_rocksdb_num_snapshots": _ROCKSDB,
    "flink_jobmanager_System_Network_bond0_ReceiveRate": _BOND,
    "flink_jobmanager_System_Network_bond0_SendRate": _BOND,
    "flink_taskmanager_System_Network_bond0_ReceiveRate": _BOND,
    "flink_taskmanager_System_Network_bond0_SendRate": _BOND,
    "flink_taskmanager_System_CPU_Usage": _SYSTEM,
    "flink_jobmanager_System_CPU_Usage": _SYSTEM,
}
"""Metrics that flinknet does not have, and why."""
