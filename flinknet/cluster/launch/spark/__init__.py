"""The launcher whose workers are the tasks of one barrier stage of Spark."""
