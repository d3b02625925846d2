# Users may derive from these classes, so they are compiled as plain Python classes.
