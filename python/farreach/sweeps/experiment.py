"""Experiments: programs x machines x seeds x limits, checked as a whole before anything runs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ..errors import ExperimentError
from ..machine import Machine, is_group, listed
from ..quantities import Count, PathLike, count_of, is_whole, place_of
from ..trace import Trace
from . import toml
from .grid import Grid, refuse, twice
from .tables import program_tables, several

__all__ = ["Experiment", "ProgramLike", "SweptLike", "load"]

#: More points than this are refused, unless `most_points` allows them: each takes some kilobytes here.
MOST_POINTS = 100_000
_MACHINE_KEYS = {"name", "grid", "list", "sample", "sample_seed", "where"}
_PIECE_KEYS = {"limits", "from", "skip", "warmup", "every", "sample"}
_TOP_KEYS = {"name", "program", "machine", "seeds", "search", "most_points"} | _PIECE_KEYS

#: A piece of a run: where it begins, instructions that are left out, that are not counted, and of a phase.
Piece = Tuple[Optional[str], int, int, Optional[int]]
#: What a sweep takes for a program: a path or an address of a trace, `workload:NAME`, or a table as in the TOML.
ProgramLike = Union[PathLike, Trace, Mapping[str, Any]]
#: What a sweep takes for a machine, or for many.
SweptLike = Union[PathLike, Machine, Grid, Mapping[str, Any]]


@dataclass
class Experiment:
    """Programs x machines x seeds x limits.

    Args:
        programs: paths or URLs of traces, `workload:NAME`, or tables as in the TOML: `{"trace": ...}`,
            `{"command": [...]}`, `{"workload": ...}`; `{"trace": [..., ...], "interleave": "2M"}` are several on one
            machine, in time slices of this number of instructions.
        machines: names, `Machine`s, `Grid`s, or tables as in the TOML.
        seeds: seeds of everything random in machines.
        limits: instructions after which a program stops; None: never.
        name: what it is called.
        search: as in the TOML: see the book's page about sweeps.
        most_points: the largest number of points that is not refused; None: 100,000.
        sample: simulate one in this many windows of a million instructions, 2 to 1000, the same ones for all machines,
            and estimate what is counted of TLBs; None: everything is simulated.
        start: begin where the program executes this function or address for the first time, such as "main"; "mark": the
            pieces alone that it marks. In the TOML: `from`.
        skip: instructions that are left out from there on.
        warmup: instructions behind these that are simulated and not counted. Limits count behind both.
        every: divide what is counted into phases of this number of instructions: `Sweep.phases`.
        faults: what is known to be wrong with it, to be refused together with the rest.
    """

    programs: Union[ProgramLike, Iterable[ProgramLike]]
    machines: Union[SweptLike, Iterable[SweptLike]]
    seeds: Union[int, Iterable[int]] = (0,)
    limits: Union[Count, Iterable[Optional[Count]]] = (None,)
    name: str = "sweep"
    search: Optional[Mapping[str, Any]] = None
    most_points: Optional[int] = None
    sample: Optional[int] = None
    start: Union[str, int, None] = None
    skip: Optional[Count] = None
    warmup: Optional[Count] = None
    every: Optional[Count] = None
    #: What is known to be wrong; `expand` refuses it together with all else.
    faults: List[str] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Experiment:
        """From the tables of the TOML. Faults come from `expand`."""
        limits = table.get("limits", [None])
        return cls(
            programs=table.get("program", []),
            machines=table.get("machine", []),
            seeds=table.get("seeds", [0]),
            limits=limits if isinstance(limits, (list, tuple)) else [limits],
            sample=table.get("sample"),
            start=table.get("from"),
            skip=table.get("skip"),
            warmup=table.get("warmup"),
            every=table.get("every"),
            name=table.get("name", "sweep"),
            search=table.get("search"),
            most_points=table.get("most_points"),
            faults=[
                f"unknown key {key!r}: {', '.join(sorted(_TOP_KEYS))} are allowed"
                for key in sorted(set(table) - _TOP_KEYS)
            ],
        )

    def to_dict(self) -> Dict[str, Any]:
        """As tables, for the record."""

        def plain(one: Any) -> Any:
            if isinstance(one, Grid):
                return {
                    "name": one.name,
                    "grid": dict(one.grid),
                    "list": [dict(some) for some in one.list],
                    "sample": one.sample,
                    "sample_seed": one.sample_seed,
                    "where": list(one.where),
                }
            if isinstance(one, Machine):
                return {"name": one.name}
            return dict(one) if isinstance(one, Mapping) else str(one)

        tables = {
            "name": self.name,
            "program": [plain(program) for program in several(self.programs) or []],
            "machine": [plain(machine) for machine in several(self.machines) or []],
            "seeds": [int(seed) for seed in several(self.seeds) or []],
            "limits": several(self.limits) or [],
            "search": None if self.search is None else dict(self.search),
        }
        more: Dict[str, Any] = {"sample": self.sample, "most_points": self.most_points}
        more.update({"from": self.start, "skip": self.skip, "warmup": self.warmup, "every": self.every})
        return {**tables, **{key: value for key, value in more.items() if value is not None}}

    def piece(self) -> Piece:
        """Where each program begins, how many instructions are left out and not counted, and how many a phase has.

        Raises:
            ValueError: one of them is not allowed.
        """
        skip, warmup = count_of("skip", self.skip) or 0, count_of("warmup", self.warmup) or 0
        return place_of(self.start), skip, warmup, count_of("every", self.every)

    def to_record(self, limits: List[Optional[int]]) -> List[Optional[int]]:
        """The limits of recordings, for these limits of what is counted: a recording has all that comes before."""
        place, skip, warmup, _ = self.piece()
        return [None if limit is None or place else limit + skip + warmup for limit in limits]

    def _grids(self, faults: List[str]) -> List[Union[Grid, Machine]]:
        grids: List[Union[Grid, Machine]] = []
        machines = several(self.machines)
        if machines is None:
            faults.append(f"machine = {self.machines!r} is not allowed: a list of machines is")
            return grids
        for given in machines:
            if isinstance(given, (Grid, Machine)):
                grids.append(given)
            elif isinstance(given, Mapping):
                unknown = sorted(set(given) - _MACHINE_KEYS)
                whats = [f"unknown key {key!r}" for key in unknown]
                whats += [] if "name" in given else ["the key 'name' is missing"]
                for what in whats:
                    faults.append(f"machine {dict(given)!r}: {what}: {', '.join(sorted(_MACHINE_KEYS))} are allowed")
                if not whats:
                    grids.append(Grid(**given))
            elif isinstance(given, str) and is_group(given):
                grids += listed(given)
            elif isinstance(given, (str, os.PathLike)):
                grids.append(Grid(os.fspath(given)))
            elif isinstance(given, type):
                faults.append(f"machine {given.__name__}: a design written in Python cannot be part of a sweep")
            else:
                faults.append(f"machine {given!r} is not allowed: a name or a table is")
        if not machines:
            faults.append("no machine: a [[machine]] with a name must be there")
        return grids

    def _seeds(self, faults: List[str]) -> List[int]:
        given = several(self.seeds)
        if not given:
            faults.append(f"seeds = {self.seeds!r} is not allowed: a list of at least one seed is")
            return []
        wrong = [seed for seed in given if not is_whole(seed, 0)]
        faults += [f"seeds = {seed!r} is not allowed: a seed must be a whole number from 0 to 2^64-1" for seed in wrong]
        seeds = [int(seed) for seed in given if is_whole(seed, 0)]
        faults += [f"seeds: {seed} is there twice" for seed in twice(seeds)]
        return list(dict.fromkeys(seeds))

    def _limits(self, faults: List[str]) -> List[Optional[int]]:
        given = several(self.limits)
        if not given:
            faults.append(f"limits = {self.limits!r} is not allowed: a list of at least one limit is")
            return []
        limits: List[Optional[int]] = []
        for limit in given:
            try:
                limits.append(None if limit in (None, "none") else count_of("limits", limit))
            except ValueError as error:
                faults.append(str(error))
        faults += [f"limits: {'none' if limit == 'None' else limit} is there twice" for limit in twice(limits)]
        return list(dict.fromkeys(limits))

    def expand(
        self, faults: Optional[List[str]] = None
    ) -> Tuple[List[Dict[str, Any]], List[Machine], List[int], List[Optional[int]]]:
        """Programs (as tables), machines, seeds and limits. `faults`: where faults go, to be refused together with
        others; then what is returned lacks what is faulty.

        Raises:
            ExperimentError: with every fault, where there is no such list.
        """
        found = list(self.faults)
        if not isinstance(self.name, str) or not self.name or "/" in self.name or not self.name.isprintable():
            found.append(
                f"name = {self.name!r} is not allowed: a name without '/' and control characters is, because a folder "
                "is called so"
            )
        most = MOST_POINTS if self.most_points is None else self.most_points
        if not is_whole(most, 1):
            found.append(f"most_points = {most!r} is not allowed: a whole number of at least 1 is")
            most = MOST_POINTS
        if self.sample is not None and not is_whole(self.sample, 2, 1000):
            found.append(f"sample = {self.sample!r} is not allowed: a whole number from 2 to 1000 is")
        try:
            self.piece()
        except ValueError as error:
            found.append(str(error).replace("start = ", "from = "))
        if self.warmup is not None and self.sample is not None:
            found.append("warmup is not allowed with sample, where each window has a warm-up")
        if self.every is not None and self.sample is not None:
            found.append("every is not allowed with sample, which estimates the whole")
        if self.search is not None and not isinstance(self.search, Mapping):
            found.append(f"search = {self.search!r} is not allowed: a table is")
        programs, grids = program_tables(self.programs, found), self._grids(found)
        seeds, limits = self._seeds(found), self._limits(found)
        machines: Dict[str, Machine] = {}
        count = (
            sum(_count_of(grid) for grid in grids) * max(len(programs), 1) * max(len(seeds), 1) * max(len(limits), 1)
        )
        if count > most and self.search is None:
            found.append(
                f"{count:,} points, before conditions, are not allowed: there may be {most:,}; "
                "most_points = N allows more"
            )
            # What is wrong with a grid is said all the same; its machines are not made.
            grids = [grid for grid in grids if isinstance(grid, Grid) and _count_of(grid) == 0]
        for grid in grids if self.search is None else ():
            for machine in [grid] if isinstance(grid, Machine) else grid.machines(found):
                if machine._design is not None:
                    found.append(f"machine {machine.name!r}: a design written in Python cannot be part of a sweep")
                if machine.name in machines:
                    found.append(f"machine {machine.name!r} is there twice")
                machines[machine.name] = machine
        if faults is None:
            refuse(found)
        else:
            faults += found
        return programs, list(machines.values()), seeds, limits


def _count_of(grid: Union[Grid, Machine]) -> int:
    """Machines of a grid, before conditions; 0 of one that is at fault."""
    try:
        return grid.count() if isinstance(grid, Grid) else 1
    except ExperimentError:
        return 0


def load(file: Union[str, os.PathLike[str]]) -> Experiment:
    """An experiment from a TOML file.

    Raises:
        ExperimentError: it is no TOML.
        OSError: it cannot be read.
    """
    path, table = Path(file), toml.read(file)
    experiment = Experiment.from_dict({"name": path.stem, **table})
    programs = several(experiment.programs)
    if programs is not None:
        experiment.programs = [_beside(path.parent, program) for program in programs]
    return experiment


def _beside(folder: Path, program: Any) -> Any:
    """A trace is looked for beside the experiment, if it is not there otherwise."""

    def looked_for(trace: Any) -> Any:
        if isinstance(trace, str) and "://" not in trace and not os.path.exists(trace) and (folder / trace).exists():
            return str(folder / trace)
        return trace

    if isinstance(program, Mapping) and "trace" in program:
        trace = program["trace"]
        return {**program, "trace": [*map(looked_for, trace)] if isinstance(trace, list) else looked_for(trace)}
    return program


def canonical(value: Any) -> str:
    """JSON with one form, for hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
