# The value of an int that has one digit, as most have: read where it stands. CPython 3.12 says how;
# for 3.11 it is its layout.

from cpython.object cimport PyObject


cdef extern from *:
    """
    static inline int compact_integer(PyObject *value, long long *number) {
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return 0;
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
    #else
        Py_ssize_t size = Py_SIZE(value);
        if (size < -1 || size > 1) return 0;
        *number = size * (long long)((PyLongObject *)value)->ob_digit[0];
    #endif
        return 1;
    }
    """
    bint compact_integer(PyObject *value, long long *number) noexcept
