"""The graph of a job, from the program's transformations to the deployment of its subtasks."""
