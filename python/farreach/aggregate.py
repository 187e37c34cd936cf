"""One number of several points: how a sweep's pictures and rankings put programs, limits and seeds together.

A *case* is a program with its limit and seed. Machines are compared over the same cases and never added up: what has
several machines at one place, or lacks a case that others have, is refused.
"""

from __future__ import annotations

import difflib
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["Mean", "Combined", "combined", "labels", "chosen", "varied", "of_machines", "best", "pareto", "both"]

CASE = ["program", "limit", "seed"]
MEANS = ("geometric", "arithmetic")


class Mean(NamedTuple):
    """How several cases become one value, and which points take part: as `Sweep.best` explains."""

    mean: str = "geometric"
    base: Optional[str] = None
    where: Optional[Mapping[str, Any]] = None


class Combined(NamedTuple):
    """A value for each mark."""

    #: The columns that tell marks apart, `machine`, and the value.
    frame: Any
    #: What the value is, in words for an axis.
    title: str


def chosen(frame: Any, where: Optional[Mapping[str, Any]]) -> Any:
    """The rows whose columns have these values, each one value or a list of them.

    Raises:
        ValueError: there is no such column, or no such row.
    """
    for name, wanted in (where or {}).items():
        column_of(frame, name)
        several = list(wanted) if isinstance(wanted, (list, tuple, set, range)) else [wanted]
        rows = frame[frame[name].isin(several)]
        if not len(rows):
            there = ", ".join(str(value) for value in frame[name].dropna().unique()[:20])
            raise ValueError(f"where: no point has {name} = {wanted!r}; there are {there}")
        frame = rows
    return frame


def varied(frame: Any) -> List[str]:
    """Columns of keys with several values, the kind of machine first. Seeds are cases."""
    keys = [name for name in frame if name.startswith("config.") and name != "config.seed"]
    keys = [name for name in keys if frame[name].nunique(dropna=False) > 1]
    return sorted(keys, key=lambda name: name != "config.kind")


def labels(frame: Any, apart: Sequence[str]) -> List[str]:
    """For each row the kind of its machine, and the keys that vary within that kind but for those of `apart`."""
    found: Dict[Any, str] = {}
    for kind, rows in frame.groupby("config.kind", sort=False):
        keys = [name for name in varied(rows) if name not in apart]
        for index, row in rows[keys].iterrows():
            words = [f"{name[len('config.') :]}={_text(row[name])}" for name in keys if row[name] == row[name]]
            found[index] = " ".join([str(kind), *words])
    return [found[index] for index in frame.index]


