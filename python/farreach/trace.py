"""Traces: reading them as arrays, and writing them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Protocol, Tuple, Type, Union, cast

import numpy as np
import numpy.typing as npt

from . import _core
from .tlb import LOAD

__all__ = ["Trace", "TraceLike", "References", "Batch", "Event", "Words", "TraceWriter", "formats"]


@dataclass(frozen=True)
class Event:
    """What a program does besides references: mappings, processes, threads."""

    #: Position: so many references of its batch stand before it; in `Words`, the index of its word.
    at: int
    #: Number of the address space.
    pid: int
    #: `start`, `map`, `unmap`, `remap`, `protect`, `advise`, `fork`, `thread_start`, `thread_exit`, `switch`, `end`;
    #: `pages` at the beginning of a page trace, `samples` at that of samples; in `Words` also `define`.
    name: str
    #: What belongs to it: `start`, `len`, `prot` and so on, as in the book's page about traces.
    fields: Mapping[str, Any]

    @classmethod
    def _of(cls, raw: Tuple[int, int, str]) -> Event:
        at, pid, text = raw
        value = json.loads(text)
        ((name, fields),) = value.items() if isinstance(value, dict) else [(value, {})]
        words = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
        return cls(at, pid, words, fields if isinstance(fields, dict) else {"value": fields})

    def _raw(self) -> Tuple[int, int, str]:
        name = "".join(word.capitalize() for word in self.name.split("_"))
        fields = self.fields["value"] if set(self.fields) == {"value"} else dict(self.fields)
        return self.at, self.pid, json.dumps({name: fields} if fields else name)


@dataclass(frozen=True)
class Batch:
    """References in program order, one element of each array per reference."""

    #: Virtual address of the first byte (uint64).
    address: npt.NDArray[np.uint64]
    #: Bytes (uint32).
    size: npt.NDArray[np.uint32]
    #: 0 fetch, 1 load, 2 store (uint8).
    kind: npt.NDArray[np.uint8]
    #: Number of the address space: 0, 1, ... in order of appearance (uint32).
    pid: npt.NDArray[np.uint32]
    #: Events between the references.
    events: List[Event] = field(default_factory=list)

    def __len__(self) -> int:
        """References."""
        return len(self.address)

    def to_arrow(self) -> Any:
        """The references as a `pyarrow.RecordBatch`, without a copy."""
        import pyarrow as pa

        columns = {"address": self.address, "size": self.size, "kind": self.kind, "pid": self.pid}
        return pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], names=list(columns))

    def to_frame(self) -> Any:
        """The references as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame({"address": self.address, "size": self.size, "kind": self.kind, "pid": self.pid})


@dataclass(frozen=True)
class Words:
    """A piece of the stream as it is stored: executions of blocks.

    A word without its top bit executes the block in its low half; so many address words follow as its high half says.
    A word with the top bit stands for the event of that index. Events named `define` define blocks: `id`, and `block`
    with `instrs` (address, length) and `refs` (`after` so many instructions, `kind`, `size`, address `word`, `offset`
    behind it). An address of 2^64-1 marks a conditional reference that did not happen.
    """

    #: Number of the address space.
    pid: int
    #: The words (uint64).
    words: npt.NDArray[np.uint64]
    #: Its events, in order.
    events: List[Event]


