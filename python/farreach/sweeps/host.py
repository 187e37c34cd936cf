"""The scheduler and the workers of a sweep on this machine, in a process of their own. `start` begins it, `main` is
what it does.

Nobody else gets in. Every port is on the loopback interface and takes those alone who show the certificate of this
sweep, which is made anew for each and goes through pipes: it is in no file that outlives a moment, on no command line,
in no variable. Scheduler and workers show no pages unless the dashboard is asked for.

Nothing is imported from the working directory, whatever the Python: the process is isolated (`-I`) and gets the places
of modules of the one that starts it; its children inherit both.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, Any, Dict, Iterator, Mapping, Optional

from .. import _command, _core

__all__ = ["Host", "start", "main"]

#: A pass is one call of minutes. Looking at its stack a hundred times a second, and at clocks and memory ten times,
#: tells nothing about it and takes six percent of a processor; at these intervals it is one.
_CALM = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "1s",
    # With a threshold of Dask's the C library gives back, and gets again, the memory of each batch of references.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Pages that anyone on this machine may read: no more than the dashboard's own.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_LOOPBACK = "127.0.0.1"
#: What the process begins with. It reads a line and leaves the rest of its input open.
_BEGIN = (
    "import sys, json; given = json.loads(sys.stdin.buffer.raw.readline()); sys.path[:] = given.pop('path'); "
    "from farreach.sweeps.host import main; main(given)"
)


@dataclass
class Host:
    """Where the sweep's scheduler is."""

    #: `tls://127.0.0.1:PORT`.
    address: str
    #: Arguments of `distributed.Security`.
    security: Mapping[str, Any]
    #: The address of the dashboard's page, if it was asked for.
    dashboard: Optional[str]


@contextlib.contextmanager
def start(workers: int, dashboard: bool) -> Iterator[Host]:
    """Starts so many workers, and ends them.

    Raises:
        RuntimeError: they do not start.
    """
    environment = {**os.environ, "PATH": _core.tool_path()}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _BEGIN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        # Ctrl-C is for the sweep, which tells its workers.
        start_new_session=True,
    )
    assert process.stdin and process.stdout, "they are pipes"
    given = {"path": [place for place in sys.path if os.path.isabs(place)], "workers": workers, "dashboard": dashboard}
    try:
        _write(process.stdin, given)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the workers of this sweep do not start: {sys.executable} ended")
        found = json.loads(line)
        if "fault" in found:
            raise RuntimeError(f"the workers of this sweep do not start: {found['fault']}")
        yield Host(**found)
    finally:
        # The end of its input is the end of the sweep, also where this process is killed.
        process.stdin.close()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            process.stdout.close()


def _write(to: IO[bytes], line: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        to.write(json.dumps(line).encode() + b"\n")
        to.flush()


def main(given: Mapping[str, Any]) -> None:
    """What the process does."""
    # What is told goes through this pipe alone; what libraries print does not.
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _command.forget_user_environment()
    folder = tempfile.mkdtemp(prefix="farreach-sweep-")
    # Children make their temporary files there.
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        with _cluster(given["workers"], given["dashboard"], folder) as found:
            _write(told, found)
            sys.stdin.buffer.raw.read()  # type: ignore[union-attr]  # until the sweep ends
    except Exception as error:
        _write(told, {"fault": f"{error}" or type(error).__name__})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _cluster(workers: int, dashboard: bool, folder: str) -> Iterator[Dict[str, Any]]:
    import dask
    from distributed import Nanny, Scheduler, Security, SpecCluster
    from distributed.system import MEMORY_LIMIT

    from . import quiet

    dask.config.set(_CALM)
    security = Security.temporary()
    both = {"protocol": "tls://", "host": _LOOPBACK, "security": security}
    worker = {
        "cls": Nanny,
        "options": {
            **both,
            "nthreads": 1,
            "memory_limit": MEMORY_LIMIT // workers,
            "local_directory": folder,
            "worker_class": quiet.Worker,
            "silence_logs": logging.CRITICAL,
        },
    }
    pages = {"dashboard": True, "dashboard_address": f"{_LOOPBACK}:0"} if dashboard else {"dashboard": False}
    scheduler = {"cls": Scheduler if dashboard else quiet.Scheduler, "options": {**both, "port": 0, **pages}}
    with SpecCluster(
        workers=dict.fromkeys(range(workers), worker),
        scheduler=scheduler,
        worker=worker,
        security=security,
        silence_logs=logging.CRITICAL,
    ) as cluster:
        link = None
        if dashboard:
            link = f"http://{_LOOPBACK}:{cluster.scheduler.http_server.port}/status"
        keys = {"tls_ca_file": security.tls_ca_file}
        keys.update({f"tls_client_{part}": getattr(security, f"tls_client_{part}") for part in ("cert", "key")})
        yield {
            "address": cluster.scheduler_address,
            "security": {"require_encryption": True, **keys},
            "dashboard": link,
        }