def _text(value: Any) -> str:
    """A value as it was given: a column with missing values has whole numbers as others."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def column_of(frame: Any, name: str) -> None:
    """Refuses a column that there is not.

    Raises:
        ValueError: with those most like it.
    """
    if name not in frame:
        near = difflib.get_close_matches(name, [str(column) for column in frame.columns], 5, 0.5)
        like = f"; did you mean {' or '.join(near)}?" if near else f"; it has {', '.join(frame.columns[:20])}, ..."
        raise ValueError(f"the table has no column {name!r}{like}")


def _said(rows: Any, names: Sequence[str]) -> str:
    """One row, by these columns."""
    row = rows.iloc[0]
    return ", ".join(f"{name} {row[name]}" for name in names if row[name] == row[name])


def _cases(frame: Any) -> str:
    """How many cases, in words."""
    counts = [(len(frame[name].unique()), name) for name in CASE]
    words = [f"{count} {name}s" for count, name in counts if count > 1]
    return " and ".join(words)


def combined(
    frame: Any, value: str, by: Sequence[str], mean: str = "geometric", base: Optional[str] = None, table: Any = None
) -> Combined:
    """One value for each mark, which is a set of values of the columns `by`.

    Of one case it is the value itself. Of several it is their geometric mean, each case relative to the machine `base`
    in the same case; or the arithmetic mean of the values as they are.

    Args:
        frame: points.
        value: the column of the value.
        by: columns that tell marks apart.
        mean: "geometric" or "arithmetic".
        base: a machine of the table; default: the first that has all cases.
        table: where the base is looked for, if `frame` is a part of it.

    Raises:
        ValueError: marks have several machines or unequal cases, or a geometric mean does not exist.
    """
    import pandas as pd

    if mean not in MEANS:
        raise ValueError(f"mean = {mean!r} is not allowed: it must be {' or '.join(map(repr, MEANS))}")
    by = list(dict.fromkeys(by))
    columns = [*dict.fromkeys([*by, "machine", *CASE]), value]
    rows = frame[columns].dropna(subset=[value]).copy()
    if not len(rows):
        raise ValueError(f"no point has a value of {value}")
    for name in CASE:
        # A missing limit is one, too.
        rows[name] = rows[name].astype(object).where(rows[name].notna(), "none")
    marks = rows.groupby(by, dropna=False, sort=False)
    several = marks["machine"].nunique()
    if (several > 1).any():
        mark = next(group for _, group in marks if group["machine"].nunique() > 1)
        keys = [name for name in varied(frame.loc[mark.index]) if name not in by]
        raise ValueError(
            f"several machines are at one mark ({_said(mark, by)}): {', '.join(mark['machine'].unique()[:4])}; "
            f"they differ in {', '.join(keys) or 'no key of the table'}. Tell them apart by color or facet, or choose "
            f"by where={{{keys[0] if keys else 'machine'!r}: ...}}"
        )
    cases = rows[CASE].drop_duplicates()
    for _, group in marks:
        lacking = cases.merge(group[CASE], how="left", indicator=True, on=CASE)
        lacking = lacking[lacking["_merge"] == "left_only"]
        # Where a mark tells programs apart, it has those of its own.
        for name in CASE:
            if name in by:
                lacking = lacking[lacking[name].isin(group[name])]
        if len(lacking):
            raise ValueError(
                f"{group['machine'].iloc[0]} has no point of {_said(lacking, CASE)}, which others have: run it, or "
                "leave out one of them by where={...}"
            )
    counted = marks.size()
    if (counted == 1).all():
        return Combined(rows[[*dict.fromkeys([*by, "machine", value])]].reset_index(drop=True), value)
    rows[value] = rows[value].astype(float)
    over = _cases(rows if not set(by) & set(CASE) else rows.drop_duplicates([name for name in CASE if name not in by]))
    if mean == "arithmetic":
        means = marks_of(rows, by, value, lambda values: float(sum(values)) / len(values))
        return Combined(means, f"{value}, arithmetic mean over {over}")
    whole = frame if table is None else table
    base, bases = _base(whole, value, base, cases)
    joined = rows.merge(bases, on=CASE, how="left")
    for name, column in (("base", "base"), ("machine", value)):
        if not (joined[column] > 0).all():
            zero = joined[~(joined[column] > 0)]
            machine = base if name == "base" else zero["machine"].iloc[0]
            raise ValueError(
                f"{value} of {machine} is {zero[column].iloc[0]:g} for {_said(zero, CASE)}: there is no geometric "
                "mean. Choose mean='arithmetic', or leave it out by where={...}"
            )
    joined[value] = joined[value] / joined["base"]
    means = marks_of(joined, by, value, lambda values: math.exp(sum(map(math.log, values)) / len(values)))
    assert isinstance(means, pd.DataFrame)
    return Combined(means, f"{value} relative to {base}, geometric mean over {over}")


def marks_of(rows: Any, by: List[str], value: str, of: Any) -> Any:
    """A row for each mark, with its machine and the mean of its values."""
    marks = rows.groupby(by, dropna=False, sort=False)
    found = marks[value].agg(of).reset_index()
    if "machine" not in by:
        found.insert(len(by), "machine", list(marks["machine"].first()))
    return found


def _base(table: Any, value: str, base: Optional[str], cases: Any) -> Any:
    """The machine to compare with, and its value in each case."""
    rows = table[["machine", *CASE, value]].dropna(subset=[value]).copy()
    for name in CASE:
        rows[name] = rows[name].astype(object).where(rows[name].notna(), "none")
    names = list(dict.fromkeys(rows["machine"]))
    if base is not None and base not in names:
        raise ValueError(f"base = {base!r} is not a machine of the table; it has {', '.join(names[:20])}")
    for name in names if base is None else [base]:
        own = rows[rows["machine"] == name].rename(columns={value: "base"})[[*CASE, "base"]]
        if len(cases.merge(own, on=CASE)) == len(cases):
            own["base"] = own["base"].astype(float)
            return name, own
    who = f"base {base}" if base is not None else "no machine"
    raise ValueError(
        f"{who} has {'all' if base is None else 'not all'} cases of program, limit and seed to compare with"
    )


def of_machines(frame: Any, value: str, how: Mean) -> Combined:
    """One value for each machine of a table. Chip area is the same in all cases."""
    rows = chosen(frame, how.where)
    column_of(rows, value)
    if value == "area_rbe":
        areas = rows[["machine", value]].dropna().drop_duplicates("machine")
        return Combined(areas, "area in register-bit equivalents")
    return combined(rows, value, ["machine"], how.mean, how.base, frame)


def best(frame: Any, y: str, how: Mean) -> Any:
    """`machine` and `y` of all machines, the one with the least `y` first."""
    combined = of_machines(frame, y, how)
    found = combined.frame[["machine", y]].sort_values(y, kind="stable").reset_index(drop=True)
    found.attrs[y] = combined.title
    return found


def both(frame: Any, x: str, y: str, how: Mean) -> Tuple[Any, str, str]:
    """`machine`, `x` and `y` of all machines that have both, and what the columns are."""
    across, up = (of_machines(frame, name, how) for name in (x, y))
    joined = across.frame[["machine", x]].merge(up.frame[["machine", y]], on="machine")
    return joined.astype({x: float, y: float}), across.title, up.title


def pareto(frame: Any, x: str, y: str, how: Mean) -> Any:
    """`machine`, `x` and `y` of the machines that no other beats in both columns, least `x` first."""
    found, across, up = both(frame, x, y, how)
    rows = found.sort_values([x, y], kind="stable")
    least, kept = float("inf"), []
    for place, value in enumerate(rows[y]):
        if value < least:
            least = value
            kept.append(place)
    front = rows.iloc[kept].reset_index(drop=True)
    front.attrs.update({x: across, y: up})
    return front
