"""Experiments: programs x machines x seeds x limits, checked as a whole before anything runs."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union, cast

from .. import _core
from ..errors import Error, ExperimentError
from ..machine import Machine
from ..quantities import Count, PathLike, count_of, is_whole
from . import toml

__all__ = ["Experiment", "Grid", "load"]

#: More points than this are refused, unless `most_points` allows them: each takes some kilobytes here.
MOST_POINTS = 100_000
#: More values than this of one key are refused.
MOST_VALUES = 1_000_000
#: Faults that are listed; of more, the number is said.
MOST_FAULTS = 50

_PROGRAM_KEYS = {
    "trace": {"trace", "format", "name", "storage"},
    "command": {"command", "name", "cwd", "status"},
    "workload": {"workload", "name", "size", "references", "seed"},
}
_MACHINE_KEYS = {"name", "grid", "list", "sample", "sample_seed", "where"}
_TOP_KEYS = {"name", "program", "machine", "seeds", "limits", "search", "most_points"}


def _is_number(value: Any) -> bool:
    """Whether it is a number, and not beyond those with a point."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _values(key: str, given: Any) -> List[Any]:
    """The values of one key of a grid: a list, or a range."""

    def refused(why: str) -> ValueError:
        shown = dict(given) if isinstance(given, Mapping) else given
        return ValueError(f"grid.{key} = {shown!r} is not allowed: {why}")

    if not isinstance(given, Mapping):
        values = list(given) if isinstance(given, (list, tuple, range)) else [given]
        if not values:
            raise refused("there must be a value")
    else:
        unknown = sorted(set(given) - {"from", "to", "step", "times"})
        if unknown or "from" not in given or "to" not in given or ("step" in given) == ("times" in given):
            raise refused("a range has from, to, and step or times")
        for name, value in given.items():
            if not _is_number(value):
                raise refused(f"{name} must be a number up to 10^308")
        # `step` or `times` may be missing.
        start, to, step, times = (cast(Any, given.get(name)) for name in ("from", "to", "step", "times"))
        if (step is not None and step <= 0) or (times is not None and (times <= 1 or start <= 0)):
            raise refused("step must be above 0, times above 1")
        if to < start:
            raise refused("there is no value: from is above to")
        # They are counted before they are made. One more than computed may be, or less: these are no whole numbers.
        count = (to - start) / step if step is not None else math.log(to / start) / math.log(times)
        if count >= MOST_VALUES:
            raise refused(f"about {count:,.0f} values; there may be {MOST_VALUES:,}")
        values = [start + i * step if step is not None else start * times**i for i in range(int(count) + 2)]
        values = [value for value in values if value <= to]
    for value in twice(values):
        raise refused(f"{value} is there twice")
    return values


def _log2(value: float) -> float:
    if value <= 0:
        raise ArithmeticError(f"log2({value})")
    return math.log2(value)


