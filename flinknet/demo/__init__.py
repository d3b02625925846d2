"""Spark beside flinknet: it prepares a workload, reads back what came out, and checks the answer.

Only ``session``, ``workload``, ``verification`` and ``analysis`` import pyspark. What runs inside
the workers (``flights_job``, ``measurement``, ``histogram``) does not, so no worker loads Spark.
"""
