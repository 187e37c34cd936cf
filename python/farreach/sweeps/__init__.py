"""Sweeps: many machines over many programs, on one machine or a hundred."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .. import _core
from ..errors import Error, ExperimentError
from ..machine import Machine
from ..result import _row
from ..study import _bytes
from . import cluster
from .experiment import Experiment, Grid, built, load, refuse, twice
from .programs import Hashes, Missing, cache_dir, label_of, ready, say
from .runner import Runner
from .table import SCHEMA, Sweep

__all__ = ["sweep", "plan", "Plan", "Sweep", "Experiment", "Grid", "load", "cache_dir", "SCHEMA"]

#: Machines of a pass, unless there are workers without work.
WIDTH = 32


def _experiment(given: Any, keys: Mapping[str, Any]) -> Experiment:
    if isinstance(given, Experiment):
        return given
    if given is None:
        return Experiment(**keys)
    if isinstance(given, Mapping):
        return Experiment.from_dict(given)
    return load(given)


@dataclass
class _Point:
    program: str
    machine: Machine
    limit: Optional[int]
    seed: int
    sought: Any

    def names(self) -> Dict[str, Any]:
        return {"program": self.program, "machine": self.machine.name, "limit": self.limit, "seed": self.seed}

    def __str__(self) -> str:
        limit = "" if self.limit is None else f" up to {self.limit:,}"
        return f"machine {self.machine.name!r} on {self.program!r}{limit} with seed {self.seed}"


class Points:
    """Points of programs that are ready, the cache that knows some of them, and what runs the others."""

    def __init__(
        self, cache: Union[str, os.PathLike[str], None], place: cluster.Place, memory: Optional[int], quiet: bool
    ):
        self.dir = Path(cache) if cache is not None else cache_dir()
        self.dir.mkdir(parents=True, exist_ok=True)
        self.cache = _core.Cache(str(self.dir))
        self.hashes = Hashes(self.dir)
        self.place, self.quiet, self.budget = place, quiet, memory
        self.storage: Dict[str, Mapping[str, Any]] = {}
        #: Results that were in the cache, by their keys.
        self._found: Dict[str, str] = {}
        self._said: Set[str] = set()

    def known(self, keys: Sequence[str]) -> Dict[str, str]:
        """The results that are there of these keys, as JSON."""
        new = [key for key in dict.fromkeys(keys) if key not in self._found]
        texts, unfit = self.cache.get(new)
        for line in unfit:
            # Until it is computed again, a result is asked for more than once.
            if line not in self._said:
                say(line)
            self._said.add(line)
        self._found.update({key: text for key, text in zip(new, texts) if text is not None})
        return {key: self._found[key] for key in keys if key in self._found}

    def programs(
        self, tables: Sequence[Mapping[str, Any]], limits: List[Optional[int]], record: bool, faults: List[str]
    ) -> Tuple[List[Tuple[str, str]], List[str]]:
        """Programs that are ready (JSON and name), and what is said of those that are not. What is wrong goes into
        `faults`."""
        found: List[Tuple[str, str]] = []
        missing: List[str] = []
        seen: Dict[str, str] = {}
        for name in twice(map(label_of, tables)):
            faults.append(f"program {name} is there twice; keys `name` tell programs apart")
        for table in tables:
            try:
                text, label, options = ready(table, limits, self.dir, self.hashes, record)
                if options:
                    self.storage[json.loads(text)["trace"]["file"]] = options
                if text not in seen:
                    found.append((text, label))
                elif seen[text] != label:
                    faults.append(f"program {label!r} is program {seen[text]!r} by another name")
                seen.setdefault(text, label)
            except Missing as error:
                missing.append(str(error))
            except (Error, OSError, ValueError, ImportError) as error:
                # What the library says names it; what a store says does not.
                known = isinstance(error, Error)
                faults.append(str(error) if known else f"program {label_of(table)!r}: {error}")
        return found, missing

    def answers(self, points: Sequence[_Point]) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """Results of points by their keys, as JSON, and why there is none for others: what the cache does not have is
        run."""
        found = self.known([point.sought.key for point in points])
        missing = {p.sought.key: p.sought for p in points if p.sought.key not in found}
        failed: Dict[str, str] = {}
        if missing:
            passes = _core.plan(list(missing.values()), WIDTH, cluster.workers_of(self.place.on))
            runner = Runner(self.cache, self.place, self.storage, self.budget, self.quiet)
            failed = runner.run(passes)
            rest = [key for key in missing if key not in failed]
            found.update(self.known(rest))
            for key in rest:
                if key not in found:
                    raise Error(f"{self.dir}: the result {key} was kept and is gone")
        return found, failed


def _row_of(point: _Point, text: str) -> Dict[str, Any]:
    """A point as a row."""
    measured = json.loads(text)["Machine"]
    row = _row(measured["workload"], measured["machine"])
    # The cache may know it by other names.
    for name in ("name", "workload.source", "workload.seed", "workload.stopped"):
        row.pop(name, None)
    return {**point.names(), **row}


@dataclass
class Plan:
    """What a sweep would do."""

    #: All points.
    points: int
    #: Of those, the ones whose results are there.
    cached: int
    #: Passes for the others.
    passes: int
    #: Programs that would be recorded first; their points are in `points` and nowhere else.
    recordings: List[str]
    #: Estimated seconds from the first pass to the last.
    seconds: float
    #: Workers for which this is said.
    workers: int
    #: Bytes that new results will take, about.
    disk_bytes: int
    #: The job that a batch system would get.
    job_script: Optional[str] = None

    def __str__(self) -> str:
        lines = [
            f"points        {self.points:,}, of which {self.cached:,} are in the cache",
            f"passes        {self.passes:,}",
            f"time          about {_time(self.seconds)} on {self.workers} worker{'s' * (self.workers != 1)}",
            f"disk          about {self.disk_bytes / 1e6:,.1f} MB of results",
        ]
        lines += [f"to record     {what}" for what in self.recordings]
        return "\n".join(lines + (["", self.job_script] if self.job_script else []))


def _time(seconds: float) -> str:
    return (
        f"{seconds:,.0f} s"
        if seconds < 120
        else f"{seconds / 60:,.0f} min"
        if seconds < 10800
        else f"{seconds / 3600:,.1f} h"
    )


#: Bytes of a result in the cache, about.
_RESULT_BYTES = 12_000


def _points(experiment: Experiment, at: Points, record: bool, faults: List[str]) -> Tuple[List[_Point], List[str], int]:
    """Points that are ready, programs that are not, and the number of all points. Every fault is found before a
    program is recorded, and refused together with those in `faults`."""
    tables, machines, seeds, limits = experiment.expand(faults)

    def ready_points(record: bool) -> Tuple[List[_Point], List[str]]:
        programs, missing = at.programs(tables, limits or [None], record, faults)
        points: List[_Point] = []
        keys: Dict[Tuple[str, str], _Point] = {}
        for text, label in programs:
            for limit in limits:
                for seed in seeds:
                    for machine in machines:
                        try:
                            sought = _core.sought(machine._tuple(), seed, text, label, limit)
                        except (Error, OSError, OverflowError, TypeError) as error:
                            faults.append(str(error))
                            continue
                        point = _Point(label, machine, limit, seed, sought)
                        same = keys.setdefault((label, sought.key), point)
                        if same is not point:
                            faults.append(f"{point} is the same point as {same}")
                        points.append(point)
        return points, missing

    points, missing = ready_points(False)
    there = at.known([point.sought.key for point in points])
    unseen = {point.machine.name: point.machine for point in points if point.sought.key not in there}
    built(machines if missing or faults else unseen.values(), faults)
    refuse(faults)
    if record and missing:
        points, missing = ready_points(True)
        refuse(faults)
    return points, missing, len(tables) * len(machines) * len(seeds) * len(limits)


def _prepared(
    experiment: Any,
    keys: Mapping[str, Any],
    on: str,
    cache: Union[str, os.PathLike[str], None],
    memory: Union[int, str, None],
    dashboard: bool,
    quiet: bool,
) -> Tuple[Experiment, Points, List[str]]:
    """The experiment and where it runs, and what is wrong with the latter, to be refused together with the rest."""
    faults: List[str] = []
    described = _experiment(experiment, keys)
    budget = None
    try:
        cluster.check(on, dashboard)
    except ExperimentError as error:
        faults += error.faults
    try:
        budget = _bytes("memory", memory)
        if budget == 0:
            faults.append(f"memory = {memory!r} is not allowed: a size such as 8G is")
    except ValueError as error:
        faults.append(str(error))
    return described, Points(cache, cluster.Place(on, dashboard), budget, quiet), faults


def plan(
    experiment: Any = None,
    *,
    on: str = "local",
    cache: Union[str, os.PathLike[str], None] = None,
    **keys: Any,
) -> Plan:
    """What `sweep` would do with these arguments: nothing is run but short samples.

    Raises:
        ExperimentError: with every fault of the experiment.
    """
    described, at, faults = _prepared(experiment, keys, on, cache, None, False, True)
    if described.search is not None:
        from .search import prepared

        prepared(described, at, faults, record=False)
        raise ExperimentError(["a search has no plan: what it runs depends on what it finds"])
    points, missing, total = _points(described, at, False, faults)
    there = at.known([point.sought.key for point in points])
    sought = {p.sought.key: p.sought for p in points if p.sought.key not in there}
    workers = cluster.workers_of(on)
    passes = _core.plan(list(sought.values()), WIDTH, workers)
    local = [text for text in passes if not any("://" in file for file, _ in _core.traces_of(text)[0])]
    seconds = _core.estimate(local, len(os.sched_getaffinity(0))) if local else []
    wall = max(sum(seconds) / workers, max(seconds, default=0.0))
    return Plan(
        total,
        len([p for p in points if p.sought.key in there]),
        len(passes),
        missing,
        wall,
        workers,
        len(sought) * _RESULT_BYTES,
        cluster.job_script(on),
    )


def sweep(
    experiment: Any = None,
    *,
    on: str = "local",
    cache: Union[str, os.PathLike[str], None] = None,
    memory: Union[int, str, None] = None,
    dashboard: bool = False,
    quiet: bool = False,
    **keys: Any,
) -> Sweep:
    """Runs an experiment: programs x machines x seeds x limits.

    What was run once is not run again: results are kept under what determines them, the resolved machine, the content
    of the trace, the limit and the version of the model. An interrupted sweep goes on where it stopped.

    Args:
        experiment: a TOML file, a dict of its tables, or an `Experiment`; or nothing, and its parts as `programs=`,
            `machines=`, `seeds=`, `limits=`.
        on: where passes run: `local` or `local:N` (N processes here), `tls://HOST:PORT` or `tcp://HOST:PORT` (a Dask
            scheduler), or a TOML file that describes a batch system.
        cache: folder of results; default: `farreach/sweep` in the user's cache directory.
        memory: most memory of a worker, such as "8G": a pass of several points that takes more is cut in two.
        dashboard: show Dask's dashboard, with `on="local"`: a page on 127.0.0.1, which every user of this machine can
            read.
        quiet: no progress on standard error.

    Returns:
        The table; `failures` has the points that failed three times.

    Raises:
        ExperimentError: with every fault of the experiment, before anything runs.
        OSError: a result cannot be kept.

    >>> import tempfile
    >>> table = sweep(programs=["workload:gups:size=1M,references=20K"],
    ...     machines=[Grid("t94/single", {"entries": [16, 32]})], cache=tempfile.mkdtemp(), on="local:1", quiet=True)
    >>> table.frame["config.entries"].tolist()
    [16, 32]
    """
    described, at, faults = _prepared(experiment, keys, on, cache, memory, dashboard, quiet)
    with at.place:
        if described.search is not None:
            from .search import search

            return search(described, at, faults)
        points, _, _ = _points(described, at, True, faults)
        found, failed = at.answers(points)
    rows = [_row_of(point, found[point.sought.key]) for point in points if point.sought.key in found]
    failures = [
        {**point.names(), "message": failed[point.sought.key]} for point in points if point.sought.key in failed
    ]
    about = {"name": described.name, "model": _core.model(), "experiment": described.to_dict()}
    return Sweep(rows, failures, about)
