"""Searching instead of trying everything: Optuna asks, the sweep answers, over the same cache."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Tuple, Union

from .. import _core
from ..errors import Error, ExperimentError
from ..machine import Machine
from .experiment import Experiment, Grid, _holds, _machine, _values, canonical, evaluate
from .table import Sweep

if TYPE_CHECKING:
    from . import Points

__all__ = ["search"]

_KEYS = {"objective", "subject_to", "trials", "batch", "seed", "sampler", "maximize"}
_SAMPLERS = ("tpe", "nsga2", "random")
_COMPARISON = re.compile(r"(?P<left>[^<>=!]+)(?P<sign><=|>=|<|>)(?P<right>[^<>=!]+)")


def _texts(value: Any) -> List[str]:
    return [value] if isinstance(value, str) else list(value)


class _Settings:
    """The table `search`, checked."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        faults = [
            f"search: unknown key {key!r}: {', '.join(sorted(_KEYS))} are allowed" for key in sorted(set(table) - _KEYS)
        ]
        self.objectives = _texts(table.get("objective", []))
        self.subject_to = _texts(table.get("subject_to", []))
        self.trials, self.batch = table.get("trials", 100), table.get("batch", 8)
        self.seed, self.sampler = table.get("seed", 0), table.get("sampler", "tpe")
        self.maximize = _texts(table.get("maximize", []))
        if not 1 <= len(self.objectives) <= 3:
            faults.append("search.objective: one to three expressions over columns are allowed, such as 'misses'")
        for name in ("trials", "batch"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                faults.append(f"search.{name} = {value!r} is not allowed: a whole number of at least 1 is")
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
        if faults:
            raise ExperimentError(faults)

    def violation(self, text: str, row: Mapping[str, Any]) -> float:
        """How far a condition is from being met; at most 0 if it is."""
        found = _COMPARISON.fullmatch(text.strip())
        assert found, "checked before"
        difference = float(evaluate(found["left"], row)) - float(evaluate(found["right"], row))
        difference = difference if found["sign"].startswith("<") else -difference
        # Equal is not less.
        return max(difference, 1e-12) if difference == 0 and "=" not in found["sign"] else difference


def _space(experiment: Experiment) -> List[Tuple[Grid, Dict[str, List[Any]]]]:
    """Each grid with the values of its keys."""
    faults: List[str] = []
    space = []
    for grid in experiment._grids(faults):
        if isinstance(grid, Machine):
            faults.append(f"machine {grid.name!r}: a search needs a grid of keys")
            continue
        if grid.list or grid.sample is not None:
            faults.append(f"machine {grid.name!r}: a search takes a grid; list and sample are for sweeps")
        try:
            _machine(grid.name)
            space.append((grid, {key: _values(key, given) for key, given in grid.grid.items()}))
        except (Error, OSError, ValueError) as error:
            faults.append(str(error))
    if faults:
        raise ExperimentError(faults)
    return space


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


def search(experiment: Experiment, at: Points) -> Sweep:
    """Runs the search of an experiment."""
    try:
        import optuna
    except ImportError:
        raise ExperimentError(["a search needs optuna: pip install optuna"]) from None
    from . import _Point, _row_of

    settings = _Settings(experiment.search or {})
    space = _space(experiment)
    # Machines come from the search: what else there is is checked here.
    checked = Experiment(
        experiment.programs,
        [grid.name for grid, _ in space if _is_name(grid.name)] or ["t94/single"],
        experiment.seeds,
        experiment.limits,
    )
    tables, _, seeds, limits = checked.expand()
    programs, _ = at.programs(tables, limits, True)
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
            _Point(label, machine, limit, seed, _core.sought(machine._tuple(), seed, text, label, limit))
            for machine in {m.name: m for _, m in asked if m is not None and m.name not in rows}.values()
            for text, label in programs
            for limit in limits
            for seed in seeds
        ]
        found, failed = at.answers(points)
        for point in points:
            if point.sought.key in found:
                rows.setdefault(point.machine.name, []).append(_row_of(point, found[point.sought.key]))
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
            violations = [settings.violation(text, means) for text in settings.subject_to]
            trial.set_user_attr("violations", violations or [0.0])
            for text, violation in zip(settings.subject_to, violations):
                if told:
                    trial.set_constraint(text, violation)
            study.tell(trial, [float(evaluate(text, means)) for text in settings.objectives])
    about: Dict[str, Any] = {"name": experiment.name, "model": _core.model(), "experiment": experiment.to_dict()}
    best = [
        {"machine": trial.user_attrs["machine"], **dict(zip(settings.objectives, trial.values))}
        for trial in study.best_trials
        if all(violation <= 0 for violation in trial.user_attrs["violations"])
    ]
    unique: Dict[str, Dict[str, Any]] = {canonical(one): one for one in best}
    about["best"] = sorted(unique.values(), key=lambda one: [one[text] for text in settings.objectives])
    about["trials"] = settings.trials
    return Sweep([row for some in rows.values() for row in some], list(failures.values()), about)


def _is_name(name: str) -> bool:
    return "/" in name or ".toml" in name


def _chosen(grid: Grid, keys: Mapping[str, Any]) -> Union[Machine, None]:
    """The machine of these keys; None if they do not go together."""
    try:
        machine = _machine(grid.name).with_(**keys)
        _core.build(machine._tuple(), 0)
        return machine if all(_holds(condition, machine.config) for condition in grid.where) else None
    except (Error, ValueError):
        return None
