"""flinknet on a Spark cluster: ``flinknet.spark.use(session)`` before ``env.execute()``.

The workers of the clusters that run the program's jobs are then tasks of that session, and the
coordinator runs beside the program. The session goes on afterwards.
"""

from __future__ import annotations

from flinknet.cluster.launch.spark.session import use

__all__ = ["use"]
