"""The coordinator as Flink's own clients and dashboards ask it: REST under ``/v1``."""
