"""Columns that other libraries read where they lie: Arrow's C data interface and its capsules in Python
(https://arrow.apache.org/docs/format/CDataInterface.html, CStreamInterface.html, CDataInterface/PyCapsuleInterface.html)."""

from __future__ import annotations

import ctypes
import itertools
import typing
from array import array
from typing import Any, Dict, List, Tuple

from . import _types

POINTER = ctypes.c_void_p
NULLABLE = 2  # ARROW_FLAG_NULLABLE


class ArrowSchema(ctypes.Structure):
    _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
                ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(POINTER)), ("dictionary", POINTER), ("release", POINTER),
                ("private_data", POINTER)]


class ArrowArray(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64), ("n_buffers", ctypes.c_int64),
                ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(POINTER)), ("children", ctypes.POINTER(POINTER)),
                ("dictionary", POINTER), ("release", POINTER), ("private_data", POINTER)]


class ArrowArrayStream(ctypes.Structure):
    _fields_ = [(name, POINTER) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


class Table:
    """Rows as columns of Arrow, which `polars.DataFrame`, `pandas.DataFrame.from_arrow` and `pyarrow.table` take where they lie."""

    def __init__(self, rows: List[Dict[str, Any]]) -> None:
        types = typing.get_type_hints(_types.Sweep, vars(_types))
        self._length = len(rows)
        self._columns = [(name, *_column(types[name], [row[name] for row in rows])) for name in rows[0]]

    def __len__(self) -> int:
        return self._length

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream = ArrowArrayStream(get_schema=_address(_get_schema), get_next=_address(_get_next), get_last_error=_address(_get_last_error))
        _keep(stream, _release_stream, iter([self._array]), self)
        _given[ctypes.addressof(stream)] = stream
        return _new_capsule(ctypes.addressof(stream), STREAM, _drop)

    def _schema(self) -> Any:
        children = []
        for name, kind, *_ in self._columns:
            children.append(ArrowSchema(format=kind, name=name.encode(), flags=NULLABLE))
            _keep(children[-1], _release_schema)
        return _parent(ArrowSchema(format=b"+s", name=b""), _release_schema, children)

    def _array(self) -> Any:
        children = []
        for _, _, missing, buffers in self._columns:
            addresses = (POINTER * len(buffers))(*(b.buffer_info()[0] for b in buffers))
            children.append(ArrowArray(length=self._length, null_count=missing, n_buffers=len(buffers), buffers=addresses))
            _keep(children[-1], _release_array, buffers)
        return _parent(ArrowArray(length=self._length, n_buffers=1, buffers=(POINTER * 1)()), _release_array, children)


def _column(kind: Any, values: List[Any]) -> Tuple[bytes, int, List[array[Any]]]:
    """The format of a column, how many of its values are missing, and its buffers: which values there are, and what they are."""
    kinds = typing.get_args(kind) or (kind,)
    there = _bits([v is not None for v in values])
    missing = values.count(None)
    if str in kinds:
        texts = [(v or "").encode() for v in values]
        return b"U", missing, [there, array("q", itertools.accumulate(map(len, texts), initial=0)), array("B", b"".join(texts) + b"\0")]
    if bool in kinds:
        return b"b", missing, [there, _bits(values)]
    if float in kinds:
        return b"g", missing, [there, array("d", [v or 0 for v in values])]
    return b"l", missing, [there, array("q", [v or 0 for v in values])]


def _bits(values: List[Any]) -> array[int]:
    """A bit for each value, the first in the lowest."""
    number = int("".join("1" if v else "0" for v in reversed(values)), 2)
    return array("B", number.to_bytes(len(values) // 8 + 1, "little"))


# What structures point to lives until they are released, wherever they were moved to: by their private data.
_kept: Dict[int, Tuple[Any, ...]] = {}
_numbers = itertools.count(1)
# Structures in capsules, by their addresses.
_given: Dict[int, ArrowArrayStream] = {}


def _keep(structure: Any, release: Any, *things: Any) -> None:
    structure.release, structure.private_data = _address(release), next(_numbers)
    _kept[structure.private_data] = things


def _parent(structure: Any, release: Any, children: List[Any]) -> Any:
    structure.n_children = len(children)
    structure.children = (POINTER * len(children))(*map(ctypes.addressof, children))
    _keep(structure, release, structure.children, children)
    return structure


def _address(function: Any) -> int:
    return ctypes.cast(function, POINTER).value or 0


def _releases(kind: Any) -> Any:
    """The function that releases structures of a kind, with those of their children that were not moved."""

    def release(address: int) -> None:
        one = kind.from_address(address)
        for i in range(getattr(one, "n_children", 0)):
            if kind.from_address(one.children[i]).release:
                release(one.children[i])
        one.release = None
        _kept.pop(one.private_data)

    return _lasting(ctypes.CFUNCTYPE(None, POINTER)(release))


def _lasting(function: Any) -> Any:
    """A function of C that is there until the process ends, as libraries may release what they hold at any time."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return function


_release_schema, _release_array, _release_stream = _releases(ArrowSchema), _releases(ArrowArray), _releases(ArrowArrayStream)


def _moved(to: int, structure: Any) -> int:
    ctypes.memmove(to, ctypes.addressof(structure), ctypes.sizeof(structure))
    return 0


def _next(stream: int, to: int) -> int:
    arrays, _ = _kept[ArrowArrayStream.from_address(stream).private_data]
    make = next(arrays, ArrowArray)  # an array that is released ends the stream
    return _moved(to, make())


def _schema_of(stream: int, to: int) -> int:
    _, table = _kept[ArrowArrayStream.from_address(stream).private_data]
    return _moved(to, table._schema())


_get_schema = _lasting(ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER)(_schema_of))
_get_next = _lasting(ctypes.CFUNCTYPE(ctypes.c_int, POINTER, POINTER)(_next))
_get_last_error = _lasting(ctypes.CFUNCTYPE(POINTER, POINTER)(lambda stream: None))

STREAM = b"arrow_array_stream"
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, POINTER, ctypes.c_char_p, POINTER)(("PyCapsule_New", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(POINTER, POINTER, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _dropped(capsule: int) -> None:
    address = _pointer(capsule, STREAM)
    stream = _given.pop(address)
    if stream.release:
        _release_stream(address)


_drop = _lasting(ctypes.PYFUNCTYPE(None, POINTER)(_dropped))
