"""What an experiment may say of programs, and lists as people write them."""

from __future__ import annotations

import os
import shlex
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..machine import Machine
from ..quantities import count_of, is_whole
from ..trace import Trace
from .grid import Grid

__all__ = ["program_tables", "several"]

_PROGRAM_KEYS = {
    "trace": {"trace", "format", "interleave", "name", "storage"},
    "command": {"command", "name", "cwd", "status"},
    "workload": {"workload", "name", "size", "references", "seed"},
}


def several(value: Any) -> Optional[List[Any]]:
    """A list, or anything else that can be gone through, or one of its members; None: it is none of these."""
    if value is None or isinstance(value, (str, int, Mapping, os.PathLike, Machine, Grid, Trace, type)):
        return None if value is None or isinstance(value, bool) else [value]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        return None
    return list(value)


def program_tables(given: Any, faults: List[str]) -> List[Dict[str, Any]]:
    """Programs as tables; what is wrong with them goes into `faults`."""
    tables: List[Dict[str, Any]] = []
    programs = several(given)
    if programs is None:
        faults.append(f"program = {given!r} is not allowed: a list of programs is")
        return tables
    for one in programs:
        if isinstance(one, Mapping):
            table = dict(one)
        elif isinstance(one, Trace):
            table = {"trace": one.file, **({"format": one.format} if one.format else {})}
        elif isinstance(one, (str, os.PathLike)):
            text = os.fspath(one)
            table = {"workload": text[9:]} if text.startswith("workload:") else {"trace": text}
        else:
            faults.append(f"program {one!r} is not allowed: a table is")
            continue
        kinds = [kind for kind in _PROGRAM_KEYS if kind in table]
        if len(kinds) != 1:
            faults.append(f"program {table!r}: one of trace, command, workload is allowed, and must be there")
            continue
        before = len(faults)
        named = f"program {table[kinds[0]]!r}"
        allowed = ", ".join(sorted(_PROGRAM_KEYS[kinds[0]]))
        unknown = sorted(set(table) - _PROGRAM_KEYS[kinds[0]])
        faults += [f"{named}: unknown key {key!r}: {allowed} are allowed" for key in unknown]
        for key, value in table.items():
            what = _PROGRAM_VALUES.get(key)
            if what and not what[0](value):
                faults.append(f"{named}: {key} = {value!r} is not allowed: {what[1]} is")
        if len(faults) == before and _is_list(table.get("trace", "")) != ("interleave" in table):
            faults.append(f"{named}: several traces and interleave, the instructions of a time slice, go together")
        if len(faults) == before:
            tables.append(table)
    if not programs:
        faults.append("no program: a [[program]] with trace, command or workload must be there")
    return tables


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and "\0" not in os.fspath(value) and bool(os.fspath(value))


def _is_traces(value: Any) -> bool:
    """A trace, or several that take turns."""
    return _is_text(value) or (_is_list(value) and len(value) > 1 and all(map(_is_text, value)))


def _is_count(value: Any) -> bool:
    try:
        return count_of("interleave", value) is not None
    except ValueError:
        return False


def _is_command(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError:
            return False
    return _is_list(value) and bool(value) and all(map(_is_word, value)) and _is_text(value[0])


def _is_word(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and "\0" not in os.fspath(value)


#: What is right for the keys of programs, and how it is said.
_PROGRAM_VALUES: Dict[str, Tuple[Callable[[Any], bool], str]] = {
    "trace": (_is_traces, "a path or an address, or a list of two or more"),
    "interleave": (_is_count, "a number of instructions such as 2M"),
    "format": (_is_text, "the name of a format"),
    "name": (_is_text, "a name"),
    "storage": (lambda value: isinstance(value, Mapping), "a table"),
    "command": (_is_command, "a list of words"),
    "cwd": (_is_text, "a folder"),
    "status": (lambda value: is_whole(value, 0, 255), "an exit status, 0 to 255,"),
    "workload": (_is_text, "the name of a workload"),
    "size": (lambda value: _is_text(value) or is_whole(value, 1), "a size such as 64K"),
    "references": (lambda value: _is_text(value) or is_whole(value, 1), "a number such as 300K"),
    "seed": (lambda value: is_whole(value, 0), "a whole number"),
}
