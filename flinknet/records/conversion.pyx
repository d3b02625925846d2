# cython: binding=False
"""Conversions in C: see ``conversion.py``.

Theory of operation. ``fits`` compares a value with its form without running Python code, so nothing
can change meanwhile. ``_made`` rebuilds a value that does not fit, and calls the type's ``convert``
for everything that it does not know; ``convert`` raises the error of a wrong value. Conversions are
called through ``tp_vectorcall``, which takes a third of the time of ``tp_call``. Cython has no
syntax for it, so the slot is set below.
"""

cimport cython
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject, PyTypeObject
from libc.math cimport isinf, isnan

__all__ = [
    "Conversion",
    "ConvertedKey",
    "ConvertedRecords",
    "anything",
    "characters",
    "exactly",
    "floats",
    "integers",
    "lists",
    "maps",
    "reals",
    "rows",
    "tuples",
    "unknown",
]


cdef extern from *:
    """
    static void allow_vectorcall(PyTypeObject *kind, Py_ssize_t offset) {
        kind->tp_vectorcall_offset = offset;
        kind->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified(kind);
    }

    /* The one argument of a call, NULL and a TypeError for any other number. */
    static inline PyObject *only_argument(PyObject **arguments, size_t number, PyObject *names) {
        if (PyVectorcall_NARGS(number) == 1 && names == NULL) return arguments[0];
        PyErr_SetString(PyExc_TypeError, "it takes one argument");
        return NULL;
    }

    /* Whether a value is a tuple with the standard iteration. */
    static inline int is_iterated_as_tuple(PyObject *value) {
        return PyTuple_Check(value) && Py_TYPE(value)->tp_iter == PyTuple_Type.tp_iter;
    }

    static inline int is_same_double(double one, double other) {
        return memcmp(&one, &other, sizeof(double)) == 0;
    }

    static inline PyObject *new_object(PyTypeObject *kind, PyObject *no_arguments) {
        return kind->tp_new(kind, no_arguments, NULL);
    }

    static inline int is_same_text(PyObject *one, PyObject *other) {
        return one == other
            || (PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other)
                && PyUnicode_GET_LENGTH(one) == PyUnicode_GET_LENGTH(other)
                && PyUnicode_Compare(one, other) == 0);
    }
    """
    void allow_vectorcall(PyTypeObject *kind, Py_ssize_t offset) noexcept
    PyObject *only_argument(PyObject **arguments, size_t number, PyObject *names) except NULL
    bint is_iterated_as_tuple(PyObject *value) noexcept
    bint is_same_double(double one, double other) noexcept
    object new_object(PyTypeObject *kind, PyObject *no_arguments)
    bint is_same_text(PyObject *one, PyObject *other) noexcept


