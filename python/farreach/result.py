"""Results: records, tables, frames and pictures of what ran."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Union

from . import _core
from .extras import need
from .frames import context_rows, flat, frame, phase_rows, row_of
from .records import MachineResult, Record, Workload

if TYPE_CHECKING:
    from typing_extensions import Self

    from .plots import AdvicePlots, PageSizePlots, ResultPlots, WatchPlots

__all__ = ["Result", "PageSizeResult", "ContiguityResult", "AdviceResult", "WatchResult"]


#: Characters in a line of a table in a notebook.
_NOTEBOOK_WIDTH = 140


class Reported:
    """Base of all results but those of papers and sweeps: what each of them can do. Their forms are those of the
    command: `to_json`, `to_csv`, `to_html` and `table` give the text that it prints or writes."""

    _schema = ""

    def __init__(self, report: _core.Report) -> None:
        self._report = report
        self._values: Mapping[str, Any] = json.loads(report.json())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A result from its JSON.

        Raises:
            ValueError: it is no JSON, or of another schema.
        """
        result = cls(_core.Report.from_json(text))
        if result._values["schema"] != cls._schema:
            raise ValueError(f"schema = {result._values['schema']!r} is not allowed: it must be {cls._schema!r}")
        return result

    @classmethod
    def load(cls, file: Union[str, os.PathLike[str]]) -> Self:
        """A result from a file that `save` or `--json` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no JSON, or of another schema.
        """
        try:
            return cls.from_json(Path(file).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{os.fspath(file)}: {error}") from None

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
        # Notebooks that are exported would wrap its lines otherwise.
        style = "font-family:ui-monospace, monospace; line-height:1.2; white-space:pre; overflow-x:auto"
        return f'<pre style="{style}">{escape(self._report.table(_NOTEBOOK_WIDTH))}</pre>'

    def __reduce__(self) -> Any:
        return type(self).from_json, (self.to_json(),)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


class Result(Reported):
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
        raise KeyError(f"no machine {which!r}; there are {', '.join(self.keys())}")

    def __contains__(self, which: object) -> bool:
        """Whether a machine has this name, or is one of these."""
        if isinstance(which, MachineResult):
            return which in self.machines
        return which in self.keys()

    def keys(self) -> List[str]:
        """The names of the machines, in the order asked for."""
        return [machine["name"] for machine in self._values["machines"]]

    def __iter__(self) -> Iterator[MachineResult]:
        return iter(self.machines)

    def __len__(self) -> int:
        return len(self._values["machines"])

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each machine, in the columns of `Sweep.frame`: `program`, `machine`,
        `limit` and `seed`, all counts, memory and cost, then `workload.*` and `config.*`. `name` is `machine`, as in
        the CSV."""
        return frame(self.rows())

    def rows(self) -> List[Dict[str, Any]]:
        """The rows of `to_frame`, without pandas."""
        return [row_of(self._values["workload"], machine) for machine in self._values["machines"]]

    @property
    def contexts(self) -> Any:
        """A `pandas.DataFrame` with a row for each machine and each context of a whole system: `machine`, `program`,
        `privilege` (`kernel` or `user`), `space` (the number of the address space), its `references.*`, and what the
        machine counted there. Empty where one program ran, and for machines that do not count so.

        The misses of a machine by program, those of the kernel and those in user mode:
        `result.contexts.pivot_table("misses", "program", ["machine", "privilege"], "sum")`."""
        workload = self._values["workload"]
        return frame([row for machine in self._values["machines"] for row in context_rows(workload, machine)])

    @property
    def phases(self) -> Any:
        """A `pandas.DataFrame` with a row for each machine and phase, of a run with `every`: `machine`, `phase` (from
        1), then what was counted there, under the names of the JSON. Empty without `every`."""
        machines = self._values["machines"]
        return frame([{"machine": machine["name"], **row} for machine in machines for row in phase_rows(machine)])

    @property
    def plot(self) -> ResultPlots:
        """Pictures of the result (needs altair)."""
        need("a picture", "pandas", "altair", "vl_convert")
        from .plots import ResultPlots

        traps = self._values["workload"].get("traps")
        return ResultPlots(self.to_frame(), self.workload.source, self.machines, traps and Record(traps))

    def __repr__(self) -> str:
        names = self.keys()
        more = f", and {len(names) - 5} more" if len(names) > 5 else ""
        return f"<Result of {self.workload.source}: {', '.join(names[:5])}{more}>"


class PageSizeResult(Reported):
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
        return frame([flat(row) for row in self._values["rows"]])

    @property
    def phases(self) -> Any:
        """A `pandas.DataFrame` with a row for each phase and page size, of a study with `every`: `phase` (from 1), its
        `instructions`, then misses and the working set, the bytes of pages that the phase touches. Empty without
        `every`."""
        phases = enumerate(self._values.get("phases", ()), 1)
        return frame(
            [
                {"phase": number, "instructions": phase["instructions"], **flat(size)}
                for number, phase in phases
                for size in phase["sizes"]
            ]
        )

    @property
    def plot(self) -> PageSizePlots:
        """Pictures of the result (needs altair)."""
        need("a picture", "pandas", "altair", "vl_convert")
        from .plots import PageSizePlots

        return PageSizePlots(self.to_frame())

    def __repr__(self) -> str:
        return f"<PageSizeResult of {self.workload.source}: {len(self.rows)} page sizes>"


class ContiguityResult(Reported):
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
        return frame([flat(sample) for sample in self._values["samples"]])

    def __repr__(self) -> str:
        return f"<ContiguityResult of {self._values['source']}>"


class AdviceResult(Reported):
    """What to change on this machine for a program: what `farreach advise --json` prints."""

    _schema = "farreach.advice/1"

    @property
    def rows(self) -> List[Record]:
        """Today, and each change that is possible here: what it saves and costs."""
        return [Record(row) for row in self._values["rows"]]

    @property
    def recommendation(self) -> Record:
        """What to do: `row`, `why`, and the lines to type, `now`, `lasting` and `undo`."""
        return Record(self._values["recommendation"])

    @property
    def verifications(self) -> List[Record]:
        """The changes that were tried, predicted and measured."""
        return [Record(one) for one in self._values["verifications"]]

    @property
    def left_out(self) -> List[Record]:
        """Changes that are not possible here, and why."""
        return [Record(one) for one in self._values["left_out"]]

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each change."""
        return frame([flat(row) for row in self._values["rows"]])

    @property
    def plot(self) -> AdvicePlots:
        """Pictures of the result (needs altair)."""
        need("a picture", "pandas", "altair", "vl_convert")
        from .plots import AdvicePlots

        return AdvicePlots(self.to_frame(), self._values["source"])

    def __repr__(self) -> str:
        return f"<AdviceResult of {self._values['source']}: {self._values['recommendation']['row']}>"


class WatchResult(Reported):
    """Which of its memory a process uses: what `farreach watch --json` prints."""

    _schema = "farreach.watch/1"

    @property
    def working_sets(self) -> List[Record]:
        """The memory that is used in an interval, by size of page."""
        return [Record(one) for one in self._values["working_sets"]]

    @property
    def intervals(self) -> List[Record]:
        """Interval by interval."""
        return [Record(one) for one in self._values["intervals"]]

    @property
    def recommendation(self) -> Record:
        """Whether huge pages would suit it: `verdict`, `text`, `reasons`, `limits`."""
        return Record(self._values["recommendation"])

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each interval."""
        return frame([flat(one) for one in self._values["intervals"]])

    @property
    def plot(self) -> WatchPlots:
        """Pictures of the result (needs altair)."""
        need("a picture", "pandas", "altair", "vl_convert")
        from .plots import WatchPlots

        return WatchPlots(self.to_frame(), self._values["source"])

    def __repr__(self) -> str:
        return f"<WatchResult of {self._values['source']}: {len(self._values['intervals'])} intervals>"
