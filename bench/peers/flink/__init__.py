"""Flink 1.20: one JobManager and two TaskManagers as processes of this machine, over loopback."""
