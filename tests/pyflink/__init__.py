"""The signatures of PyFlink's DataStream API, and programs written for PyFlink."""
