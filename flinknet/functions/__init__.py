"""The classes that programs subclass or pass: functions, windows, triggers, types, strategies."""
