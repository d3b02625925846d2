# Reads the value of an int with one or two digits, as most ints have, directly from the object. Up
# to CPython 3.13 the layout is known here. Later versions report ints of one digit themselves.

from cpython.object cimport PyObject


cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000
    static inline int compact_integer(PyObject *value, long long *number) {
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return 0;
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
        return 1;
    }
    #else
    static inline int compact_integer(PyObject *value, long long *number) {
    #if PY_VERSION_HEX >= 0x030C0000
        uintptr_t tag = ((PyLongObject *)value)->long_value.lv_tag;
        const digit *digits = ((PyLongObject *)value)->long_value.ob_digit;
        uintptr_t count = tag >> 3;
        int is_negative = (tag & 3) == 2;
    #else
        Py_ssize_t size = Py_SIZE(value);
        const digit *digits = ((PyLongObject *)value)->ob_digit;
        Py_ssize_t count = size < 0 ? -size : size;
        int is_negative = size < 0;
    #endif
        long long absolute = 0;
        if (count > 2) return 0;
        if (count > 0) absolute = digits[0];
        if (count > 1) absolute |= (long long)digits[1] << PyLong_SHIFT;
        *number = is_negative ? -absolute : absolute;
        return 1;
    }
    #endif
    """
    bint compact_integer(PyObject *value, long long *number) noexcept