class Trace:
    """A stored trace, or a kernel of the catalogue (`workload:gups:size=64M`). It is opened anew for each use.

    Args:
        file: path of a trace in any format that farreach reads, plain or compressed; `-` is standard input.
        format: read it as this format instead of finding out by content; `formats()` lists them. Any text is
            `text:address=2,kind=3`, with the columns in which these are, and what else its page in the book says.

    Raises:
        OSError: there is no such file.
        TraceError: it is no trace.
    """

    def __init__(self, file: Union[str, os.PathLike[str]], format: Optional[str] = None) -> None:
        self.file = os.fspath(file)
        self.format = format
        if self.file != "-":
            self._first: Optional[_core.TraceReader] = _core.TraceReader(self.file, format)

    def _open(self) -> _core.TraceReader:
        first, self._first = getattr(self, "_first", None), None
        return first or _core.TraceReader(self.file, self.format)

    @property
    def info(self) -> Mapping[str, Any]:
        """What is known before reading: `file`, `format`, `compression`, `bytes`, `header`. Empty for a kernel."""
        reader = self._open()
        self._first = reader
        return json.loads(reader.info() or "{}")  # type: ignore[no-any-return]

    def summary(self) -> Mapping[str, Any]:
        """What the trace contains, as `farreach trace info --json`. It is read to its end.

        Raises:
            TraceError: it cannot be read to its end. A stream against the rules is no error: see `violation`.
        """
        return json.loads(_core.summarize(self.file, self.format))  # type: ignore[no-any-return]

    def batches(self, size: int = 1 << 17) -> Iterator[Batch]:
        """The references as arrays, `size` or a few more at a time.

        Raises:
            TraceError: the trace is damaged; what comes before has been given.
        """
        if size < 1:
            raise ValueError(f"size = {size} is not allowed: size must be at least 1")
        reader = self._open()
        while (columns := reader.columns(size)) is not None:
            address, length, kind, pid, events = columns
            yield Batch(address, length, kind, pid, [Event._of(event) for event in events])

    def __iter__(self) -> Iterator[Batch]:
        """As `batches()`."""
        return self.batches()

    def words(self) -> Iterator[Words]:
        """The stream as it is stored, without taking it apart and without a copy."""
        reader = self._open()
        while (piece := reader.words()) is not None:
            pid, words, events = piece
            yield Words(pid, words, [Event._of(event) for event in events])

    def __repr__(self) -> str:
        return f"Trace({self.file!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        return Trace, (self.file, self.format)


def formats() -> Mapping[str, str]:
    """The formats that farreach reads, with a line about each."""
    return dict(_core.formats())


class _Arrow(Protocol):
    """A table or record batch of Arrow."""

    @property
    def schema(self) -> Any: ...
    def column(self, name: Any, /) -> Any: ...


class _Frame(Protocol):
    """A frame of pandas or of its like."""

    @property
    def columns(self) -> Any: ...
    def __getitem__(self, name: Any, /) -> Any: ...


#: References of your own: an array of addresses, arrays by name, a structured array, a frame, an Arrow table, a batch.
References = Union["npt.NDArray[Any]", Mapping[str, Any], Batch, _Arrow, _Frame]
#: What is simulated: a path or `workload:NAME`, a `Trace`, references, or an iterable of these.
TraceLike = Union[str, "os.PathLike[str]", Trace, References, Iterable[References]]

_Columns = Tuple[Any, Any, Any, Any, List[Tuple[int, int, str]]]


def _column(values: Any, dtype: Any, name: str) -> Any:
    """A column as the compiled half takes it. Numbers that do not fit are refused, not cut."""
    if isinstance(values, (int, np.integer)):
        top = int(np.iinfo(dtype).max)
        if not 0 <= int(values) <= top:
            raise ValueError(f"{name} = {values} is not allowed: {name} must be from 0 to {top}")
        return int(values)
    given = np.asarray(values)
    if given.ndim != 1:
        raise ValueError(f"{name} has {given.ndim} dimensions; one is allowed")
    if given.dtype == dtype:
        return np.ascontiguousarray(given)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{name} has elements of {given.dtype}; whole numbers are allowed")
    top = int(np.iinfo(dtype).max)
    if len(given) and (int(given.min()) < 0 or int(given.max()) > top):
        bad = int(given.min()) if int(given.min()) < 0 else int(given.max())
        raise ValueError(f"{name} = {bad} is not allowed: {name} must be from 0 to {top}")
    return np.ascontiguousarray(given.astype(dtype))


def _columns(references: Any) -> _Columns:
    """References as the user has them, as columns."""
    events: List[Tuple[int, int, str]] = []
    if isinstance(references, Batch):
        events = [event._raw() for event in references.events]
        named: Any = vars(references)
        names = {"address", "size", "kind", "pid"}
    elif isinstance(references, np.ndarray) and references.dtype.names is None:
        named, names = {"address": references}, {"address"}
    elif isinstance(references, np.ndarray):
        named, names = references, set(references.dtype.names or ())
    elif hasattr(references, "schema") and hasattr(references, "column"):  # Arrow
        names = set(references.schema.names)
        named = {name: np.asarray(references.column(name)) for name in names}
    elif hasattr(references, "columns"):  # a frame
        named = {str(name): references[name].to_numpy() for name in references.columns}
        names = set(named)
    elif isinstance(references, Mapping):
        named, names = references, set(references)
    else:
        raise TypeError(
            f"references of {type(references).__name__}: an array of addresses, arrays by name (dict, structured "
            "array, Arrow table or record batch, frame), a Batch, or an iterable of these is allowed"
        )
    unknown = sorted(names - {"address", "size", "kind", "pid"})
    if unknown or "address" not in names:
        what = f"unknown column '{unknown[0]}'" if unknown else "the column 'address' is missing"
        raise ValueError(f"{what}: address, size, kind and pid are allowed")
    given = {name: named[name] for name in names}
    return (
        _column(given["address"], np.uint64, "address"),
        _column(given.get("size", 1), np.uint32, "size"),
        _column(given.get("kind", LOAD), np.uint8, "kind"),
        _column(given.get("pid", 0), np.uint32, "pid"),
        events,
    )


