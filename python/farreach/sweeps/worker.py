"""What runs on workers. A worker needs this package and nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import _core
from ..errors import SimulationError
from .programs import TraceChanged, _facts, cache_dir, download, is_remote

#: How often a worker tells how far it is, in seconds.
TELL = 2.0
#: Hashes of this process, as long as nothing about the file has changed.
_known: Dict[str, Tuple[Any, str]] = {}


class OverBudget(Exception):
    """A pass of several points takes more memory than it may: it is to be cut in two."""


def _objects() -> Path:
    """Where a worker keeps what it fetches: a folder that others cannot write into."""
    given = os.environ.get("FARREACH_OBJECTS")
    return Path(given) if given else cache_dir() / "objects"


def _hash(file: str) -> str:
    """The hash of a trace, which is computed once as long as nothing about it has changed."""
    facts = _facts(file)
    if _known.get(file, (None, ""))[0] != facts:
        _known[file] = facts, _core.hash_of(file)
    return _known[file][1]


def _local(file: str, expected: str, storage: Mapping[str, Mapping[str, Any]]) -> str:
    """A trace on this machine, with the content that the sweep began with."""
    if is_remote(file):
        return str(download(file, storage.get(file, {}), _objects(), expected, _hash)[0])
    found = _hash(file)
    if found != expected:
        raise TraceChanged(f"{file}: the trace has changed: its hash is {found}, the sweep began with {expected}")
    return file


def _resident() -> int:
    """Memory of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_pass(
    text: str, model: str, width: int, storage: Mapping[str, Mapping[str, Any]], budget: Optional[int], topic: str
) -> Dict[str, Any]:
    """Runs a pass.

    Returns:
        `results`: (key, JSON) of each point; or `failed`: the key of a point that cannot go on, and why.
    """
    if model != _core.model():
        raise RuntimeError(
            f"this worker has farreach {_core.__version__} of other sources (model {_core.model()[:12]}, "
            f"the sweep has {model[:12]}): install the same wheel on all workers"
        )
    traces, _ = _core.traces_of(text)
    _, text = _core.traces_of(text, [_local(file, found, storage) for file, found in traces])
    tell = _teller(topic)
    tell(0)
    told = time.monotonic()

    def progress(_instructions: int, references: int) -> None:
        nonlocal told
        if budget is not None and width > 1 and _resident() > budget:
            raise OverBudget(f"{_resident():,} bytes, {budget:,} are allowed")
        if time.monotonic() - told >= TELL:
            told = time.monotonic()
            tell(references * width)

    began = time.process_time()
    try:
        results: List[Tuple[str, str]] = _core.run_pass(text, 1, progress)
    except SimulationError as error:
        return {"failed": (error.machine, error.what)}
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        # A worker must survive it.
        raise RuntimeError(f"farreach itself failed: {error}") from None
    return {"results": results, "seconds": time.process_time() - began}


def _teller(topic: str) -> Any:
    """Tells how far this pass is, and ends it when the sweep has ended."""
    try:
        from distributed import Event, get_worker

        worker = get_worker()
    except ValueError:
        return lambda work: None
    stop, name = Event(f"{topic}-stop"), worker.get_current_task()

    def tell(work: int) -> None:
        worker.log_event(topic, {"worker": worker.address, "work": work, "pass": name})
        if stop.is_set():
            raise InterruptedError("the sweep has ended")

    return tell
