"""PyFlink's DataStream API as it is, and programs that were written for it."""
