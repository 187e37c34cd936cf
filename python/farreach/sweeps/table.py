"""The table of a sweep: a row for each point."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Union

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

    def pareto(self, x: str = "area_rbe", y: str = "misses") -> Any:
        """The rows that no other row beats in both columns, least `x` first; machines are compared by their sums over
        programs, limits and seeds."""
        sums = self.frame.groupby("machine", sort=False)[[x, y]].agg({x: "max" if x == "area_rbe" else "sum", y: "sum"})
        sums = sums.dropna().astype(float).sort_values([x, y])
        best, kept = float("inf"), []
        for name, row in sums.iterrows():
            if row[y] < best:
                best = row[y]
                kept.append(name)
        return sums.loc[kept].reset_index()

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
