"""Where a sweep runs: one option, and Dask behind it."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, Dict, Iterator, Mapping, Optional

from ..errors import ExperimentError
from . import toml

__all__ = ["Place", "check", "job_script", "workers_of"]

_KINDS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "htcondor": "HTCondorCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
}
#: A pass is one call of minutes. Looking at its stack a hundred times a second, and at clocks and memory ten times,
#: tells nothing about it and takes six percent of a processor; at these intervals it is one.
_CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "1s",
    # With a threshold of Dask's the C library gives back, and gets again, the memory of each batch of references.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
}
#: So often a cluster is started before it is said that it cannot be.
STARTS = 3
_ALLOWED = "--on must be local, local:N, tcp://HOST:PORT or FILE.toml"


def _local_workers(on: str) -> int:
    _, colon, count = on.partition(":")
    if not colon:
        return len(os.sched_getaffinity(0))
    if not count.isdigit() or int(count) < 1:
        raise ExperimentError([f"--on {on} is not allowed: {_ALLOWED}, N at least 1"])
    return int(count)


def _file(on: str) -> Dict[str, Any]:
    """The description of a batch system."""
    try:
        table = toml.read(on)
    except OSError as error:
        raise ExperimentError([f"--on {on}: {error.strerror}"]) from None
    kind, unknown = table.get("kind"), sorted(set(table) - {"kind", "jobs", "adapt", "options"})
    if unknown:
        raise ExperimentError([f"{on}: unknown key {unknown[0]!r}: kind, jobs, adapt, options are allowed"])
    if kind not in _KINDS:
        raise ExperimentError([f"{on}: kind = {kind!r} is not allowed: kind must be one of {', '.join(_KINDS)}"])
    if ("jobs" in table) == ("adapt" in table):
        raise ExperimentError([f"{on}: either jobs = N or adapt = [FEWEST, MOST] must be there"])
    return table


def _batch(on: str) -> Any:
    """The cluster of a batch system; no job is started yet."""
    table = _file(on)
    try:
        import dask_jobqueue
    except ImportError:
        raise ExperimentError([f"--on {on} needs dask-jobqueue: pip install dask-jobqueue"]) from None
    options = dict(table.get("options", {}))
    options.setdefault("cores", 1)
    # A pass is one thread's work.
    options.setdefault("processes", options["cores"])
    try:
        return getattr(dask_jobqueue, _KINDS[table["kind"]])(**options), table
    except (TypeError, ValueError) as error:
        raise ExperimentError([f"{on}: options: {error}"]) from None


def check(on: str) -> None:
    """Refuses what is no place to run."""
    if on.startswith("local"):
        if on.partition(":")[0] != "local":
            raise ExperimentError([f"--on {on} is not allowed: {_ALLOWED}"])
        _local_workers(on)
    elif on.endswith(".toml"):
        _file(on)
    elif not on.startswith(("tcp://", "tls://", "ucx://", "ws://", "wss://")):
        raise ExperimentError([f"--on {on} is not allowed: {_ALLOWED}"])


def workers_of(on: str) -> int:
    """About how many workers there will be, to say how long it takes and to cut passes."""
    if on.startswith("local"):
        return _local_workers(on)
    if on.endswith(".toml"):
        table = _file(on)
        options: Mapping[str, Any] = table.get("options", {})
        jobs = table["jobs"] if "jobs" in table else table["adapt"][1]
        return int(jobs) * int(options.get("processes", options.get("cores", 1)))
    try:
        from distributed import Client

        with Client(on, timeout=10) as client:
            return max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    except (OSError, ValueError):
        return 1


def job_script(on: str) -> Optional[str]:
    """The job that a batch system would get."""
    if not on.endswith(".toml"):
        return None
    cluster, _ = _batch(on)
    try:
        return str(cluster.job_script())
    finally:
        cluster.close()


class Place:
    """Where passes run, opened when the first one comes. What was started for it ends with it."""

    def __init__(self, on: str) -> None:
        self.on = on
        self._open: Any = None
        self._client: Any = None

    def client(self) -> Any:
        """A client of the scheduler."""
        for attempt in range(1, STARTS + 1):
            if self._client is not None:
                break
            opened = _connect(self.on)
            try:
                self._client = opened.__enter__()
                self._open = opened
            except RuntimeError:
                # A worker that is killed while it starts: Dask gives up the whole cluster then.
                if attempt == STARTS:
                    raise
        return self._client

    def close(self) -> None:
        """Ends it; it may be opened again."""
        opened, self._open, self._client = self._open, None, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _connect(on: str) -> Iterator[Any]:
    """A client of the place where passes run; what was started for it ends with it."""
    import dask
    from distributed import Client, LocalCluster

    # What Dask says about a client that goes is not about the sweep.
    for name in ("distributed.client", "distributed.batched", "distributed.comm.tcp", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if on.startswith("local"):
        dask.config.set(_CALM)
        with (
            LocalCluster(
                n_workers=_local_workers(on),
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
    elif on.endswith(".toml"):
        cluster, table = _batch(on)
        with cluster:
            if "jobs" in table:
                cluster.scale(jobs=int(table["jobs"]))
            else:
                fewest, most = table["adapt"]
                cluster.adapt(minimum_jobs=int(fewest), maximum_jobs=int(most))
            with Client(cluster) as client:
                yield client
    else:
        with Client(on, timeout=30) as client:
            yield client