cdef extern from "Python.h":
    PyObject *Py_None
    PyTypeObject *Py_TYPE(PyObject *value) noexcept
    void Py_INCREF(PyObject *value) noexcept
    void Py_DECREF(PyObject *value) noexcept
    void PyErr_Clear() noexcept
    PyObject *PyErr_Occurred() noexcept
    bint PyLong_CheckExact(PyObject *value) noexcept
    bint PyFloat_CheckExact(PyObject *value) noexcept
    bint PyTuple_CheckExact(PyObject *value) noexcept
    bint PyTuple_Check(PyObject *value) noexcept
    bint PyList_CheckExact(PyObject *value) noexcept
    bint PyList_Check(PyObject *value) noexcept
    bint PyDict_CheckExact(PyObject *value) noexcept
    bint PyDict_Check(PyObject *value) noexcept
    bint PyUnicode_CheckExact(PyObject *value) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject *value) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject *value, int *overflow) noexcept
    double PyLong_AsDouble(PyObject *value) noexcept
    double PyFloat_AS_DOUBLE(PyObject *value) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject *value) noexcept
    PyObject *PyTuple_GET_ITEM(PyObject *value, Py_ssize_t index) noexcept
    object PyTuple_New(Py_ssize_t size)
    void PyTuple_SET_ITEM(PyObject *value, Py_ssize_t index, PyObject *item) noexcept
    object PyTuple_GetSlice(PyObject *value, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t PyList_GET_SIZE(PyObject *value) noexcept
    PyObject *PyList_GET_ITEM(PyObject *value, Py_ssize_t index) noexcept
    object PyList_New(Py_ssize_t size)
    void PyList_SET_ITEM(PyObject *value, Py_ssize_t index, PyObject *item) noexcept
    object PyList_AsTuple(PyObject *value)
    PyObject *PyDict_GetItemWithError(PyObject *values, PyObject *key) noexcept
    PyObject *PyObject_GenericGetAttr(PyObject *value, PyObject *name) noexcept
    int PyObject_GenericSetAttr(PyObject *value, PyObject *name, PyObject *to) except -1
    object PyObject_CallOneArg(PyObject *function, PyObject *argument)


cdef extern from *:
    """
    #define taken(value) (value)
    """
    object taken(PyObject *value)  # Takes over the reference to the value.


cdef enum:
    UNKNOWN  # only the type's ``convert`` knows
    ANYTHING
    EXACTLY
    INTEGER
    REAL
    FLOAT
    CHARACTER
    TUPLE
    ROW
    LIST
    MAP

cdef enum:
    ROW_KINDS = 4

cdef object _FIELDS = "_fields"
cdef object _VALUES = "_values"
cdef object _KIND = "_kind"
cdef tuple _NOTHING = ()


cdef bint fits(Conversion conversion, PyObject *value) noexcept:
    """Return whether a value already conforms to the type, and would be returned itself."""
    cdef int form = conversion._form
    cdef int overflow
    cdef long long number
    cdef double real
    if form == INTEGER:
        if not PyLong_CheckExact(value):
            return False
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        return not overflow and conversion._lowest <= number <= conversion._highest
    if form == EXACTLY:
        return Py_TYPE(value) == <PyTypeObject *>conversion._class
    if form == TUPLE:
        if (
            not PyTuple_CheckExact(value)
            or PyTuple_GET_SIZE(value) != PyTuple_GET_SIZE(<PyObject *>conversion._parts)
        ):
            return False
        return _all_fit(conversion, value, True)
    if form == REAL:
        return PyFloat_CheckExact(value)
    if form == ROW:
        return _is_row_that_fits(conversion, value)
    if form == LIST:
        return PyList_CheckExact(value) and _elements_fit(conversion, value)
    if form == MAP:
        return PyDict_CheckExact(value) and _entries_fit(conversion, value)
    if form == FLOAT:
        if not PyFloat_CheckExact(value):
            return False
        real = PyFloat_AS_DOUBLE(value)
        return is_same_double(real, <double><float>real)
    if form == CHARACTER:
        return PyUnicode_CheckExact(value) and PyUnicode_GET_LENGTH(value) == 1
    return form == ANYTHING


cdef bint _all_fit(Conversion conversion, PyObject *values, bint are_tuple) noexcept:
    """Return whether each value is None or fits its part; there must be a value for each part."""
    cdef PyObject *parts = <PyObject *>conversion._parts
    cdef PyObject *value
    cdef Py_ssize_t index
    for index in range(PyTuple_GET_SIZE(parts)):
        value = PyTuple_GET_ITEM(values, index) if are_tuple else PyList_GET_ITEM(values, index)
        if value != Py_None and not fits(<Conversion>PyTuple_GET_ITEM(parts, index), value):
            return False
    return True


cdef bint _elements_fit(Conversion conversion, PyObject *values) noexcept:
    cdef Conversion part = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 0)
    cdef PyObject *value
    cdef Py_ssize_t index
    for index in range(PyList_GET_SIZE(values)):
        value = PyList_GET_ITEM(values, index)
        if not (value == Py_None and conversion._may_have_none) and not fits(part, value):
            return False
    return True


cdef bint _entries_fit(Conversion conversion, PyObject *values) noexcept:
    cdef Conversion of_key = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 0)
    cdef Conversion of_value = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 1)
    cdef PyObject *key
    cdef PyObject *value
    cdef Py_ssize_t position = 0
    while PyDict_Next(<object>values, &position, &key, &value):
        if not fits(of_key, key) or (value != Py_None and not fits(of_value, value)):
            return False
    return True


cdef PyObject *_attribute(PyObject *row, name) noexcept:
    """Return a new reference to an attribute of a row; NULL if there is none of this name."""
    # Not the usual look-up, which would call ``Row.__getattr__``, Python code.
    cdef PyObject *value = PyObject_GenericGetAttr(row, <PyObject *>name)
    if value is NULL:
        PyErr_Clear()
    return value


