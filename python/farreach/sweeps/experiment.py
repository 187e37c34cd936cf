"""Experiments: programs x machines x seeds x limits, checked as a whole before anything runs."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .. import _core
from ..errors import Error, ExperimentError
from ..machine import Machine
from ..study import _count
from . import toml

__all__ = ["Experiment", "Grid", "load"]

#: More points than this are refused: nobody waits for them.
MOST_POINTS = 10_000_000
#: Faults that are listed; of more, the number is said.
MOST_FAULTS = 50

_PROGRAM_KEYS = {
    "trace": {"trace", "format", "name", "storage"},
    "command": {"command", "name", "cwd"},
    "workload": {"workload", "name", "size", "references", "seed"},
}
_MACHINE_KEYS = {"name", "grid", "list", "sample", "sample_seed", "where"}
_TOP_KEYS = {"name", "program", "machine", "seeds", "limits", "search"}


def _values(key: str, given: Any) -> List[Any]:
    """The values of one key of a grid: a list, or a range."""
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - {"from", "to", "step", "times"})
        if unknown or "from" not in given or "to" not in given or ("step" in given) == ("times" in given):
            raise ValueError(f"grid.{key} = {dict(given)!r} is not allowed: a range has from, to, and step or times")
        value, to = given["from"], given["to"]
        step, times = given.get("step"), given.get("times")
        if (step is not None and step <= 0) or (times is not None and (times <= 1 or value <= 0)):
            raise ValueError(f"grid.{key} = {dict(given)!r} is not allowed: step must be above 0, times above 1")
        values = []
        while value <= to:
            values.append(value)
            value = value + step if times is None else value * times
        return values
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    if not values:
        raise ValueError(f"grid.{key} = [] is not allowed: there must be a value")
    return values


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an arithmetic expression over names.

    Raises:
        ValueError: it is none, or names what there is not.
    """
    import simpleeval

    # A dot in a column is no operator of Python: `walk.walks` is written as it is called.
    flat = {name.replace(".", "_DOT_"): value for name, value in names.items()}
    text = expression
    for name in sorted((name for name in names if "." in name and name in expression), key=len, reverse=True):
        text = text.replace(name, name.replace(".", "_DOT_"))
    functions = {"min": min, "max": max, "abs": abs, "log2": math.log2, "sqrt": math.sqrt, "int": int}
    try:
        return simpleeval.SimpleEval(names=flat, functions=functions).eval(text)
    except simpleeval.NameNotDefined as error:
        near = ", ".join(sorted(names)[:200])
        raise ValueError(f"{expression!r}: there is no {error.name!r}; there are {near}") from None
    except Exception as error:
        raise ValueError(f"{expression!r}: {error}") from None


@dataclass
class Grid:
    """Machines made of one: every combination of values of some keys, a list of them, or a random sample.

    Args:
        name: the machine: a preset, a file, a kind of hardware.
        grid: values by key; a range is `{"from": 16, "to": 1024, "times": 2}` or has a `step`.
        list: combinations, one by one.
        sample: so many combinations of the grid, chosen at random.
        sample_seed: the seed of that choice.
        where: conditions on keys, such as `"entries % ways == 0"`; what does not meet them is left out.
    """

    name: str
    grid: Mapping[str, Any] = field(default_factory=dict)
    list: Sequence[Mapping[str, Any]] = ()
    sample: Optional[int] = None
    sample_seed: int = 0
    where: Sequence[str] = ()

    def _combinations(self) -> Iterator[Dict[str, Any]]:
        values = {key: _values(key, given) for key, given in self.grid.items()}
        rest = list(self.list) or [{}]
        if self.sample is None:
            for one in rest:
                for some in itertools.product(*values.values()):
                    yield {**dict(one), **dict(zip(values, some))}
            return
        # Numbers stand for combinations: a grid may be too large to write down.
        total = math.prod([len(some) for some in values.values()] + [len(rest)])
        dice = random.Random(self.sample_seed)
        order = dice.sample(range(total), total) if total <= 10_000 else _draws(dice, total, 1000 * self.sample)
        for number in order:
            one = {}
            for key, choices in values.items():
                number, index = divmod(number, len(choices))
                one[key] = choices[index]
            yield {**dict(rest[number]), **one}

    def machines(self, faults: List[str]) -> List[Machine]:
        """The machines; what is wrong goes into `faults`. What only the parts of a machine can judge is left to
        `built`."""
        found: Dict[str, Machine] = {}
        before = len(faults)
        try:
            base = _machine(self.name)
        except (Error, OSError, ValueError) as error:
            faults.append(str(error))
            return []
        try:
            for keys in self._combinations():
                if self.sample is not None and len(found) >= self.sample:
                    break
                try:
                    machine = base.with_(**keys)
                    config = machine.config
                    if not all(_holds(condition, config) for condition in self.where):
                        continue
                    found[machine.name] = machine
                except (Error, OSError, ValueError) as error:
                    faults.append(str(error))
                    if len(faults) > MOST_FAULTS * 10:
                        break
        except ValueError as error:
            faults.append(f"machine {self.name!r}: {error}")
        if not found and len(faults) == before:
            faults.append(f"machine {self.name!r}: no combination meets {' and '.join(self.where) or 'the grid'}")
        return list(found.values())


