"""The launcher that runs workers in the tasks of one barrier stage of Spark."""
