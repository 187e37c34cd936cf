"""Results: attributes, tables, frames."""

from __future__ import annotations

import json
import math
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Union

from . import _core

if TYPE_CHECKING:
    from .plots import ResultPlots

__all__ = [
    "Record",
    "Workload",
    "Counts",
    "Memory",
    "Cost",
    "MachineResult",
    "Result",
    "PageSizeResult",
    "ContiguityResult",
]


class Record:
    """A JSON object whose members are attributes. `to_dict()` is the object itself.

    >>> Record({"misses": 3, "walk": {"walks": 2}}).walk.walks
    2
    """

    __slots__ = ("_values",)
    _members: Mapping[str, type] = {}

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._values[name]
        except KeyError:
            there = ", ".join(self._values)
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {there}") from None
        of = type(self)._members.get(name, Record)
        if isinstance(value, dict):
            return of(value)
        if isinstance(value, list):
            return [of(item) if isinstance(item, dict) else item for item in value]
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a result cannot be changed")

    def __getitem__(self, name: str) -> Any:
        """The same as the attribute of this name."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Names of the members."""
        return iter(self._values)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._values]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self._values)!r})"

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON object."""
        return self._values  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return type(self), (self._values,)


class Workload(Record):
    """What ran."""

    __slots__ = ()
    if TYPE_CHECKING:
        source: str
        instructions: int
        references: Record
        lookups: Record
        touched_bytes: int
        processes: int
        threads: int
        stopped: Optional[str]
        seed: int
        huge_pages: Record
        allocator: Optional[str]
        traps: Record


class Counts(Record):
    """Raw integers of hardware and operating system; names as in the book's page about results."""

    __slots__ = ()
    if TYPE_CHECKING:
        lookups: int
        misses: int
        fetch_misses: int
        data_misses: int
        load_misses: int
        store_misses: int
        tag_misses: int
        subblock_misses: int
        superpage_misses: int
        fills: int
        merges: int
        evictions: int
        preloaded: int
        invalidations: int
        page_faults: int
        protection_faults: int
        cow_copies: int
        promotions: int
        demotions: int


class Memory(Record):
    """Memory in bytes: at its peak, but for the last."""

    __slots__ = ()
    if TYPE_CHECKING:
        resident_bytes: int
        mapped_bytes: int
        reserved_bytes: int
        touched_bytes: int
        wasted_bytes: int
        virtual_bytes: int
        resident_at_end_bytes: int


class Cost(Record):
    """What it costs."""

    __slots__ = ()
    if TYPE_CHECKING:
        cycles: int
        os_cycles: int
        cycles_per_instruction: Optional[float]
        percent_of_time: Optional[float]
        total_cycles_per_instruction: Optional[float]
        area_rbe: Optional[float]
        energy_pj: Optional[float]
        energy: Record
        reach_bytes: int


class MachineResult(Record):
    """What one machine of a run found."""

    __slots__ = ()
    _members = {"counts": Counts, "memory": Memory, "cost": Cost}
    if TYPE_CHECKING:
        name: str
        config: Record
        counts: Counts
        memory: Memory
        cost: Cost
        ledger: List[Record]
        timeline: Record
        memory_over_time: Record
        regions: List[Record]

    @property
    def misses_per_1000(self) -> float:
        """Misses per 1000 lookups; not a number where there were none, as in a run by traps."""
        return 1000 * self.counts.misses / self.counts.lookups if self.counts.lookups else math.nan


def _flat(value: Any, prefix: str, row: dict[str, Any]) -> None:
    """Numbers and texts of nested objects, with dotted names. Lists are left out."""
    for name, member in value.items():
        if isinstance(member, dict):
            _flat(member, f"{prefix}{name}.", row)
        elif not isinstance(member, list):
            row[prefix + name] = member


def _row(workload: Mapping[str, Any], machine: Mapping[str, Any]) -> dict[str, Any]:
    """A machine as a row of a table: the columns of `--csv`, and what nested counters there are."""
    row: dict[str, Any] = {"name": machine["name"]}
    for part in ("counts", "memory", "cost"):
        _flat(machine[part], "", row)
    for part in ("contiguity", "segments", "ideal_segment", "caches", "system"):
        if part in machine:
            _flat(machine[part], f"{part}.", row)
    _flat(workload, "workload.", row)
    for key, value in machine["config"].items():
        row[f"config.{key}"] = "+".join(map(str, value)) if isinstance(value, list) else value
    return row


