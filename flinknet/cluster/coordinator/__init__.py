"""The coordinator: schedules jobs on workers and records how they end."""
