# cython: binding=False
"""Detaching in C: see ``detached.py``.

Theory of operation. The type of a value, and of each element of a tuple, is compared by address
with the few types of nearly all values; only other types are looked up (``nature_of``). A
changeable value is *owned* if all references to it are known: the reference that came with it out
of a call or an iterator, and those of a batch that no other component reads. Every changeable
object in it must be owned, too. The garbage collector's traversal (``tp_traverse``) shows those
objects, for types whose traversal is complete. No generator, closure, cache, table or attribute can
then reach into the value. A weak reference counts as a reference. Reference counts are reliable
only with a GIL, and before CPython 3.14, which does not count references on a stack. Elsewhere
every changeable value is copied.
"""

from cpython.dict cimport PyDict_Copy, PyDict_Next
from cpython.object cimport PyObject, PyTypeObject

from flinknet.records.conversion import ConvertedRecords
from flinknet.records.record_iterator import ArrivedRecords
from flinknet.records.value_copy import Detachment, copied_as, nature_of

__all__ = [
    "Detachment",
    "all_detached",
    "detached",
    "each_detached",
    "each_passed",
    "each_result",
    "each_returned",
]


cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
    #define COUNTS_REFERENCES 1
    #else
    #define COUNTS_REFERENCES 0
    #endif

    #define NESTED_MAX 32  /* Deeper values are copied. */

    enum { NATURE_OPEN, NATURE_FIXED, NATURE_PARTS, NATURE_MASK = 3, NATURE_IS_SHOWN = 4 };

    typedef struct {
        PyObject *natures;  /* The known natures of classes, as int. */
        PyObject *unknown;  /* The first class of unknown nature; the walk owns the reference. */
        int depth;
        int owned;
    } walk;

    static inline int never_changes(PyTypeObject *kind) {
        return kind == &PyUnicode_Type || kind == &PyLong_Type || kind == &PyFloat_Type
            || kind == Py_TYPE(Py_None) || kind == &PyBool_Type || kind == &PyBytes_Type;
    }

    static inline int is_referenced(PyObject *value, Py_ssize_t times) {
        PyTypeObject *kind = Py_TYPE(value);
        return COUNTS_REFERENCES && Py_REFCNT(value) == times
            && (kind->tp_weaklistoffset == 0
                || *(PyObject **)((char *)value + kind->tp_weaklistoffset) == NULL);
    }

    /* Whether a value cannot change, and has one of the most common types. */
    static inline int is_plain(PyObject *value) {
        Py_ssize_t index, length;
        if (never_changes(Py_TYPE(value))) return 1;
        if (Py_TYPE(value) != &PyTuple_Type) return 0;
        length = PyTuple_GET_SIZE(value);
        for (index = 0; index < length; index++)
            if (!never_changes(Py_TYPE(PyTuple_GET_ITEM(value, index)))) return 0;
        return 1;
    }

    #define WIDTH_MAX 8

    /* Whether all values in a list are plain. A record mostly has the types of the record before,
       so one comparison per element of a tuple suffices. */
    static int are_plain(PyObject *values) {
        PyTypeObject *kinds[WIDTH_MAX];
        PyObject **value = ((PyListObject *)values)->ob_item;
        PyObject **end = value + PyList_GET_SIZE(values);
        Py_ssize_t index, width = -1;
        for (; value < end; value++) {
            PyObject **elements = ((PyTupleObject *)*value)->ob_item;
            if (Py_TYPE(*value) == &PyTuple_Type && PyTuple_GET_SIZE(*value) == width) {
                for (index = 0; index < width; index++)
                    if (Py_TYPE(elements[index]) != kinds[index]) break;
                if (index == width) continue;
            }
            if (!is_plain(*value)) return 0;
            if (Py_TYPE(*value) != &PyTuple_Type || PyTuple_GET_SIZE(*value) > WIDTH_MAX) continue;
            width = PyTuple_GET_SIZE(*value);
            for (index = 0; index < width; index++) kinds[index] = Py_TYPE(elements[index]);
        }
        return 1;
    }

    static inline int has_plain_values(PyObject *values) {
        Py_ssize_t position = 0;
        PyObject *value;
        while (PyDict_Next(values, &position, NULL, &value))
            if (!is_plain(value)) return 0;
        return 1;
    }

    static int is_detached(PyObject *value, int owned, walk *way);

    static int visit_part(PyObject *part, void *walked) {
        walk *way = (walk *)walked;
        int owned = way->owned, detached;
        if (is_plain(part)) return 0;
        detached = is_detached(part, owned && is_referenced(part, 1), way);
        way->owned = owned;
        return !detached;
    }

    static int nature_known(PyTypeObject *kind, walk *way) {
        PyObject *nature = NULL;
        /* A metaclass with its own hash would run its code during the look-up. */
        if (Py_TYPE(kind)->tp_hash != PyBaseObject_Type.tp_hash) return NATURE_OPEN;
        nature = PyDict_GetItemWithError(way->natures, (PyObject *)kind);
        if (nature != NULL) return (int)PyLong_AsLong(nature);
        PyErr_Clear();
        if (way->unknown == NULL) {
            Py_INCREF(kind);
            way->unknown = (PyObject *)kind;
        }
        return NATURE_OPEN;
    }

    /* Whether nothing in a value that is not plain can change through another reference. No Python
       code runs meanwhile. `owned` tells whether all references to the value are known. */
    static int is_detached(PyObject *value, int owned, walk *way) {
        PyTypeObject *kind = Py_TYPE(value);
        int nature, detached;
        if (PyType_Check(value)) return 1;
        if (kind == &PyTuple_Type)
            nature = NATURE_PARTS | NATURE_IS_SHOWN;
        else if (kind == &PyDict_Type || kind == &PyList_Type || kind == &PySet_Type)
            nature = NATURE_OPEN | NATURE_IS_SHOWN;
        else if (kind == &PyByteArray_Type)
            return owned;
        else
            nature = nature_known(kind, way);
        if ((nature & NATURE_MASK) == NATURE_FIXED) return 1;
        if ((nature & NATURE_MASK) == NATURE_OPEN && !owned) return 0;
        if (!(nature & NATURE_IS_SHOWN) || way->depth == 0) return 0;
        way->depth--;
        way->owned = owned;
        /* A plain object() refers to nothing, and has no traversal. */
        detached = kind->tp_traverse == NULL || !kind->tp_traverse(value, visit_part, way);
        way->depth++;
        return detached;
    }

    /* Whether traversing an object of this class shows all its contents. This holds for Python's
       containers, and for subclasses that a class statement creates. */
    static int shows_everything(PyTypeObject *kind, PyTypeObject *made_by_statement) {
        for (; kind != NULL; kind = kind->tp_base) {
            if (kind == &PyBaseObject_Type || kind == &PyTuple_Type || kind == &PyDict_Type
                || kind == &PyList_Type || kind == &PySet_Type || kind == &PyFrozenSet_Type)
                return 1;
            if (kind->tp_traverse != made_by_statement->tp_traverse) return 0;
        }
        return 0;
    }

    static inline int has_dictionary(PyTypeObject *kind) { return kind->tp_dictoffset != 0; }

    static inline PyObject *next_value(PyObject *iterator) {
        PyObject *value = Py_TYPE(iterator)->tp_iternext(iterator);
        if (value != NULL) return value;
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_StopIteration)) PyErr_Clear();
        return NULL;
    }

    /* Take over a reference to a record, and call a function on it. A StopIteration of the
       function becomes a RuntimeError, as in a generator: it is not the end of the records. */
    static inline PyObject *call_on(PyObject *record, PyObject *function) {
        PyObject *value = PyObject_CallOneArg(function, record);
        Py_DECREF(record);
        if (value == NULL && PyErr_ExceptionMatches(PyExc_StopIteration)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_RuntimeError, "a function raised StopIteration");
        }
        return value;
    }
    """
    enum:
        NATURE_IS_SHOWN

    ctypedef struct walk:
        PyObject *natures
        PyObject *unknown
        int depth

    enum:
        NESTED_MAX

    bint is_plain(PyObject *value) noexcept
    bint are_plain(PyObject *values) noexcept
    bint has_plain_values(PyObject *values) noexcept
    bint is_referenced(PyObject *value, Py_ssize_t times) noexcept
    bint is_detached(PyObject *value, bint owned, walk *way) noexcept
    bint shows_everything(PyTypeObject *kind, PyTypeObject *made_by_statement) noexcept
    bint has_dictionary(PyTypeObject *kind) noexcept
    PyObject *next_value(PyObject *iterator) except? NULL
    PyObject *call_on(PyObject *record, PyObject *function) except NULL


cdef extern from *:
    """
    #define taken(value) (value)
    """
    object taken(PyObject *value)  # Takes over the reference to the value.


cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *value) noexcept
    void Py_INCREF(PyObject *value) noexcept
    void Py_DECREF(PyObject *value) noexcept
    PyObject *Py_None
    PyObject *PyList_GET_ITEM(PyObject *values, Py_ssize_t index) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject *values) noexcept
    PyObject *PySequence_Fast_GET_ITEM(PyObject *values, Py_ssize_t index) noexcept


class _Made:
    """A class created by a class statement, for comparison with others."""


cdef enum:
    CLASSES_REMEMBERED = 1024  # more than the records of a program have

cdef dict _natures = {}
cdef object _made = _Made
cdef tuple _BATCH_ITERATORS = (type(iter([])), type(iter(())), ArrivedRecords, ConvertedRecords)
cdef int ALWAYS = Detachment.ALWAYS
cdef object _NOT_COPIED = object()


cdef _learn(kind):
    """Remember how the objects of a class can change, and whether a traversal shows all of it."""
    cdef int nature = nature_of(kind).nature
    cdef PyTypeObject *known = <PyTypeObject *>kind
    if shows_everything(known, <PyTypeObject *>_made) or (
        hasattr(kind, "__struct_config__") and not has_dictionary(known)
    ):
        nature |= NATURE_IS_SHOWN
    if len(_natures) >= CLASSES_REMEMBERED:
        _natures.clear()
    _natures[kind] = nature


cdef bint _is_detached(PyObject *value, bint owned) except -1:
    cdef walk way
    cdef object kind
    way.natures = <PyObject *>_natures
    way.unknown = NULL
    while True:
        way.depth = NESTED_MAX
        if is_detached(value, owned, &way):
            if way.unknown is not NULL:
                Py_DECREF(way.unknown)
            return True
        if way.unknown is NULL:
            return False
        # The walk must not run Python code, but learning a class does. The walk therefore ends at
        # an unknown class, and begins again once the class is known.
        kind = <object>way.unknown
        Py_DECREF(way.unknown)
        way.unknown = NULL
        _learn(kind)


cdef inline object _given(PyObject *value, bint owned, int detachment):
    """Take over a reference to a value, and return the value detached.

    ``owned`` tells whether all references to the value are known.
    """
    if is_plain(value) or not detachment:
        return taken(value)
    return _given_otherwise(value, owned, detachment)


cdef object _given_otherwise(PyObject *value, bint owned, int detachment):
    try:
        return _detached(<object>value, owned, detachment)
    finally:
        Py_DECREF(value)


cdef object _detached(value, bint owned, int detachment):
    if _is_detached(<PyObject *>value, owned):
        return value
    if type(value) is dict and has_plain_values(<PyObject *>value):
        return PyDict_Copy(value)
    if type(value) is list and are_plain(<PyObject *>value):
        return value[:]
    made = _copied_containers(<PyObject *>value, NESTED_MAX)
    return copied_as(detachment, value) if made is _NOT_COPIED else made


cdef object _copied_containers(PyObject *value, int depth):
    """Return a copy of a tuple, list or dict of plain values and of such containers.

    Each inner container must be referenced only by its outer container. None of them then occurs
    twice, so no memo is needed. Return _NOT_COPIED otherwise.
    """
    cdef object held = <object>value
    cdef Py_ssize_t index
    cdef bint is_same = True
    cdef PyObject *part
    cdef list parts
    if depth == 0:
        return _NOT_COPIED
    if type(held) is dict:
        return _copied_dict(<dict>held, depth)
    if type(held) is not list and type(held) is not tuple:
        return _NOT_COPIED
    parts = []
    for index in range(len(held)):
        if index >= len(held):  # a finaliser has run, and changed it
            return _NOT_COPIED
        part = PySequence_Fast_GET_ITEM(value, index)
        made = _copied_part(part, depth)
        if made is _NOT_COPIED:
            return _NOT_COPIED
        is_same = is_same and <PyObject *>made == part
        parts.append(made)
    if type(held) is list:
        return parts if len(parts) == len(held) else _NOT_COPIED
    return held if is_same else tuple(parts)


cdef object _copied_dict(dict values, int depth):
    cdef Py_ssize_t position = 0, number = len(values)
    cdef PyObject *key
    cdef PyObject *value
    cdef dict made = {}
    while PyDict_Next(values, &position, &key, &value):
        if not is_plain(key):
            return _NOT_COPIED
        name = <object>key
        copied = _copied_part(value, depth)
        if copied is _NOT_COPIED or len(values) != number:
            return _NOT_COPIED
        made[name] = copied
    return made


cdef object _copied_part(PyObject *part, int depth):
    if is_plain(part):
        return <object>part
    return _copied_containers(part, depth - 1) if is_referenced(part, 1) else _NOT_COPIED


def detached(value, int detachment=ALWAYS):
    if is_plain(<PyObject *>value) or not detachment:
        return value
    return _detached(value, False, detachment)


def all_detached(values, int detachment=ALWAYS):
    if type(values) is list and (not detachment or are_plain(<PyObject *>values)):
        return values
    return each_detached(values, detachment)


cdef class each_detached:
    cdef object _values  # an iterator, or a list with its next index in _position
    cdef bint _is_list
    cdef Py_ssize_t _position
    cdef int _detachment

    def __init__(self, values, int detachment=ALWAYS):
        self._detachment = detachment
        self._begin(values)

    cdef _begin(self, values):
        self._is_list = type(values) is list
        self._position = 0
        self._values = values if self._is_list else iter(values)

    cdef PyObject *_next(self, bint *owned) except? NULL:
        """Return the next value; NULL at the end.

        ``owned`` is set if the reference to the value is the only one. The reference from a list
        does not count, if only this object refers to the list.
        """
        cdef PyObject *values = <PyObject *>self._values
        cdef PyObject *value
        if not self._is_list:
            value = next_value(values)
            if value is not NULL:
                owned[0] = is_referenced(value, 1)
            return value
        if self._position >= PyList_GET_SIZE(values):
            return NULL
        value = PyList_GET_ITEM(values, self._position)
        self._position += 1
        owned[0] = Py_REFCNT(values) == 1 and is_referenced(value, 1)
        Py_INCREF(value)
        return value

    def __iter__(self):
        return self

    def __next__(self):
        cdef bint owned = False
        cdef PyObject *value = self._next(&owned)
        if value is NULL:
            raise StopIteration
        return _given(value, owned, self._detachment)


cdef class each_result(each_detached):
    cdef object _results

    def __init__(self, results, int detachment=ALWAYS):
        self._results = iter(results)
        self._detachment = detachment

    def __next__(self):
        cdef bint owned = False
        cdef PyObject *value
        while True:
            if self._values is not None:
                value = self._next(&owned)
                if value is not NULL:
                    return _given(value, owned, self._detachment)
                self._values = None
            value = next_value(<PyObject *>self._results)
            if value is NULL:
                raise StopIteration
            if value is not Py_None:
                self._begin(<object>value)
            Py_DECREF(value)


cdef class _OnEach:
    """A function applied to each record.

    The reference from a batch does not count: no other code reads or changes a batch again.
    """

    cdef object _call
    cdef object _records
    cdef int _detachment
    cdef Py_ssize_t _of_batch

    def __init__(self, call, records, int detachment=ALWAYS):
        self._call = call
        self._records = iter(records)
        self._detachment = detachment
        self._of_batch = isinstance(records, _BATCH_ITERATORS)

    def __iter__(self):
        return self


cdef class each_returned(_OnEach):
    def __next__(self):
        cdef PyObject *record = next_value(<PyObject *>self._records)
        cdef PyObject *value
        if record is NULL:
            raise StopIteration
        value = call_on(record, <PyObject *>self._call)
        return _given(
            value,
            is_referenced(value, 1 + self._of_batch if value is record else 1),
            self._detachment,
        )


cdef class each_passed(_OnEach):
    def __next__(self):
        cdef PyObject *record
        cdef bint passes
        while True:
            record = next_value(<PyObject *>self._records)
            if record is NULL:
                raise StopIteration
            Py_INCREF(record)
            try:
                passes = taken(call_on(record, <PyObject *>self._call))
            except:
                Py_DECREF(record)
                raise
            if passes:
                return _given(record, is_referenced(record, 1 + self._of_batch), self._detachment)
            Py_DECREF(record)
