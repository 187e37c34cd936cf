"""The table of a sweep: a row for each point."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import aggregate
from .programs import whole, write_whole

if TYPE_CHECKING:
    from ..plots import SweepPlots

__all__ = ["Sweep", "SCHEMA"]

#: Version of the table: columns may be added under the same version, none is renamed or removed.
SCHEMA = "farreach.sweep/1"


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


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a frame, each column of one type."""
    import pandas as pd

    names: Dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in names})


class Sweep:
    """What a sweep found.

    `frame` has a row for each point: `program`, `machine`, `limit`, `seed`, then all counts, memory and cost, then
    `workload.*` and `config.*`, named as in the CSV of `farreach sim`. `failures` has the points that could not be
    run, each with its message.
    """

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], failures: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
    ):
        self._rows = list(rows)
        self.failures: List[Mapping[str, Any]] = list(failures)
        #: The experiment, the version of the model, and what else is known of the sweep.
        self.about = about
        self._frame: Any = None

    @property
    def frame(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        if self._frame is None:
            self._frame = frame(self._rows)
        return self._frame

    def __len__(self) -> int:
        """Points that were run."""
        return len(self._rows) if self._rows else len(self.frame)

    @property
    def plot(self) -> SweepPlots:
        """Pictures of the table (needs altair)."""
        from ..plots import SweepPlots

        return SweepPlots(self)

    def _machines(
        self, value: str, mean: str, base: Optional[str], where: Optional[Mapping[str, Any]]
    ) -> aggregate.Combined:
        """One value for each machine. Chip area is the same in all cases."""
        rows = aggregate.chosen(self.frame, where)
        if value not in rows:
            raise ValueError(f"the table has no column {value!r}; it has {', '.join(rows.columns)}")
        if value == "area_rbe":
            areas = rows[["machine", value]].dropna().drop_duplicates("machine")
            return aggregate.Combined(areas, "area in register-bit equivalents")
        return aggregate.combined(rows, value, ["machine"], mean, base, self.frame)

    def best(
        self,
        y: str = "misses",
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        """All machines, the one with the least `y` first: a frame with `machine` and `y`.

        Args:
            y: a column of the table.
            mean: over programs, limits and seeds. "geometric": of the values relative to the machine `base`;
                "arithmetic": of the values as they are. Of one program, limit and seed it is the value.
            base: a machine of the table; default: the first.
            where: only points with these values of columns, such as `{"program": ["gcc", "join"]}`.

        Raises:
            ValueError: machines have not the same programs, limits and seeds, or a mean does not exist.
        """
        found = self._machines(y, mean, base, where).frame[["machine", y]]
        return found.sort_values(y, kind="stable").reset_index(drop=True)

    def pareto(
        self,
        x: str = "area_rbe",
        y: str = "misses",
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        """The machines that no other beats in both columns, least `x` first: a frame with `machine`, `x` and `y`.

        Args:
            x, y: columns of the table. Machines without a value of `x`, such as those without a known chip area, take
                no part.
            mean, base, where: as for `best`.

        Raises:
            ValueError: as for `best`.
        """
        both = self._both(x, y, mean, base, where)[0].sort_values([x, y], kind="stable")
        best, kept = float("inf"), []
        for place, value in enumerate(both[y]):
            if value < best:
                best = value
                kept.append(place)
        return both.iloc[kept].reset_index(drop=True)

    def _both(
        self, x: str, y: str, mean: str, base: Optional[str], where: Optional[Mapping[str, Any]]
    ) -> Tuple[Any, str, str]:
        """`machine`, `x` and `y` of all machines that have both, and what the columns are."""
        across, up = (self._machines(name, mean, base, where) for name in (x, y))
        both = across.frame[["machine", x]].merge(up.frame[["machine", y]], on="machine")
        return both.astype({x: float, y: float}), across.title, up.title

    def save(self, folder: Union[str, os.PathLike[str]]) -> Path:
        """Writes `table.parquet`, `table.csv`, `table.jsonl` and `sweep.json` into a folder. The same table gives the
        same bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pandas(self.frame, preserve_index=False)
        table = table.replace_schema_metadata({"schema": SCHEMA})
        with whole(path / "table.parquet") as partial:
            pq.write_table(table, partial, compression="zstd")
        out = io.StringIO()
        self.frame.to_csv(out, index=False, lineterminator="\n")
        write_whole(path / "table.csv", out.getvalue())
        rows = json.loads(self.frame.to_json(orient="records", double_precision=15)) if len(self.frame) else []
        write_whole(path / "table.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        about = {"schema": SCHEMA, **self.about, "points": len(self.frame), "failures": self.failures}
        write_whole(path / "sweep.json", json.dumps(about, indent=2) + "\n")
        return path

    @classmethod
    def load(cls, folder: Union[str, os.PathLike[str]]) -> Sweep:
        """A sweep that `save` or `farreach sweep` wrote.

        Raises:
            OSError, ValueError: there is none.
        """
        import pandas as pd

        path = Path(folder)
        about = json.loads((path / "sweep.json").read_text(encoding="utf-8"))
        schema = about.get("schema") if isinstance(about, dict) else None
        if schema != SCHEMA:
            raise ValueError(f"{path}: schema = {schema!r} is not allowed: it must be {SCHEMA!r}")
        failures, _ = about.pop("failures", []), about.pop("points", None)
        sweep = cls([], failures, {key: value for key, value in about.items() if key != "schema"})
        sweep._frame = pd.read_parquet(path / "table.parquet")
        return sweep

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Sweep {self.about.get('name', '')}: {len(self.frame)} points{failed}>"