def built(machines: Iterable[Machine]) -> None:
    """Refuses what only the parts of a machine can judge: entries in ways, memory in pages.

    Raises:
        ExperimentError: with every fault.
    """
    faults = []
    for machine in machines:
        try:
            _core.build(machine._tuple(), 0)
        except (Error, OSError) as error:
            faults.append(str(error))
    refuse(faults)


def refuse(faults: List[str]) -> None:
    """Raises an `ExperimentError` if there are faults."""
    faults = list(dict.fromkeys(faults))
    more = len(faults) - MOST_FAULTS
    if faults:
        raise ExperimentError(faults[:MOST_FAULTS] + ([f"and {more} more"] if more > 0 else []))


def _draws(dice: random.Random, total: int, most: int) -> Iterator[int]:
    """Different numbers below `total`, at most so many."""
    seen: Set[int] = set()
    while len(seen) < min(total, most):
        number = dice.randrange(total)
        if number not in seen:
            seen.add(number)
            yield number


def _holds(condition: str, config: Mapping[str, Any]) -> bool:
    return bool(evaluate(condition, config))


def _machine(name: str) -> Machine:
    """A preset, a file, or a kind of hardware."""
    presets = {preset.partition("/")[0] for preset in _core.presets()}
    if "/" in name or ".toml" in name or name in presets:
        return Machine(name)
    return Machine.of_kind(name)


