# Compiled as it is: what happens for every record, ``record_iterator.pyx`` does.