cdef bint _are_names(Conversion conversion, PyObject *fields) noexcept:
    """Return whether the names of a row equal the names of the type, in order."""
    cdef PyObject *names = <PyObject *>conversion._names
    cdef Py_ssize_t index, number = PyTuple_GET_SIZE(names)
    if fields == names:
        return True
    if PyTuple_CheckExact(fields):
        if PyTuple_GET_SIZE(fields) != number:
            return False
        for index in range(number):
            if not is_same_text(PyTuple_GET_ITEM(fields, index), PyTuple_GET_ITEM(names, index)):
                return False
        return True
    if not PyList_CheckExact(fields) or PyList_GET_SIZE(fields) != number:
        return False
    for index in range(number):
        if not is_same_text(PyList_GET_ITEM(fields, index), PyTuple_GET_ITEM(names, index)):
            return False
    return True


cdef bint _is_row_that_fits(Conversion conversion, PyObject *row) noexcept:
    cdef PyObject *found
    cdef Py_ssize_t number = PyTuple_GET_SIZE(<PyObject *>conversion._parts)
    cdef bint fit
    if Py_TYPE(row) != <PyTypeObject *>conversion._class:
        return False
    found = _attribute(row, _FIELDS)
    if found is NULL:
        return False
    fit = _are_names(conversion, found)
    Py_DECREF(found)
    if not fit:
        return False
    found = _attribute(row, _VALUES)
    if found is NULL:
        return False
    if PyList_CheckExact(found):
        fit = PyList_GET_SIZE(found) == number and _all_fit(conversion, found, False)
    elif PyTuple_CheckExact(found):
        fit = PyTuple_GET_SIZE(found) == number and _all_fit(conversion, found, True)
    else:
        fit = False
    Py_DECREF(found)
    return fit


cdef object _converted(Conversion conversion, PyObject *value):
    return <object>value if fits(conversion, value) else _made(conversion, value)


cdef object _made(Conversion conversion, PyObject *value):
    """Convert a value that does not fit."""
    cdef int form = conversion._form
    made = None
    if form == TUPLE:
        given = _values_of(conversion, value)
        if given is not None:
            made = _made_parts(conversion, <PyObject *>given, True)
    elif form == ROW:
        made = _made_row(conversion, value)
    elif form == LIST:
        if PyList_CheckExact(value):
            # A copy, because the conversion of an element may run code that changes the list.
            given = PyList_AsTuple(value)
            made = _made_list(conversion, <PyObject *>given)
        elif is_iterated_as_tuple(value):
            made = _made_list(conversion, value)
    elif form == MAP:
        if PyDict_CheckExact(value):
            made = _made_map(conversion, <dict><object>value)
    elif form == REAL or form == FLOAT:
        made = _made_number(form, value)
    return PyObject_CallOneArg(<PyObject *>conversion._otherwise, value) if made is None else made


cdef object _made_number(int form, PyObject *value):
    """Return a float for an int or a float; None if only ``convert`` can tell."""
    cdef double real
    cdef double rounded
    if PyFloat_CheckExact(value):
        real = PyFloat_AS_DOUBLE(value)
    elif PyLong_CheckExact(value):
        real = PyLong_AsDouble(value)
        if real == -1.0 and PyErr_Occurred() is not NULL:
            PyErr_Clear()
            return None
    else:
        return None
    if form == REAL:
        return real
    rounded = <double><float>real
    return None if isnan(real) or isinf(rounded) else rounded


cdef object _values_of(Conversion conversion, PyObject *value):
    """Return the values of a tuple, a list or a row as a tuple; None for another value.

    A tuple or row with an iteration of its own counts as another value.
    """
    cdef PyObject *found
    if PyTuple_CheckExact(value):
        return <object>value
    if PyList_CheckExact(value):
        return PyList_AsTuple(value)
    if is_iterated_as_tuple(value):
        return PyTuple_GetSlice(value, 0, PyTuple_GET_SIZE(value))
    if Py_TYPE(value) != <PyTypeObject *>conversion._class:
        return None
    found = _attribute(value, _VALUES)
    if found is NULL:
        return None
    values = taken(found)
    if PyTuple_CheckExact(found):
        return values
    return PyList_AsTuple(found) if PyList_CheckExact(found) else None


cdef object _made_parts(Conversion conversion, PyObject *given, bint are_tuple):
    """Return a tuple or list of values converted to the types of the parts.

    Return None if the number of values differs from the number of parts.
    """
    cdef PyObject *parts = <PyObject *>conversion._parts
    cdef PyObject *value
    cdef Py_ssize_t index, number = PyTuple_GET_SIZE(parts)
    if PyTuple_GET_SIZE(given) != number:
        return None
    made = PyTuple_New(number) if are_tuple else PyList_New(number)
    for index in range(number):
        value = PyTuple_GET_ITEM(given, index)
        if value == Py_None:
            part = None
        else:
            part = _converted(<Conversion>PyTuple_GET_ITEM(parts, index), value)
        Py_INCREF(<PyObject *>part)
        if are_tuple:
            PyTuple_SET_ITEM(<PyObject *>made, index, <PyObject *>part)
        else:
            PyList_SET_ITEM(<PyObject *>made, index, <PyObject *>part)
    return made