@dataclass
class Experiment:
    """Programs x machines x seeds x limits.

    Args:
        programs: paths or URLs of traces, `workload:NAME`, or tables as in the TOML: `{"trace": ...}`,
            `{"command": [...]}`, `{"workload": ...}`.
        machines: names, `Machine`s, `Grid`s, or tables as in the TOML.
        seeds: seeds of everything random in machines.
        limits: instructions after which a program stops; None: never.
        name: what it is called.
        search: as in the TOML: see the book's page about sweeps.
    """

    programs: Sequence[Any]
    machines: Sequence[Any]
    seeds: Sequence[int] = (0,)
    limits: Sequence[Union[int, str, None]] = (None,)
    name: str = "sweep"
    search: Optional[Mapping[str, Any]] = None

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Experiment:
        """From the tables of the TOML. Faults come from `check`."""
        unknown = sorted(set(table) - _TOP_KEYS)
        if unknown:
            raise ExperimentError(
                [f"unknown key {key!r}: {', '.join(sorted(_TOP_KEYS))} are allowed" for key in unknown]
            )
        limits = table.get("limits", [None])
        return cls(
            programs=table.get("program", []),
            machines=table.get("machine", []),
            seeds=table.get("seeds", [0]),
            limits=limits if isinstance(limits, (list, tuple)) else [limits],
            name=table.get("name", "sweep"),
            search=table.get("search"),
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

        return {
            "name": self.name,
            "program": [plain(program) for program in self.programs],
            "machine": [plain(machine) for machine in self.machines],
            "seeds": list(self.seeds),
            "limits": list(self.limits),
            "search": dict(self.search) if self.search else None,
        }

    def _program_tables(self, faults: List[str]) -> List[Dict[str, Any]]:
        tables: List[Dict[str, Any]] = []
        for given in self.programs:
            if isinstance(given, Mapping):
                table = dict(given)
            else:
                text = os.fspath(given)
                table = {"workload": text[9:]} if text.startswith("workload:") else {"trace": text}
            kinds = [kind for kind in _PROGRAM_KEYS if kind in table]
            if len(kinds) != 1:
                faults.append(f"program {table!r}: one of trace, command, workload is allowed, and must be there")
                continue
            unknown = sorted(set(table) - _PROGRAM_KEYS[kinds[0]])
            if unknown:
                allowed = ", ".join(sorted(_PROGRAM_KEYS[kinds[0]]))
                faults.append(f"program {table[kinds[0]]!r}: unknown key {unknown[0]!r}: {allowed} are allowed")
                continue
            tables.append(table)
        if not self.programs:
            faults.append("no program: a [[program]] with trace, command or workload must be there")
        return tables

    def _grids(self, faults: List[str]) -> List[Union[Grid, Machine]]:
        grids: List[Union[Grid, Machine]] = []
        for given in self.machines:
            if isinstance(given, (Grid, Machine)):
                grids.append(given)
            elif isinstance(given, Mapping):
                unknown = sorted(set(given) - _MACHINE_KEYS)
                if unknown or "name" not in given:
                    what = f"unknown key {unknown[0]!r}" if unknown else "the key 'name' is missing"
                    faults.append(f"machine {dict(given)!r}: {what}: {', '.join(sorted(_MACHINE_KEYS))} are allowed")
                    continue
                grids.append(Grid(**given))
            else:
                grids.append(Grid(os.fspath(given)))
        if not self.machines:
            faults.append("no machine: a [[machine]] with a name must be there")
        return grids

    def expand(self) -> Tuple[List[Dict[str, Any]], List[Machine], List[int], List[Optional[int]]]:
        """Programs (as tables), machines, seeds and limits.

        Raises:
            ExperimentError: with every fault.
        """
        faults: List[str] = []
        programs = self._program_tables(faults)
        machines: Dict[str, Machine] = {}
        for grid in self._grids(faults):
            for machine in [grid] if isinstance(grid, Machine) else grid.machines(faults):
                if machine._design is not None:
                    faults.append(f"machine {machine.name!r}: a design written in Python cannot be part of a sweep")
                machines.setdefault(machine.name, machine)
        seeds = list(self.seeds)
        for seed in seeds:
            if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 64:
                faults.append(f"seeds = {seed!r} is not allowed: a seed must be a whole number from 0 to 2^64-1")
        limits: List[Optional[int]] = []
        for limit in self.limits:
            try:
                limits.append(None if limit in (None, "none") else _count("limits", limit))
            except ValueError as error:
                faults.append(str(error))
        for what, some in (("seeds", seeds), ("limits", list(self.limits))):
            if not some:
                faults.append(f"{what} = [] is not allowed: there must be one")
        count = len(programs) * len(machines) * len(seeds) * len(limits)
        if count > MOST_POINTS:
            faults.append(f"{count:,} points are not allowed: there may be {MOST_POINTS:,}")
        refuse(faults)
        return programs, list(machines.values()), seeds, limits


def load(file: Union[str, os.PathLike[str]]) -> Experiment:
    """An experiment from a TOML file.

    Raises:
        ExperimentError: it is no TOML, or has unknown keys.
        OSError: it cannot be read.
    """
    path, table = Path(file), toml.read(file)
    try:
        experiment = Experiment.from_dict({"name": path.stem, **table})
    except ExperimentError as error:
        raise ExperimentError([f"{path}: {fault}" for fault in error.faults]) from None
    experiment.programs = [_beside(path.parent, program) for program in experiment.programs]
    return experiment


def _beside(folder: Path, program: Any) -> Any:
    """A trace is looked for beside the experiment, if it is not there otherwise."""
    if isinstance(program, Mapping) and isinstance(program.get("trace"), str):
        trace = program["trace"]
        if "://" not in trace and not os.path.exists(trace) and (folder / trace).exists():
            return {**program, "trace": str(folder / trace)}
    return program


def canonical(value: Any) -> str:
    """JSON with one form, for hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
