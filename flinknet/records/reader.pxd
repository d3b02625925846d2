# Compiled as it is: what happens for every record, ``at_once.pyx`` does.
