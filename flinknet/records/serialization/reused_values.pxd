# Numbers without other references are overwritten, instead of being freed and created again.
# CPython's zip() and enumerate() reuse their tuples in the same way. This needs a GIL, a known
# layout of ints, and reference counts that include the references on a stack, which CPython 3.14
# does not count. With any other interpreter every number is a new object.

from cpython.object cimport PyObject, PyTypeObject


cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030E0000 && PyLong_SHIFT == 30 && !defined(Py_GIL_DISABLED)
    #define REUSES_VALUES 1
    #define SMALL_INTEGER_MAX 256  /* CPython has a single object for each of these. */

    static inline int is_unshared(PyObject *value, PyTypeObject *type) {
        return value != NULL && Py_REFCNT(value) == 1 && Py_TYPE(value) == type;
    }

    static inline PyObject *float_in(PyObject *old, double number) {
        if (!is_unshared(old, &PyFloat_Type)) return PyFloat_FromDouble(number);
        ((PyFloatObject *)old)->ob_fval = number;
        return old;
    }

    #if PY_VERSION_HEX >= 0x030C0000
    #define DIGITS_OF(value) ((PyLongObject *)(value))->long_value.ob_digit
    static inline int digit_count(PyObject *value) {
        return (int)(((PyLongObject *)value)->long_value.lv_tag >> 3);
    }
    static inline void set_digit_count(PyObject *value, int count, int is_negative) {
        ((PyLongObject *)value)->long_value.lv_tag = (uintptr_t)count << 3 | (is_negative ? 2 : 0);
    }
    #else
    #define DIGITS_OF(value) ((PyLongObject *)(value))->ob_digit
    static inline int digit_count(PyObject *value) {
        return (int)(Py_SIZE(value) < 0 ? -Py_SIZE(value) : Py_SIZE(value));
    }
    static inline void set_digit_count(PyObject *value, int count, int is_negative) {
        Py_SET_SIZE(value, is_negative ? -count : count);
    }
    #endif

    /* An int created here has room for two digits at least, so one digit may become two. */
    static inline PyObject *integer_in(PyObject *old, unsigned long long size, int is_negative) {
        int count = size >> PyLong_SHIFT == 0 ? 1 : size >> 2 * PyLong_SHIFT == 0 ? 2 : 3;
        if (size <= SMALL_INTEGER_MAX)
            return PyLong_FromLong(is_negative ? -(long)size : (long)size);
        if (!is_unshared(old, &PyLong_Type) || digit_count(old) < count - (count == 2)) {
            old = (PyObject *)_PyLong_New(count == 3 ? 3 : 2);
            if (old == NULL) return NULL;
        }
        set_digit_count(old, count, is_negative);
        DIGITS_OF(old)[0] = (digit)(size & PyLong_MASK);
        DIGITS_OF(old)[1] = (digit)(size >> PyLong_SHIFT & PyLong_MASK);
        if (count == 3) DIGITS_OF(old)[2] = (digit)(size >> 2 * PyLong_SHIFT);
        return old;
    }
    #else
    #define REUSES_VALUES 0
    #define is_unshared(value, type) 0
    #define float_in(old, number) PyFloat_FromDouble(number)
    static inline PyObject *integer_in(PyObject *old, unsigned long long size, int is_negative) {
        if (is_negative) return PyLong_FromLongLong((long long)(0 - size));
        return PyLong_FromUnsignedLongLong(size);
    }
    #endif
    """
    bint REUSES_VALUES
    bint is_unshared(PyObject *value, PyTypeObject *type) noexcept
    # Return the old value, which its owner keeps, or a new one. Return NULL, with an error set, if
    # memory is exhausted. An old int must have been created by ``integer_in``.
    PyObject *float_in(PyObject *old, double number) noexcept
    PyObject *integer_in(PyObject *old, unsigned long long size, bint is_negative) noexcept
