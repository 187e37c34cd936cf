"""Frames: results as tables of pandas."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .extras import need

__all__ = ["Row", "flat", "row_of", "context_rows", "phase_rows", "frame"]

#: A row of a table: values by column.
Row = Mapping[str, Any]
#: Parts of a machine's result whose members are columns without a prefix, and those with one.
_PLAIN, _PREFIXED = (
    ("counts", "memory", "cost"),
    ("estimate", "contiguity", "segments", "ideal_segment", "caches", "system"),
)
_LIMIT = re.compile(r"--limit (\d+)")


def flat(value: Row, prefix: str = "", row: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Numbers and texts of nested objects, with dotted names. Lists are left out."""
    row = {} if row is None else row
    for name, member in value.items():
        if isinstance(member, dict):
            flat(member, f"{prefix}{name}.", row)
        elif not isinstance(member, list):
            row[prefix + name] = member
    return row


#: What a whole system runs in, by whether it is its kernel.
PRIVILEGES = {True: "kernel", False: "user"}


def _sums(contexts: Sequence[Row], prefix: str, row: Dict[str, Any]) -> None:
    """Adds up the numbers of contexts by privilege."""
    for kernel, name in PRIVILEGES.items():
        for context in contexts:
            for key, value in flat(context, f"{prefix}{name}.").items():
                if isinstance(value, int) and not isinstance(value, bool) and not key.endswith(".space"):
                    row[key] = row.get(key, 0) + (value if context["kernel"] == kernel else 0)


def context_rows(workload: Row, machine: Row) -> List[Dict[str, Any]]:
    """The contexts of a whole system in which a machine counted, as rows: what it counted, and the references there."""
    if "guest" not in workload or "guest" not in machine:
        return []

    def which(context: Row) -> Dict[str, Any]:
        return {
            "program": context["program"],
            "privilege": PRIVILEGES[context["kernel"]],
            "space": context["space"],
        }

    used = {tuple(which(context).values()): context for context in workload["guest"]["contexts"]}
    rows = []
    for counted in machine["guest"]["contexts"]:
        row = {"machine": machine["name"], **which(counted)}
        flat(used[tuple(which(counted).values())]["references"], "references.", row)
        rows.append({**row, **{name: value for name, value in counted.items() if name not in {"kernel", *row}}})
    return rows


def phase_rows(machine: Row) -> List[Dict[str, Any]]:
    """What a machine counted in each phase, as rows, with the number of the phase from 1; none if there are none."""
    return [{"phase": number, **flat(phase)} for number, phase in enumerate(machine.get("phases", ()), 1)]


def row_of(workload: Row, machine: Row) -> Dict[str, Any]:
    """A machine on a program as a row: `program`, `machine`, `limit` and `seed`, all counts, memory and cost as in
    `--csv`, then `workload.*` and `config.*`. The limit is that which ended the program; none: it ended by itself."""
    stopped = _LIMIT.fullmatch(workload.get("stopped") or "")
    row: Dict[str, Any] = {
        "program": workload["source"],
        "machine": machine["name"],
        "limit": int(stopped[1]) if stopped else None,
        "seed": workload["seed"],
        "name": machine["name"],
    }
    for part in _PLAIN:
        flat(machine[part], "", row)
    for part in _PREFIXED:
        if part in machine:
            flat(machine[part], f"{part}.", row)
    if "guest" in machine:
        flat(machine["guest"], "", row)
        _sums(machine["guest"]["contexts"], "", row)
    flat(workload, "workload.", row)
    if "guest" in workload:
        _sums(workload["guest"]["contexts"], "workload.guest.", row)
    for key, value in machine["config"].items():
        row[f"config.{key}"] = "+".join(map(str, value)) if isinstance(value, list) else value
    return row


def _column(values: List[Any]) -> Any:
    """A column of one type: a missing value has none."""
    import pandas as pd

    there = [value for value in values if value is not None]
    if there and all(isinstance(value, bool) for value in there):
        return pd.array(values, dtype="boolean")
    if there and all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        large = max(there) >= 1 << 63
        return pd.array(values, dtype="UInt64" if large else "Int64")
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in there):
        return pd.array([float("nan") if value is None else float(value) for value in values], dtype="float64")
    return pd.Series([None if value is None else str(value) for value in values], dtype="object")


def frame(rows: Sequence[Row]) -> Any:
    """Rows as a `pandas.DataFrame`, each column of one type.

    Raises:
        MissingExtra: pandas is not installed.
    """
    need("a frame", "pandas")
    import pandas as pd

    names: Dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in names})