cdef object _made_list(Conversion conversion, PyObject *given):
    cdef Conversion element = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 0)
    cdef PyObject *value
    cdef Py_ssize_t index, number = PyTuple_GET_SIZE(given)
    made = PyList_New(number)
    for index in range(number):
        value = PyTuple_GET_ITEM(given, index)
        if value == Py_None and conversion._may_have_none:
            part = None
        else:
            part = _converted(element, value)
        Py_INCREF(<PyObject *>part)
        PyList_SET_ITEM(<PyObject *>made, index, <PyObject *>part)
    return made


cdef object _made_map(Conversion conversion, dict given):
    cdef Conversion of_key = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 0)
    cdef Conversion of_value = <Conversion>PyTuple_GET_ITEM(<PyObject *>conversion._parts, 1)
    cdef dict made = {}
    for key, value in given.items():
        key = _converted(of_key, <PyObject *>key)
        made[key] = None if value is None else _converted(of_value, <PyObject *>value)
    return made


cdef object _made_row(Conversion conversion, PyObject *value):
    """Return a row for a row, tuple, list, dict or object.

    Return None if finding its values takes ``convert``.
    """
    cdef PyObject *found
    kind = 0
    if Py_TYPE(value) == <PyTypeObject *>conversion._class:
        found = _attribute(value, _KIND)
        if found is NULL:
            return None
        kind = taken(found)
        if type(kind) is not int or not 0 <= kind < ROW_KINDS:
            return None
        found = _attribute(value, _FIELDS)
        if found is NULL:
            return None
        fields = taken(found)
        given = _values_of(conversion, value)
        if given is None:
            return None
        if fields is not None and not _are_names(conversion, found):
            if len(fields) != len(given):
                return None
            given = _values_by_name(conversion, dict(zip(fields, given)))
    elif is_iterated_as_tuple(value) or PyList_CheckExact(value):
        given = _values_of(conversion, value)
    elif PyTuple_Check(value) or PyList_Check(value) or isinstance(
        <object>value, conversion._class
    ):
        return None
    elif PyDict_Check(value):
        given = _values_by_name(conversion, <object>value)
    else:
        given = _values_by_name(conversion, getattr(<object>value, "__dict__", None))
    if given is None:
        return None
    values = _made_parts(conversion, <PyObject *>given, False)
    if values is None:
        return None
    # Without ``__init__`` and ``__setattr__`` of the class, which are Python code.
    row = new_object(<PyTypeObject *>conversion._class, <PyObject *>_NOTHING)
    found = <PyObject *>row
    PyObject_GenericSetAttr(found, <PyObject *>_VALUES, <PyObject *>values)
    PyObject_GenericSetAttr(found, <PyObject *>_FIELDS, <PyObject *>conversion._names)
    PyObject_GenericSetAttr(found, <PyObject *>_KIND, <PyObject *>kind)
    return row


cdef object _values_by_name(Conversion conversion, given):
    """Return the values of a dict by the names of a row, with None for a missing name.

    Return None if ``given`` is not a plain dict.
    """
    cdef PyObject *names = <PyObject *>conversion._names
    cdef PyObject *value
    cdef Py_ssize_t index
    if type(given) is not dict:
        return None
    values = PyTuple_New(PyTuple_GET_SIZE(names))
    for index in range(PyTuple_GET_SIZE(names)):
        value = PyDict_GetItemWithError(<PyObject *>given, PyTuple_GET_ITEM(names, index))
        if value is NULL:
            if PyErr_Occurred() is not NULL:  # comparing keys failed; ``convert`` raises it again
                PyErr_Clear()
                return None
            value = Py_None
        Py_INCREF(value)
        PyTuple_SET_ITEM(<PyObject *>values, index, value)
    return values


