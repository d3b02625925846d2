"""A demo with Spark, which prepares a workload, reads the results back, and checks them.

Only ``spark_session``, ``workload``, ``verification`` and ``analysis`` import pyspark. Modules that
run inside the workers (``flights_job``, ``flight_totals``, ``measurement``) do not, so no worker
loads Spark.
"""
