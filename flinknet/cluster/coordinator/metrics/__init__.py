"""The numbers and stacks that a coordinator collects from its workers."""