class _Reported:
    """What every result can do: its forms are those of the command."""

    _schema = ""

    def __init__(self, report: _core.Report) -> None:
        self._report = report
        self._values: Mapping[str, Any] = json.loads(report.json())

    @classmethod
    def from_json(cls, text: str) -> Any:
        """A result from its JSON.

        Raises:
            ValueError: it is no JSON, or of another schema.
        """
        result = cls(_core.Report.from_json(text))
        if result._values["schema"] != cls._schema:
            raise ValueError(f"schema = {result._values['schema']!r} is not allowed: it must be {cls._schema!r}")
        return result

    @classmethod
    def load(cls, file: Union[str, os.PathLike[str]]) -> Any:
        """A result from a file that `save` or `--json` wrote."""
        return cls.from_json(Path(file).read_text(encoding="utf-8"))

    def save(self, file: Union[str, os.PathLike[str]]) -> None:
        """Writes the JSON to a file."""
        Path(file).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """As `--json` prints it."""
        return self._report.json()

    def to_csv(self) -> str:
        """As `--csv` prints it."""
        return self._report.csv()

    def to_html(self) -> str:
        """A page complete in itself, as `--html` writes it."""
        return self._report.html()

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON as objects of Python."""
        return self._values

    def table(self, width: Optional[int] = None) -> str:
        """The table for people, in lines of so many characters."""
        return self._report.table(width)

    def __str__(self) -> str:
        return self._report.table(None)

    def _repr_html_(self) -> str:
        # A table of characters stays aligned only in one font.
        return f"<pre style='line-height:1.2'>{escape(self._report.table(None))}</pre>"

    def __reduce__(self) -> Any:
        return type(self).from_json, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values == other._values  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


class Result(_Reported):
    """Everything that a run found: what `farreach sim --json` prints, machine by machine.

    `result["t94/single"]` or `result[0]` is one machine; a loop goes over all.
    """

    _schema = "farreach.result/1"
    #: The exit status of the program, if one ran: negative if a signal ended it.
    status: Optional[int] = None

    @property
    def workload(self) -> Workload:
        """What ran."""
        return Workload(self._values["workload"])

    @property
    def machines(self) -> List[MachineResult]:
        """Machine by machine, in the order asked for."""
        return [MachineResult(machine) for machine in self._values["machines"]]

    def __getitem__(self, which: Union[int, str]) -> MachineResult:
        if isinstance(which, int):
            return self.machines[which]
        for machine in self._values["machines"]:
            if machine["name"] == which:
                return MachineResult(machine)
        names = ", ".join(machine["name"] for machine in self._values["machines"])
        raise KeyError(f"no machine {which!r}; there are {names}")

    def __iter__(self) -> Iterator[MachineResult]:
        return iter(self.machines)

    def __len__(self) -> int:
        return len(self._values["machines"])

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each machine: all counts, `memory` and `cost`, then `workload.*` and
        `config.*`."""
        import pandas as pd

        return pd.DataFrame([_row(self._values["workload"], machine) for machine in self._values["machines"]])

    @property
    def plot(self) -> ResultPlots:
        """Pictures of the result (needs altair)."""
        from .plots import ResultPlots

        return ResultPlots(self)

    def __repr__(self) -> str:
        names = ", ".join(machine["name"] for machine in self._values["machines"])
        return f"<Result of {self.workload.source}: {names}>"


class PageSizeResult(_Reported):
    """What the page-size study found: what `farreach pagesize --json` prints."""

    _schema = "farreach.pagesize/1"
    #: The exit status of the program, if one ran: negative if a signal ended it.
    status: Optional[int] = None

    @property
    def workload(self) -> Workload:
        """What ran."""
        return Workload(self._values["workload"])

    @property
    def rows(self) -> List[Record]:
        """One for each page size: misses, memory, and both relative to the first size."""
        return [Record(row) for row in self._values["rows"]]

    @property
    def advice(self) -> Optional[Record]:
        """The page size that the study advises, and why."""
        advice = self._values.get("advice")
        return Record(advice) if advice else None

    @property
    def policies(self) -> List[MachineResult]:
        """Machines that ran beside."""
        return [MachineResult(machine) for machine in self._values["policies"]]

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each page size."""
        import pandas as pd

        rows = []
        for row in self._values["rows"]:
            flat: dict[str, Any] = {}
            _flat(row, "", flat)
            rows.append(flat)
        return pd.DataFrame(rows)

    @property
    def plot(self) -> Any:
        """Pictures of the result (needs altair)."""
        from .plots import PageSizePlots

        return PageSizePlots(self)

    def __repr__(self) -> str:
        return f"<PageSizeResult of {self.workload.source}: {len(self.rows)} page sizes>"


class ContiguityResult(_Reported):
    """Ranges and contiguity of a living process: what `farreach contiguity --json` prints."""

    _schema = "farreach.contiguity/1"

    @property
    def peak(self) -> Record:
        """The look with most pages."""
        return Record(self._values["peak"])

    @property
    def samples(self) -> List[Record]:
        """All looks, in order."""
        return [Record(sample) for sample in self._values["samples"]]

    @property
    def regions(self) -> List[Record]:
        """Region by region at the peak."""
        return [Record(region) for region in self._values["regions"]]

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each look."""
        import pandas as pd

        rows = []
        for sample in self._values["samples"]:
            flat: dict[str, Any] = {}
            _flat(sample, "", flat)
            rows.append(flat)
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"<ContiguityResult of {self._values['source']}>"
