"""From an experiment to points: every fault is found before anything runs."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, TypedDict, Union

from .. import _core
from ..errors import Error, ExperimentError
from ..quantities import Count, PathLike, Size, size_of
from . import cluster
from .experiment import Experiment, ProgramLike, SweptLike, load
from .grid import built, refuse
from .points import Point, Points

__all__ = ["ExperimentLike", "Parts", "prepared", "points_of"]


#: What a sweep takes for an experiment: a TOML file, a dict of its tables, or an `Experiment`.
ExperimentLike = Union[Experiment, PathLike, Mapping[str, Any]]


class Parts(TypedDict, total=False):
    """An experiment by its parts, as arguments of `sweep` and `plan`."""

    programs: Union[ProgramLike, Iterable[ProgramLike]]
    machines: Union[SweptLike, Iterable[SweptLike]]
    seeds: Union[int, Iterable[int]]
    limits: Union[Count, Iterable[Optional[Count]]]
    sample: Optional[int]
    start: Union[str, int, None]
    skip: Optional[Count]
    warmup: Optional[Count]
    every: Optional[Count]
    name: str
    most_points: Optional[int]
    search: Optional[Mapping[str, Any]]


def _experiment(given: Optional[ExperimentLike], parts: Parts) -> Experiment:
    unknown = sorted(set(parts) - set(Parts.__annotations__))
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}: {', '.join(Parts.__annotations__)} are the parts of a sweep")
    if given is None:
        return Experiment(**{"programs": (), "machines": (), **parts})  # type: ignore[arg-type]
    if parts:
        raise TypeError(f"an experiment is given, and {', '.join(sorted(parts))} beside it: only one is allowed")
    if isinstance(given, Experiment):
        return given
    if isinstance(given, Mapping):
        return Experiment.from_dict(given)
    return load(given)


def prepared(
    experiment: Optional[ExperimentLike],
    parts: Parts,
    on: str,
    cache: Optional[PathLike],
    memory: Optional[Size],
    dashboard: bool,
    quiet: bool,
) -> Tuple[Experiment, Points, List[str]]:
    """The experiment and where it runs, and what is wrong with the latter, to be refused together with the rest."""
    faults: List[str] = []
    described = _experiment(experiment, parts)
    budget = None
    try:
        cluster.check(on, dashboard)
    except ExperimentError as error:
        faults += error.faults
    try:
        budget = size_of("memory", memory)
        if budget == 0:
            faults.append(f"memory = {memory!r} is not allowed: a size such as 8G is")
    except ValueError as error:
        faults.append(str(error))
    return described, Points(cache, cluster.Place(on, dashboard), budget, quiet), faults


def points_of(
    experiment: Experiment, at: Points, record: bool, faults: List[str]
) -> Tuple[List[Point], List[str], int]:
    """Points that are ready, programs that are not, and the number of all points. Every fault is found before a
    program is recorded, and refused together with those in `faults`."""
    tables, machines, seeds, limits = experiment.expand(faults)

    def ready_points(record: bool) -> Tuple[List[Point], List[str]]:
        piece = (None, 0, 0, None) if faults else experiment.piece()
        recorded = limits if faults else experiment.to_record(limits)
        programs, missing = at.programs(tables, recorded or [None], record, faults)
        points: List[Point] = []
        keys: Dict[Tuple[str, str], Point] = {}
        for text, label in programs:
            for limit in limits:
                for seed in seeds:
                    for machine in machines:
                        try:
                            extent = (limit, experiment.sample, piece)
                            sought = _core.sought(machine._tuple(), seed, text, label, extent)
                        except (Error, OSError, OverflowError, TypeError) as error:
                            faults.append(str(error))
                            continue
                        point = Point(label, machine, limit, seed, sought)
                        same = keys.setdefault((label, sought.key), point)
                        if same is not point:
                            faults.append(f"{point} is the same point as {same}")
                        points.append(point)
        return points, missing

    points, missing = ready_points(False)
    there = at.known([point.sought.key for point in points])
    unseen = {point.machine.name: point.machine for point in points if point.sought.key not in there}
    built(machines if missing or faults else unseen.values(), experiment.sample, faults)
    refuse(faults)
    if record and missing:
        points, missing = ready_points(True)
        refuse(faults)
    return points, missing, len(tables) * len(machines) * len(seeds) * len(limits)
