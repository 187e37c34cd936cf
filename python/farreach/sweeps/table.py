"""The table of a sweep: a row for each point."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Union

from .. import aggregate
from ..aggregate import Mean
from ..extras import need
from ..frames import frame
from .files import whole, write_whole

if TYPE_CHECKING:
    from ..plots import SweepPlots

__all__ = ["Sweep", "SCHEMA"]

#: Version of the table: columns may be added under the same version, none is renamed or removed.
SCHEMA = "farreach.sweep/1"


#: The forms of a table on disk.
_ENDINGS = ("parquet", "csv", "jsonl")


def _write(folder: Path, name: str, table: Any) -> None:
    """Writes a frame in all forms."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata({"schema": SCHEMA})
    with whole(folder / f"{name}.parquet") as partial:
        pq.write_table(arrow, partial, compression="zstd")
    out = io.StringIO()
    table.to_csv(out, index=False, lineterminator="\n")
    write_whole(folder / f"{name}.csv", out.getvalue())
    rows = json.loads(table.to_json(orient="records", double_precision=15)) if len(table) else []
    write_whole(folder / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def _is_sweep(folder: Path) -> bool:
    """Whether a sweep was saved in this folder."""
    try:
        about = json.loads((folder / "sweep.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(about, dict) and about.get("schema") == SCHEMA


class Sweep:
    """What a sweep found.

    `frame` has a row for each point: `program`, `machine`, `limit`, `seed`, then all counts, memory and cost, then
    `workload.*` and `config.*`, named as in the CSV of `farreach sim`. `phases` has a row for each point and phase, of
    a sweep with `every`. `failures` has the points that could not be run, each with its message.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        failures: Sequence[Mapping[str, Any]],
        about: Mapping[str, Any],
        phases: Sequence[Mapping[str, Any]] = (),
    ):
        self._rows, self._phase_rows = list(rows), list(phases)
        self.failures: List[Mapping[str, Any]] = list(failures)
        #: The experiment, the version of the model, and what else is known of the sweep.
        self.about = about
        self._frame: Any = None
        self._phases: Any = None

    @property
    def phases(self) -> Any:
        """What was counted phase by phase, as a `pandas.DataFrame`: `program`, `machine`, `limit`, `seed`, `phase`
        (from 1), then counts under the names of the JSON. Empty without `every`."""
        if self._phases is None:
            self._phases = frame(self._phase_rows)
        return self._phases

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
        need("a picture", "pandas", "altair", "vl_convert")
        from ..plots import SweepPlots

        return SweepPlots(self.frame, str(self.about.get("name", "")), self.failures)

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
        return aggregate.best(self.frame, y, Mean(mean, base, where))

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
        return aggregate.pareto(self.frame, x, y, Mean(mean, base, where))

    def save(self, folder: Union[str, os.PathLike[str]]) -> Path:
        """Writes `table.parquet`, `table.csv`, `table.jsonl` and `sweep.json` into a folder; of a sweep with `every`
        also `phases.parquet`, `phases.csv` and `phases.jsonl`. The same table gives the same bytes."""
        need("the table of a sweep", "pandas", "pyarrow")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        _write(path, "table", self.frame)
        if len(self.phases):
            _write(path, "phases", self.phases)
        elif _is_sweep(path):
            # Those of a sweep that was saved here before.
            for ending in _ENDINGS:
                (path / f"phases.{ending}").unlink(missing_ok=True)
        about = {"schema": SCHEMA, **self.about, "points": len(self.frame), "failures": self.failures}
        write_whole(path / "sweep.json", json.dumps(about, indent=2) + "\n")
        return path

    @classmethod
    def load(cls, folder: Union[str, os.PathLike[str]]) -> Sweep:
        """A sweep that `save` or `farreach sweep` wrote.

        Raises:
            OSError, ValueError: there is none.
        """
        need("the table of a sweep", "pandas", "pyarrow")
        import pandas as pd

        path = Path(folder)
        about = json.loads((path / "sweep.json").read_text(encoding="utf-8"))
        schema = about.get("schema") if isinstance(about, dict) else None
        if schema != SCHEMA:
            raise ValueError(f"{path}: schema = {schema!r} is not allowed: it must be {SCHEMA!r}")
        failures, _ = about.pop("failures", []), about.pop("points", None)
        sweep = cls([], failures, {key: value for key, value in about.items() if key != "schema"})
        sweep._frame = pd.read_parquet(path / "table.parquet")
        if (path / "phases.parquet").exists():
            sweep._phases = pd.read_parquet(path / "phases.parquet")
        return sweep

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Sweep {self.about.get('name', '')}: {len(self.frame)} points{failed}>"