def _is_references(given: Any) -> bool:
    """Whether this is one piece of references, not an iterable of pieces."""
    return isinstance(given, (Batch, np.ndarray, Mapping)) or hasattr(given, "schema") or hasattr(given, "columns")


def _pieces(given: Any) -> Iterator[_Columns]:
    """References, or an iterable of them, piece by piece."""
    if _is_references(given):
        yield _columns(given)
    else:
        for piece in given:
            yield _columns(piece)


class TraceWriter:
    """Writes a farreach trace. The file gets its name when it is whole; after an exception there is none.

    Args:
        file: path of the trace.
        header: what it says about its origin: `program`, `arguments`, `environment`, `date`, `recorder`, and more.

    >>> import numpy as np, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "mine.frt")
    >>> with TraceWriter(path) as writer:
    ...     writer.write({"address": np.arange(0, 1 << 20, 64, dtype=np.uint64), "size": 8})
    >>> writer.totals["loads"]
    16384
    """

    def __init__(self, file: Union[str, os.PathLike[str]], header: Optional[Mapping[str, Any]] = None) -> None:
        self.file = os.fspath(file)
        origin = {"recorder": f"farreach {_core.__version__} (Python)"}
        self._writer = _core.Writer(self.file, json.dumps({**origin, **(header or {})}))
        #: What was written, once it is closed: `instructions`, `loads`, `stores`, `events`.
        self.totals: Mapping[str, int] = {}

    def write(self, references: Union[Words, References, Iterable[References]]) -> None:
        """Appends references: a `Batch`, arrays by name, an array of addresses, an Arrow table, `Words`, or an
        iterable of these.

        Raises:
            TraceError: a reference that is not possible, with its number.
        """
        if isinstance(references, Words):
            events = [event._raw() for event in references.events]
            self._writer.words(references.pid, np.ascontiguousarray(references.words, dtype=np.uint64), events)
        elif _is_references(references):
            self._writer.columns(_columns(references))
        else:
            for piece in cast(Iterable[References], references):
                self.write(piece)

    def close(self) -> None:
        """Makes the file whole."""
        instructions, loads, stores, events = self._writer.close()
        self.totals = {"instructions": instructions, "loads": loads, "stores": stores, "events": events}

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._writer.abandon()


def sources_of(traces: Any, slice_: int) -> Tuple[Any, str]:
    """Several traces that take turns, as the compiled half takes them, and their name for the result."""
    if isinstance(traces, (str, os.PathLike, Trace)) or not isinstance(traces, Iterable):
        raise ValueError("interleave needs several traces: a list of paths or Traces")
    found = [source_of(one) if isinstance(one, (str, os.PathLike, Trace)) else None for one in traces]
    named = [one for one in found if one is not None]
    if len(named) < 2 or len(named) < len(found):
        raise ValueError("interleave needs two traces or more, each a path, workload:NAME or a Trace")
    return ([source for source, _ in named], slice_), " + ".join(label for _, label in named)


def source_of(trace: TraceLike) -> Tuple[Any, str]:
    """A trace as the compiled half takes it, and its name for the result."""
    if isinstance(trace, Trace):
        return (trace.file, trace.format), trace.file
    if isinstance(trace, (str, os.PathLike)):
        return (os.fspath(trace), None), os.fspath(trace)
    if isinstance(trace, Iterable) or _is_references(trace):
        return _pieces(trace), "arrays"
    raise TypeError(f"{type(trace).__name__} is no trace: a path, a Trace or references are allowed")
