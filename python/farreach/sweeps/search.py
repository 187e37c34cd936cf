"""Searching instead of trying everything: Optuna asks, the sweep answers, over the same cache."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _core
from ..errors import Error, ExperimentError
from ..extras import need
from ..machine import Machine
from ..messages import log
from ..quantities import is_whole
from .experiment import MOST_POINTS, Experiment, canonical
from .expressions import evaluate, holds
from .grid import Grid, built, machine_of, refuse
from .points import Point, Points, phases_of_point, row_of_point
from .table import Sweep

__all__ = ["search"]

_KEYS = {"objective", "subject_to", "trials", "batch", "seed", "sampler", "maximize"}
_SAMPLERS = ("tpe", "nsga2", "random")
_COMPARISON = re.compile(r"(?P<left>[^<>=!]+)(?P<sign><=|>=|<|>)(?P<right>[^<>=!]+)")


class _Settings:
    """The table `search`, checked: faults go into a list."""

    def __init__(self, table: Mapping[str, Any], faults: List[str]) -> None:
        faults += [
            f"search: unknown key {key!r}: {', '.join(sorted(_KEYS))} are allowed" for key in sorted(set(table) - _KEYS)
        ]

        def texts(name: str) -> List[str]:
            value = table.get(name, [])
            if isinstance(value, str):
                return [value]
            if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
                return list(value)
            faults.append(f"search.{name} = {value!r} is not allowed: an expression is, or a list of them")
            return []

        self.objectives, self.subject_to, self.maximize = map(texts, ("objective", "subject_to", "maximize"))
        self.trials, self.batch = table.get("trials", 100), table.get("batch", 8)
        self.seed, self.sampler = table.get("seed", 0), table.get("sampler", "tpe")
        if not 1 <= len(self.objectives) <= 3:
            faults.append("search.objective: one to three expressions over columns are allowed, such as 'misses'")
        for name, least, most in (("trials", 1, MOST_POINTS), ("batch", 1, MOST_POINTS), ("seed", 0, (1 << 32) - 1)):
            value = getattr(self, name)
            if not is_whole(value, least, most):
                faults.append(f"search.{name} = {value!r} is not allowed: a whole number from {least} to {most:,} is")
        if self.sampler not in _SAMPLERS:
            faults.append(f"search.sampler = {self.sampler!r} is not allowed: one of {', '.join(_SAMPLERS)} is")
        faults += [
            f"search.subject_to: {text!r} is not allowed: a comparison is, such as 'area_rbe < 12000'"
            for text in self.subject_to
            if not _COMPARISON.fullmatch(text.strip())
        ]
        faults += [
            f"search.maximize: {text!r} is none of the objectives"
            for text in self.maximize
            if text not in self.objectives
        ]

    def expressions(self) -> Iterator[Tuple[str, str]]:
        """All expressions, each with the key that it stands under."""
        for text in self.objectives:
            yield "objective", text
        for text in self.subject_to:
            found = _COMPARISON.fullmatch(text.strip())
            if found:
                yield "subject_to", found["left"].strip()
                yield "subject_to", found["right"].strip()

    def violation(self, text: str, row: Mapping[str, Any]) -> float:
        """How far a condition is from being met; at most 0 if it is."""
        found = _COMPARISON.fullmatch(text.strip())
        assert found, "checked before"
        difference = float(evaluate(found["left"], row)) - float(evaluate(found["right"], row))
        difference = difference if found["sign"].startswith("<") else -difference
        # Equal is not less.
        return max(difference, 1e-12) if difference == 0 and "=" not in found["sign"] else difference


#: A grid with its values by key.
Space = List[Tuple[Grid, Dict[str, List[Any]]]]
#: The number of combinations of a grid that are tried to find one that is a machine.
_TRIES = 1000
#: What a machine runs to find out which columns its row has.
_SAMPLE = "workload:gups:size=64K,references=1K"


def _space(experiment: Experiment, faults: List[str]) -> Space:
    """Each grid with the values of its keys."""
    space: Space = []
    # `expand` has said what is wrong with their tables.
    for grid in experiment._grids([]):
        if isinstance(grid, Machine):
            faults.append(f"machine {grid.name!r}: a search needs a grid of keys")
            continue
        try:
            values, _ = grid._choices()
            machine_of(grid.name)
            space.append((grid, values))
        except ExperimentError as error:
            faults += error.faults
        except (Error, OSError, ValueError) as error:
            faults.append(str(error))
        if grid.list or grid.sample is not None:
            faults.append(f"machine {grid.name!r}: a search takes a grid; list and sample are for sweeps")
    return space


def _sample_row(
    grid: Grid, values: Mapping[str, List[Any]], sample: Optional[int], faults: List[str]
) -> Optional[Dict[str, Any]]:
    """The names that expressions may use, with values, of a machine of a grid: it runs a moment on a kernel."""
    combinations = itertools.product(*values.values())
    some = itertools.islice(combinations, _TRIES)
    machines = (_chosen(grid, dict(zip(values, combination))) for combination in some)
    machine = next((machine for machine in machines if machine is not None), None)
    if machine is None:
        if next(combinations, None) is None:
            faults.append(f"machine {grid.name!r}: no combination is a machine that meets the conditions")
        return None
    found = len(faults)
    built([machine], sample, faults)
    if len(faults) > found:
        return None
    program = _core.kernel_program(_SAMPLE)
    assert program, "it is a kernel"
    sought = _core.sought(machine._tuple(), 0, program, _SAMPLE, (None, sample, (None, 0, 0, None)))
    try:
        ((_, text),) = _core.run_pass(_core.plan([sought], 1, 1)[0], 1, None)
    except Error:
        return None
    return _means([row_of_point(Point(_SAMPLE, machine, None, 0, sought), text)])


def _check_expressions(settings: _Settings, space: Space, sample: Optional[int], faults: List[str]) -> None:
    """Refuses expressions that are none, or name what a machine does not have."""
    for grid, values in space:
        names = _sample_row(grid, values, sample, faults)
        if names is None:
            continue
        for key, text in settings.expressions():
            try:
                value = evaluate(text, names)
                if not isinstance(value, (int, float)):
                    raise ValueError(f"{text!r} is {'nothing' if value is None else repr(value)}, and no number")
            except ArithmeticError:
                pass  # of these values
            except ValueError as error:
                faults.append(f"search.{key}, machine {grid.name!r}: {error}")


def prepared(
    experiment: Experiment, at: Points, faults: List[str], record: bool
) -> Tuple[_Settings, Space, List[Tuple[str, str]], List[int], List[Optional[int]]]:
    """What a search needs: settings, space, programs, seeds and limits. Every fault is found before a program is
    recorded, and refused together with those in `faults`."""
    need("a search", "optuna")
    tables, _, seeds, limits = experiment.expand(faults)
    given = experiment.search
    settings = _Settings(given if isinstance(given, Mapping) else {}, faults)
    space = _space(experiment, faults)
    _check_expressions(settings, space, experiment.sample, faults)
    recorded = limits if faults else experiment.to_record(limits)
    programs, missing = at.programs(tables, recorded or [None], False, faults)
    refuse(faults)
    if record and missing:
        programs, _ = at.programs(tables, recorded, True, faults)
        refuse(faults)
    return settings, space, programs, seeds, limits


def _means(rows: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """Means over programs, limits and seeds."""
    names = {name for row in rows for name, value in row.items() if isinstance(value, (int, float))}
    means: Dict[str, Any] = {}
    for name in sorted(names):
        values = [row[name] for row in rows if isinstance(row.get(name), (int, float))]
        means[name] = sum(values) / len(values)
    for name, value in rows[0].items():
        means.setdefault(name, value)
    # Keys are called as in the grid.
    means.update({name[7:]: value for name, value in list(means.items()) if name.startswith("config.")})
    return means


def search(experiment: Experiment, at: Points, faults: List[str]) -> Sweep:
    """Runs the search of an experiment; `faults` are refused together with its own."""
    settings, space, programs, seeds, limits = prepared(experiment, at, faults, record=True)
    sample, piece = experiment.sample, experiment.piece()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Since Optuna 5 a trial is told; before, the sampler asks.
    told = hasattr(optuna.trial.Trial, "set_constraint")
    conditions: Dict[str, Any] = {}
    if settings.subject_to and not told:
        conditions["constraints_func"] = lambda trial: trial.user_attrs.get("violations", [0.0])
    sampler: Any = optuna.samplers.RandomSampler(seed=settings.seed)
    if settings.sampler == "tpe":
        sampler = optuna.samplers.TPESampler(seed=settings.seed, multivariate=True, constant_liar=True, **conditions)
    elif settings.sampler == "nsga2":
        sampler = optuna.samplers.NSGAIISampler(seed=settings.seed, **conditions)
    directions: Any = ["maximize" if text in settings.maximize else "minimize" for text in settings.objectives]
    study = optuna.create_study(sampler=sampler, directions=directions)

    rows: Dict[str, List[Dict[str, Any]]] = {}
    phases: List[Dict[str, Any]] = []
    failures: Dict[str, Dict[str, Any]] = {}
    done = 0
    while done < settings.trials:
        trials = [study.ask() for _ in range(min(settings.batch, settings.trials - done))]
        done += len(trials)
        asked: List[Tuple[Any, Union[Machine, None]]] = []
        for trial in trials:
            which = trial.suggest_categorical("machine", list(range(len(space)))) if len(space) > 1 else 0
            grid, values = space[which]
            keys = {}
            for key, some in values.items():
                index = trial.suggest_int(f"{which}.{key}", 0, len(some) - 1) if len(some) > 1 else 0
                keys[key] = some[index]
            machine = _chosen(grid, keys)
            asked.append((trial, machine))
        points = [
            Point(
                label, machine, limit, seed, _core.sought(machine._tuple(), seed, text, label, (limit, sample, piece))
            )
            for machine in {m.name: m for _, m in asked if m is not None and m.name not in rows}.values()
            for text, label in programs
            for limit in limits
            for seed in seeds
        ]
        found, failed = at.answers(points)
        for point in points:
            if point.sought.key in found:
                text = found[point.sought.key]
                rows.setdefault(point.machine.name, []).append(row_of_point(point, text))
                phases += phases_of_point(point, text)
            else:
                message = failed[point.sought.key]
                failures[canonical(point.names())] = {**point.names(), "message": message}
        broken = {failure["machine"] for failure in failures.values()}
        for trial, machine in asked:
            if machine is None or machine.name in broken or machine.name not in rows:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            means = _means(rows[machine.name])
            trial.set_user_attr("machine", machine.name)
            try:
                violations = [settings.violation(text, means) for text in settings.subject_to]
                reached = [float(evaluate(text, means)) for text in settings.objectives]
                if not all(map(math.isfinite, reached)):
                    raise ArithmeticError(f"an objective is {reached}")
            except (ArithmeticError, ValueError) as error:
                # What it found is in the table; it is no candidate.
                log.warning("%s: %s", machine.name, error)
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            trial.set_user_attr("violations", violations or [0.0])
            for text, violation in zip(settings.subject_to, violations):
                if told:
                    trial.set_constraint(text, violation)
            study.tell(trial, reached)
    about: Dict[str, Any] = {"name": experiment.name, "model": _core.model(), "experiment": experiment.to_dict()}
    best = [
        {"machine": trial.user_attrs["machine"], **dict(zip(settings.objectives, trial.values))}
        for trial in study.best_trials
        if all(violation <= 0 for violation in trial.user_attrs["violations"])
    ]
    unique: Dict[str, Dict[str, Any]] = {canonical(one): one for one in best}
    about["best"] = sorted(unique.values(), key=lambda one: [one[text] for text in settings.objectives])
    about["trials"] = settings.trials
    return Sweep([row for some in rows.values() for row in some], list(failures.values()), about, phases)


def _chosen(grid: Grid, keys: Mapping[str, Any]) -> Union[Machine, None]:
    """The machine of these keys; None if they do not go together."""
    try:
        machine = machine_of(grid.name).with_(**keys)
        _core.build(machine._tuple(), 0, None)
        return machine if all(holds(condition, machine.config) for condition in grid.where) else None
    except (Error, ValueError, ArithmeticError):
        return None
