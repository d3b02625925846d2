"""The REST API under ``/v1`` for Flink's own clients and dashboards."""
