"""Benchmarks of flinknet beside other systems: ``python -m bench list``."""
