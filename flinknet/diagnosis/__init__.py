"""Diagnosis of a job from the reports of its workers, without I/O."""
