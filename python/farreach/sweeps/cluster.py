"""Where a sweep runs: one option, and Dask behind it."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import platform
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

from ..errors import ExperimentError
from ..messages import log
from . import host, toml

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
#: So often a cluster is started before it is said that it cannot be.
STARTS = 3
_ALLOWED = "--on must be local, local:N, tls://HOST:PORT, tcp://HOST:PORT or FILE.toml"
#: Schemes of addresses, and whether connections are encrypted and both ends show certificates.
_SCHEMES = {"tcp": False, "tls": True, "ucx": False, "ws": False, "wss": True}
_OPEN = (
    "whoever can reach its ports can run code there as the user who started it; the book's page about sweeps has TLS"
)


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
    kind, unknown = table.get("kind"), sorted(set(table) - {"kind", "jobs", "adapt", "options", "tls"})
    faults = [f"{on}: unknown key {key!r}: kind, jobs, adapt, tls, options are allowed" for key in unknown]
    if kind not in _KINDS:
        faults.append(f"{on}: kind = {kind!r} is not allowed: kind must be one of {', '.join(_KINDS)}")
    if ("jobs" in table) == ("adapt" in table):
        faults.append(f"{on}: either jobs = N or adapt = [FEWEST, MOST] must be there")
    if not isinstance(table.get("tls", False), bool):
        faults.append(f"{on}: tls = {table['tls']!r} is not allowed: tls must be true or false")
    jobs = table.get("jobs", 1)
    if not _whole(jobs) or jobs < 1:
        faults.append(f"{on}: jobs = {jobs!r} is not allowed: a whole number of at least 1 is")
    adapt = table.get("adapt", [1, 1])
    if not isinstance(adapt, list) or len(adapt) != 2 or not all(map(_whole, adapt)) or not 0 <= adapt[0] <= adapt[1]:
        faults.append(f"{on}: adapt = {adapt!r} is not allowed: [FEWEST, MOST] is, whole numbers")
    if not isinstance(table.get("options", {}), dict):
        faults.append(f"{on}: options = {table['options']!r} is not allowed: it must be a table")
    if faults:
        raise ExperimentError(faults)
    return table


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


#: What a job does before its worker starts. Nothing is imported from the folder of the job, which is where the sweep
#: was started: Python 3.11 and newer take it from the variable, others go to a folder that only root can change. And
#: workers show no pages: their ports for them take everybody.
_PROLOGUE = ["export PYTHONSAFEPATH=1", "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[]"]
_PROLOGUE += ["cd /"] if sys.version_info < (3, 11) else []


def _security(table: Mapping[str, Any]) -> Any:
    """What keeps others out of a batch system's workers; `None`: nothing does."""
    import dask
    from distributed import Security

    if table.get("tls"):
        return Security.temporary()
    return Security() if dask.config.get("distributed.comm.require-encryption") else None


def _batch(on: str) -> Any:
    """The cluster of a batch system; no job is started yet."""
    table = _file(on)
    try:
        import dask_jobqueue
    except ImportError:
        raise ExperimentError([f"--on {on} needs dask-jobqueue: pip install dask-jobqueue"]) from None
    from . import quiet

    options = dict(table.get("options", {}))
    options.setdefault("cores", 1)
    # A pass is one thread's work.
    options.setdefault("processes", options["cores"])
    options["job_script_prologue"] = [*options.get("job_script_prologue", []), *_PROLOGUE]
    if "dashboard_address" not in options.get("scheduler_options", {}):
        options["scheduler_cls"] = quiet.Scheduler
    security = _security(table)
    if security is not None:
        options["security"] = security
    if table.get("tls"):
        # A folder that its nodes share, too; the files in it are the user's alone, and end with the sweep.
        options.setdefault("shared_temp_directory", str(Path.home()))
    try:
        return getattr(dask_jobqueue, _KINDS[table["kind"]])(**options), table, security
    except (TypeError, ValueError) as error:
        raise ExperimentError([f"{on}: options: {error}"]) from None


def check(on: str, dashboard: bool = False) -> None:
    """Refuses what is no place to run."""
    if dashboard and not on.startswith("local"):
        raise ExperimentError([f"--dashboard is for --on local; --on {on} has a dashboard or none"])
    if dashboard and importlib.util.find_spec("bokeh") is None:
        raise ExperimentError(["--dashboard needs bokeh: pip install bokeh"])
    if on.startswith("local"):
        if on.partition(":")[0] != "local":
            raise ExperimentError([f"--on {on} is not allowed: {_ALLOWED}"])
        _local_workers(on)
    elif on.endswith(".toml"):
        _file(on)
    elif not any(on.startswith(f"{scheme}://") for scheme in _SCHEMES):
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
    cluster, *_ = _batch(on)
    try:
        return str(cluster.job_script())
    finally:
        cluster.close()


class Place:
    """Where passes run, opened when the first one comes. What was started for it ends with it."""

    def __init__(self, on: str, dashboard: bool = False) -> None:
        self.on, self._dashboard = on, dashboard
        self._open: Any = None
        self._client: Any = None
        #: The address of a dashboard, where there is one.
        self.link: Optional[str] = None
        self._warned = False

    def client(self) -> Any:
        """A client of the scheduler."""
        for attempt in range(1, STARTS + 1):
            if self._client is not None:
                break
            opened = _connect(self.on, self._dashboard, self._warn)
            try:
                self._client, self.link = opened.__enter__()
                self._open = opened
            except RuntimeError:
                # A worker that is killed while it starts: Dask gives up the whole cluster then.
                if attempt == STARTS:
                    raise
        return self._client

    def _warn(self, what: str) -> None:
        if not self._warned:
            log.warning("%s: %s", self.on, what)
        self._warned = True

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
def _connect(on: str, dashboard: bool, warn: Callable[[str], None]) -> Iterator[Tuple[Any, Optional[str]]]:
    """A client of the place where passes run, and the address of its dashboard. What was started ends with it."""
    from distributed import Client, Security

    # What Dask says about a client that goes is not about the sweep.
    for name in ("distributed.client", "distributed.batched", "distributed.comm.tcp", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Clients say on which processor they run. Python asks the first `uname` on the path, which may be anybody's.
    platform.uname().processor = platform.machine()  # type: ignore[misc]
    if on.startswith("local"):
        with (
            host.start(_local_workers(on), dashboard) as started,
            Client(started.address, security=Security(**started.security)) as client,
        ):
            yield client, started.dashboard
    elif on.endswith(".toml"):
        cluster, table, security = _batch(on)
        if security is None:
            warn(f"no TLS: {_OPEN}")
        with cluster:
            if "jobs" in table:
                cluster.scale(jobs=table["jobs"])
            else:
                fewest, most = table["adapt"]
                cluster.adapt(minimum_jobs=fewest, maximum_jobs=most)
            with Client(cluster) as client:
                pages = "dashboard_address" in table.get("options", {}).get("scheduler_options", {})
                yield client, client.dashboard_link if pages else None
    else:
        if not _SCHEMES[on.partition(":")[0]]:
            warn(f"no TLS: {_OPEN}")
        with Client(on, timeout=30) as client:
            pages = "dashboard" in client.scheduler_info(n_workers=0).get("services", {})
            yield client, client.dashboard_link if pages else None
