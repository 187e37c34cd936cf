"""What a sweep would do, and the sweep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, List, Mapping, Optional, Sequence

from .. import _core
from ..errors import ExperimentError
from ..extras import need
from ..messages import shown
from ..quantities import PathLike, Size
from . import cluster
from .experiment import Experiment
from .points import WIDTH, Point, phases_of_point, row_of_point
from .prepare import ExperimentLike, Parts, points_of, prepared
from .search import prepared as search_prepared
from .search import search
from .table import Sweep

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["sweep", "plan", "Plan"]


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


def plan(
    experiment: Optional[ExperimentLike] = None,
    *,
    on: str = "local",
    cache: Optional[PathLike] = None,
    **parts: Unpack[Parts],
) -> Plan:
    """What `sweep` would do with these arguments: nothing is run but short samples.

    Raises:
        ExperimentError: with every fault of the experiment.
    """
    need("a sweep", "distributed", "cryptography", "fsspec", "simpleeval")
    described, at, faults = prepared(experiment, parts, on, cache, None, False, True)
    if described.search is not None:
        search_prepared(described, at, faults, record=False)
        raise ExperimentError(["a search has no plan: what it runs depends on what it finds"])
    points, missing, total = points_of(described, at, False, faults)
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
    experiment: Optional[ExperimentLike] = None,
    *,
    on: str = "local",
    cache: Optional[PathLike] = None,
    memory: Optional[Size] = None,
    dashboard: bool = False,
    quiet: bool = False,
    **parts: Unpack[Parts],
) -> Sweep:
    """Runs an experiment: programs x machines x seeds x limits.

    What was run once is not run again: results are kept under what determines them, the resolved machine, the content
    of the trace, the limit and the version of the model. An interrupted sweep goes on where it stopped.

    Args:
        experiment: a TOML file, a dict of its tables, or an `Experiment`; or nothing, and its parts as `programs=`,
            `machines=`, `seeds=`, `limits=`, `name=`, `most_points=`, `search=`. Of programs and machines, one alone
            needs no list; seeds may be a range or an array.
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
        MissingExtra: a library that sweeps need is not installed.
        OSError: a result cannot be kept.
        KeyboardInterrupt: Ctrl-C. What is under way has a minute to end, for which a second Ctrl-C does not wait. The
            exception's `table` has all points that are kept; the same sweep goes on from there.

    >>> import tempfile
    >>> from farreach import Grid
    >>> table = sweep(programs=["workload:gups:size=1M,references=20K"],
    ...     machines=[Grid("t94/single", {"entries": [16, 32]})], cache=tempfile.mkdtemp(), on="local:1", quiet=True)
    >>> table.frame["config.entries"].tolist()
    [16, 32]
    """
    need("a sweep", "pandas", "pyarrow", "distributed", "cryptography", "fsspec", "simpleeval", "tqdm")
    with shown(quiet):
        described, at, faults = prepared(experiment, parts, on, cache, memory, dashboard, quiet)
        with at.place:
            if described.search is not None:
                return search(described, at, faults)
            points, _, _ = points_of(described, at, True, faults)
            try:
                found, failed = at.answers(points)
            except KeyboardInterrupt:
                kept = at.known([point.sought.key for point in points])
                raise _interrupted(_table(described, points, kept, {}), len(points)) from None
    return _table(described, points, found, failed)


def _interrupted(table: Sweep, points: int) -> KeyboardInterrupt:
    """Of this very class: Python ends as interrupted programs do for no other."""
    error = KeyboardInterrupt(f"{len(table):,} of {points:,} points are kept; the same sweep goes on from there")
    setattr(error, "table", table)
    return error


def _table(
    experiment: Experiment, points: Sequence[Point], found: Mapping[str, str], failed: Mapping[str, str]
) -> Sweep:
    """What there is of these points."""
    there = [point for point in points if point.sought.key in found]
    rows = [row_of_point(point, found[point.sought.key]) for point in there]
    phases = [row for point in there for row in phases_of_point(point, found[point.sought.key])]
    failures = [
        {**point.names(), "message": failed[point.sought.key]} for point in points if point.sought.key in failed
    ]
    about = {"name": experiment.name, "model": _core.model(), "experiment": experiment.to_dict()}
    return Sweep(rows, failures, about, phases)
