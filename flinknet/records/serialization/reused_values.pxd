# Numbers that nobody has any more take another value in place of being freed and made anew, as the
# tuples of CPython's own zip() and enumerate() do. It takes a GIL, a layout of int that is known
# here, and reference counts that count whatever is on a stack, which those of CPython 3.14 do not;
# with any other interpreter every number is new.

from cpython.object cimport PyObject, PyTypeObject


cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030E0000 && PyLong_SHIFT == 30 && !defined(Py_GIL_DISABLED)
    #define REUSES_VALUES 1
    #define SMALL_INTEGER_MAX 256  /* There is one object for each of these. */

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

    /* An int made here has room for two digits at least: what has one may get another. */
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
    # The old value, which is its owner's still, or a new one; NULL, with an error set, if there is
    # no memory. An old int was made by ``integer_in``.
    PyObject *float_in(PyObject *old, double number) noexcept
    PyObject *integer_in(PyObject *old, unsigned long long size, bint is_negative) noexcept