@cython.final
cdef class Conversion:
    """See ``conversion.py``."""

    def __cinit__(self, kind, int form):
        self._called = _call_conversion  # found by ``tp_vectorcall_offset``
        self.kind = kind
        self._otherwise = kind.convert
        self._form = form
        self._parts = self._names = ()

    def __call__(self, value):
        return _converted(self, <PyObject *>value)

    def fits(self, value):
        return fits(self, <PyObject *>value)

    def each(self, records):
        cdef Py_ssize_t index = 0
        cdef list made
        if type(records) is not list:
            return [_converted(self, <PyObject *>record) for record in records]
        while index < PyList_GET_SIZE(<PyObject *>records):
            if not fits(self, PyList_GET_ITEM(<PyObject *>records, index)):
                break
            index += 1
        else:
            return records
        made = records[:index]
        # Converting a record may run code that changes the list, so its length is read each time.
        while index < PyList_GET_SIZE(<PyObject *>records):
            record = records[index]
            made.append(_converted(self, <PyObject *>record))
            index += 1
        return made

    def as_they_come(self, records):
        return ConvertedRecords(self, records)

    def __reduce__(self):
        return conversion_of, (self.kind,)


@cython.final
cdef class ConvertedRecords:
    """See ``conversion.py``."""

    cdef Conversion _conversion
    cdef object _records
    cdef readonly object last

    def __init__(self, Conversion conversion not None, records):
        self._conversion = conversion
        self._records = iter(records)

    def __iter__(self):
        return self

    def __next__(self):
        record = next(self._records)
        self.last = _converted(self._conversion, <PyObject *>record)
        return self.last


@cython.final
cdef class ConvertedKey:
    """See ``conversion.py``."""

    def __cinit__(self, key, Conversion conversion not None):
        self._called = _call_key
        self.key = key
        self.conversion = conversion

    def __call__(self, record):
        return _key_of(self, <PyObject *>record)

    def __reduce__(self):
        return ConvertedKey, (self.key, self.conversion)


cdef object _key_of(ConvertedKey converted, PyObject *record):
    key = PyObject_CallOneArg(<PyObject *>converted.key, record)
    return _converted(converted.conversion, <PyObject *>key)


cdef PyObject *_call_conversion(
    PyObject *called, PyObject **arguments, size_t number, PyObject *names
) except NULL:
    cdef PyObject *value = only_argument(arguments, number, names)
    made = _converted(<Conversion>called, value)
    Py_INCREF(<PyObject *>made)
    return <PyObject *>made


cdef PyObject *_call_key(
    PyObject *called, PyObject **arguments, size_t number, PyObject *names
) except NULL:
    cdef PyObject *record = only_argument(arguments, number, names)
    key = _key_of(<ConvertedKey>called, record)
    Py_INCREF(<PyObject *>key)
    return <PyObject *>key


def conversion_of(kind):
    return kind.conversion()


cdef Conversion _of_parts(kind, int form, parts):
    cdef Conversion made = Conversion(kind, form)
    for part in parts:
        if type(part) is not Conversion:
            raise TypeError(f"{part!r} is no Conversion")
    made._parts = tuple(parts)
    return made


def unknown(kind):
    return Conversion(kind, UNKNOWN)


def anything(kind):
    return Conversion(kind, ANYTHING)


def exactly(kind, type class_ not None):
    cdef Conversion made = Conversion(kind, EXACTLY)
    made._class = class_
    return made


def integers(kind, long long lowest, long long highest):
    cdef Conversion made = Conversion(kind, INTEGER)
    made._lowest, made._highest = lowest, highest
    return made


def reals(kind):
    return Conversion(kind, REAL)


def floats(kind):
    return Conversion(kind, FLOAT)


def characters(kind):
    return Conversion(kind, CHARACTER)


def tuples(kind, parts, type row not None):
    cdef Conversion made = _of_parts(kind, TUPLE, parts)
    made._class = row
    return made


def rows(kind, parts, names, type row not None):
    cdef Conversion made = _of_parts(kind, ROW, parts)
    made._class, made._names = row, tuple(names)
    if PyTuple_GET_SIZE(<PyObject *>made._names) != PyTuple_GET_SIZE(<PyObject *>made._parts):
        raise ValueError("a row has a name for each of its values")
    return made


def lists(kind, element, bint may_have_none):
    cdef Conversion made = _of_parts(kind, LIST, (element,))
    made._may_have_none = may_have_none
    return made


def maps(kind, key, value):
    return _of_parts(kind, MAP, (key, value))


cdef _allow_vectorcalls():
    cdef Conversion conversion = Conversion(type("Any", (), {"convert": None}), ANYTHING)
    cdef ConvertedKey key = ConvertedKey(None, conversion)
    allow_vectorcall(
        <PyTypeObject *>Conversion, <char *>&conversion._called - <char *><PyObject *>conversion
    )
    allow_vectorcall(
        <PyTypeObject *>ConvertedKey, <char *>&key._called - <char *><PyObject *>key
    )


_allow_vectorcalls()
