"""Failures in the format of Flink's clients: Java's serialization of a ``SerializedThrowable``.

Flink's REST API sends an exception as such an object, next to its text, and Flink's clients read
only the object. Here it contains only text, and no serialized exception. The format is that of the
Java Object Serialization Specification, chapter 6.

Flink: SerializedThrowableSerializer, org.apache.flink.util.SerializedThrowable.
"""

from __future__ import annotations

from base64 import b64encode
from struct import pack

__all__ = ["failure_cause"]

_MAGIC = b"\xac\xed\x00\x05"
# Java's type codes: TC_NULL, TC_REFERENCE, TC_CLASSDESC, TC_OBJECT, TC_STRING, TC_ARRAY,
# TC_LONGSTRING. ``_END`` is TC_ENDBLOCKDATA.
_NULL, _REFERENCE, _CLASS, _OBJECT, _TEXT, _ARRAY, _LONG_TEXT = map(
    bytes, ([0x70], [0x71], [0x72], [0x73], [0x74], [0x75], [0x7C])
)
_END = b"\x78"
# Flags of a class: SC_SERIALIZABLE, without and with SC_WRITE_METHOD.
_SERIALIZABLE, _WRITES_ITSELF = 2, 3
_STRING_TYPE = _REFERENCE + b"\x00\x7e\x00\x01"
"""Reference to the second handle of the stream: the type name of String."""


def failure_cause(kind: str, message: str) -> dict[str, str]:
    """Return the value of ``failure-cause`` in a response."""
    text = f"{kind}: {message}"
    body = _serialized_throwable(kind, text)
    return {
        "class": kind,
        "stack-trace": message,
        "serialized-throwable": b64encode(body).decode(),
    }


def _serialized_throwable(kind: str, text: str) -> bytes:
    throwable = _class(
        "java.lang.Throwable",
        0xD5C635273977B8CB,
        _field("L", "cause", _name_of_type("Ljava/lang/Throwable;")),
        _field("L", "detailMessage", _STRING_TYPE),
        _field("[", "stackTrace", _name_of_type("[Ljava/lang/StackTraceElement;")),
        _field("L", "suppressedExceptions", _name_of_type("Ljava/util/List;")),
        flags=_WRITES_ITSELF,
        parent=_NULL,
    )
    description = _class(
        "org.apache.flink.util.SerializedThrowable",
        0x65169DF51FA713F3,
        _field("L", "fullStringifiedStackTrace", _name_of_type("Ljava/lang/String;")),
        _field("L", "originalErrorClassName", _STRING_TYPE),
        _field("[", "serializedException", _name_of_type("[B")),
        parent=_class("java.lang.Exception", 0xD0FD1F3E1A3B1CC4, parent=throwable),
    )
    no_frames = _ARRAY + _class("[Ljava.lang.StackTraceElement;", 0x02462A3C3CFD2239, parent=_NULL)
    no_frames += pack(">i", 0)
    # The fields of Throwable: cause, detailMessage, stackTrace, suppressedExceptions.
    own = _NULL + _text(text) + no_frames + _NULL + _END
    # The fields of SerializedThrowable follow those of its superclass.
    return _MAGIC + _OBJECT + description + own + _text(text) + _text(kind) + _NULL


def _class(
    name: str, version: int, *fields: bytes, parent: bytes, flags: int = _SERIALIZABLE
) -> bytes:
    """Return a class descriptor; ``version`` is the class's serialVersionUID."""
    head = _CLASS + _utf(name) + pack(">QBH", version, flags, len(fields))
    return head + b"".join(fields) + _END + parent


def _field(code: str, name: str, type_name: bytes) -> bytes:
    return code.encode() + _utf(name) + type_name


def _name_of_type(name: str) -> bytes:
    return _TEXT + _utf(name)


def _utf(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return pack(">H", len(encoded)) + encoded


def _text(text: str) -> bytes:
    encoded = _modified_utf8(text)
    return _LONG_TEXT + pack(">Q", len(encoded)) + encoded


def _modified_utf8(text: str) -> bytes:
    """Encode text in Java's modified UTF-8.

    Characters beyond the 16-bit range are encoded as two surrogates, and 0 is never a single byte.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    halves = "".join(chr(units[i] << 8 | units[i + 1]) for i in range(0, len(units), 2))
    return halves.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")