def _sqrt(value: float) -> float:
    if value < 0:
        raise ArithmeticError(f"sqrt({value})")
    return math.sqrt(value)


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an arithmetic expression over names.

    Raises:
        ArithmeticError: these values have no result: a division by zero, say.
        ValueError: it is none, or names what there is not.
    """
    import simpleeval

    # A dot in a column is no operator of Python: `walk.walks` is written as it is called.
    flat = {name.replace(".", "_DOT_"): value for name, value in names.items()}
    text = expression
    for name in sorted((name for name in names if "." in name and name in expression), key=len, reverse=True):
        text = text.replace(name, name.replace(".", "_DOT_"))
    functions = {"min": min, "max": max, "abs": abs, "log2": _log2, "sqrt": _sqrt, "int": int}
    try:
        return simpleeval.SimpleEval(names=flat, functions=functions).eval(text)
    except simpleeval.NameNotDefined as error:
        near = ", ".join(sorted(names)[:200])
        raise ValueError(f"{expression!r}: there is no {error.name!r}; there are {near}") from None
    except ArithmeticError as error:
        raise ArithmeticError(f"{expression!r}: {error}") from None
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

    def _faults(self) -> List[str]:
        """What is of the wrong kind."""
        faults = []
        for name, value, right, what in [
            ("name", self.name, isinstance(self.name, str) and bool(self.name), "a name"),
            ("grid", self.grid, isinstance(self.grid, Mapping), "a table of keys"),
            ("list", self.list, _is_list_of(self.list, Mapping), "a list of tables"),
            ("sample", self.sample, self.sample is None or is_whole(self.sample, 1), "a whole number of at least 1"),
            ("sample_seed", self.sample_seed, is_whole(self.sample_seed, 0), "a whole number"),
            ("where", self.where, _is_list_of(self.where, str), 'a list of conditions, such as ["entries > 16"]'),
        ]:
            if not right:
                faults.append(f"machine {self.name!r}: {name} = {value!r} is not allowed: {what} is")
        return faults

    def _choices(self) -> Tuple[Dict[str, List[Any]], List[Mapping[str, Any]]]:
        """Values by key, and the combinations that are listed.

        Raises:
            ExperimentError: with every fault.
        """
        values, faults = {}, self._faults()
        for key, given in self.grid.items() if not faults else ():
            try:
                values[key] = _values(key, given)
            except (ValueError, OverflowError) as error:
                faults.append(f"machine {self.name!r}: {error}")
        if faults:
            raise ExperimentError(faults)
        return values, list(self.list) or [{}]

    def count(self) -> int:
        """Combinations, before conditions; none is made.

        Raises:
            ExperimentError: with every fault.
        """
        values, rest = self._choices()
        total = math.prod([len(some) for some in values.values()] + [len(rest)])
        return total if self.sample is None else min(self.sample, total)

    def _combinations(self) -> Iterator[Dict[str, Any]]:
        values, rest = self._choices()
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
            self._choices()
        except ExperimentError as error:
            faults += error.faults
        try:
            base = _machine(self.name) if isinstance(self.name, str) and self.name else None
        except (Error, OSError, ValueError) as error:
            faults.append(str(error))
        if len(faults) > before or base is None:
            return []
        for keys in self._combinations():
            if self.sample is not None and len(found) >= self.sample:
                break
            try:
                machine = base.with_(**keys)
                config = machine.config
                if not all(_holds(condition, config) for condition in self.where):
                    continue
                if machine.name in found:
                    faults.append(f"machine {machine.name!r} is there twice")
                found[machine.name] = machine
            except (Error, OSError, ValueError) as error:
                faults.append(str(error))
            except (TypeError, ArithmeticError) as error:
                faults.append(f"machine {self.name!r}: {error}")
                if len(faults) > MOST_FAULTS * 10:
                    break
        if not found and len(faults) == before:
            faults.append(f"machine {self.name!r}: no combination meets {' and '.join(self.where) or 'the grid'}")
        return list(found.values())


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, kind) for one in value)


def built(machines: Iterable[Machine], faults: List[str]) -> None:
    """Finds what only the parts of a machine can judge: entries in ways, memory in pages."""
    for machine in machines:
        try:
            _core.build(machine._tuple(), 0)
        except (Error, OSError) as error:
            faults.append(str(error))


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


#: What a sweep takes for a program: a path or an address of a trace, `workload:NAME`, or a table as in the TOML.
ProgramLike = Union[PathLike, Mapping[str, Any]]
#: What a sweep takes for a machine, or for many.
SweptLike = Union[PathLike, Machine, Grid, Mapping[str, Any]]


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
        most_points: the largest number of points that is not refused; None: 100,000.
        faults: what is known to be wrong with it, to be refused together with the rest.
    """

    programs: Union[ProgramLike, Iterable[ProgramLike]]
    machines: Union[SweptLike, Iterable[SweptLike]]
    seeds: Union[int, Iterable[int]] = (0,)
    limits: Union[Count, Iterable[Optional[Count]]] = (None,)
    name: str = "sweep"
    search: Optional[Mapping[str, Any]] = None
    most_points: Optional[int] = None
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
            "program": [plain(program) for program in _several(self.programs) or []],
            "machine": [plain(machine) for machine in _several(self.machines) or []],
            "seeds": [int(seed) for seed in _several(self.seeds) or []],
            "limits": _several(self.limits) or [],
            "search": None if self.search is None else dict(self.search),
        }
        return tables if self.most_points is None else {**tables, "most_points": self.most_points}

    def _program_tables(self, faults: List[str]) -> List[Dict[str, Any]]:
        tables: List[Dict[str, Any]] = []
        programs = _several(self.programs)
        if programs is None:
            faults.append(f"program = {self.programs!r} is not allowed: a list of programs is")
            return tables
        for given in programs:
            if isinstance(given, Mapping):
                table = dict(given)
            elif isinstance(given, (str, os.PathLike)):
                text = os.fspath(given)
                table = {"workload": text[9:]} if text.startswith("workload:") else {"trace": text}
            else:
                faults.append(f"program {given!r} is not allowed: a table is")
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
            if len(faults) == before:
                tables.append(table)
        if not programs:
            faults.append("no program: a [[program]] with trace, command or workload must be there")
        return tables

    def _grids(self, faults: List[str]) -> List[Union[Grid, Machine]]:
        grids: List[Union[Grid, Machine]] = []
        machines = _several(self.machines)
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
            elif isinstance(given, (str, os.PathLike)):
                grids.append(Grid(os.fspath(given)))
            else:
                faults.append(f"machine {given!r} is not allowed: a name or a table is")
        if not machines:
            faults.append("no machine: a [[machine]] with a name must be there")
        return grids

    def _seeds(self, faults: List[str]) -> List[int]:
        given = _several(self.seeds)
        if not given:
            faults.append(f"seeds = {self.seeds!r} is not allowed: a list of at least one seed is")
            return []
        wrong = [seed for seed in given if not is_whole(seed, 0)]
        faults += [f"seeds = {seed!r} is not allowed: a seed must be a whole number from 0 to 2^64-1" for seed in wrong]
        seeds = [int(seed) for seed in given if is_whole(seed, 0)]
        faults += [f"seeds: {seed} is there twice" for seed in twice(seeds)]
        return list(dict.fromkeys(seeds))

    def _limits(self, faults: List[str]) -> List[Optional[int]]:
        given = _several(self.limits)
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
        if self.search is not None and not isinstance(self.search, Mapping):
            found.append(f"search = {self.search!r} is not allowed: a table is")
        programs, grids = self._program_tables(found), self._grids(found)
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


def _several(value: Any) -> Optional[List[Any]]:
    """A list, or anything else that can be gone through, or one of its members; None: it is none of these."""
    if value is None or isinstance(value, (str, int, Mapping, os.PathLike, Machine, Grid, type)):
        return None if value is None or isinstance(value, bool) else [value]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        return None
    return list(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def twice(values: Iterable[Any]) -> List[str]:
    """What is there more than once, as it is written."""
    return [text for text, count in Counter(map(repr, values)).items() if count > 1]


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and "\0" not in os.fspath(value) and bool(os.fspath(value))


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
    "trace": (_is_text, "a path or an address"),
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


def load(file: Union[str, os.PathLike[str]]) -> Experiment:
    """An experiment from a TOML file.

    Raises:
        ExperimentError: it is no TOML.
        OSError: it cannot be read.
    """
    path, table = Path(file), toml.read(file)
    experiment = Experiment.from_dict({"name": path.stem, **table})
    programs = _several(experiment.programs)
    if programs is not None:
        experiment.programs = [_beside(path.parent, program) for program in programs]
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
