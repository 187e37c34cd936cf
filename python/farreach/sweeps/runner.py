"""Hands passes to Dask and takes their results: into the cache, one by one, as they come."""

from __future__ import annotations

import json
import queue
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import _core
from ..errors import Error
from .cluster import Place
from .programs import TraceChanged
from .worker import OverBudget, run_pass

__all__ = ["Runner"]

#: A point is tried so often.
TRIES = 3
#: How long to look for a scheduler that went away, in seconds.
PATIENCE = 600.0


class _Lost(Exception):
    """The scheduler is gone."""


@dataclass
class Runner:
    """Runs passes and keeps what they find.

    Args:
        cache: where results are kept.
        place: where passes run.
        storage: options of object stores, by the address of a trace.
        budget: bytes that a worker may take for a pass of several points.
        quiet: no progress.
    """

    cache: Any
    place: Place
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    budget: Optional[int] = None
    quiet: bool = False

    def run(self, passes: Sequence[str]) -> Dict[str, str]:
        """Runs these passes (JSON). Returns the keys of points that failed, each with its message.

        Raises:
            OSError: a result cannot be kept.
            KeyboardInterrupt: interrupted; what is done is kept.
        """
        self._topic = f"farreach-{uuid.uuid4().hex[:12]}"
        self._waiting: Dict[str, Dict[str, Any]] = {}
        self._tries: Counter[str] = Counter()
        self._failed: Dict[str, str] = {}
        self._show = _Show(self.quiet)
        for text in passes:
            self._add(json.loads(text))
        self._show.expect(self._waiting.values())
        since: Optional[float] = None
        while self._waiting:
            try:
                client = self.place.client()
                since = None
                self._drive(client)
            except (_Lost, OSError) as error:
                # A result that cannot be kept has a number of the system's; a scheduler that does not answer has none.
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                self.place.close()
                since = since or time.monotonic()
                if time.monotonic() - since > PATIENCE:
                    raise Error(f"{self.place.on}: the scheduler does not answer; what is done is kept") from None
                self._show.note(f"{self.place.on}: the scheduler is gone; trying again")
                time.sleep(1)
        self._show.end()
        return self._failed

    def _add(self, work: Dict[str, Any]) -> str:
        name = f"pass-{uuid.uuid4().hex}"
        self._waiting[name] = work
        return name

    def _drive(self, client: Any) -> None:
        """Submits what is waiting and takes what comes, until nothing waits."""
        from distributed import Event

        done: queue.Queue[Any] = queue.Queue()
        futures: Dict[str, Any] = {}

        def submit(name: str) -> None:
            work = self._waiting[name]
            text = json.dumps(work)
            urls = {file for file, _ in _core.traces_of(text)[0]}
            storage = {url: options for url, options in self.storage.items() if url in urls}
            # What lost its worker Dask runs again by itself; what fails is tried again by `_taken`.
            future = client.submit(
                run_pass,
                text,
                _core.model(),
                _width(work),
                storage,
                self.budget,
                self._topic,
                key=name,
                retries=0,
                pure=False,
                priority=_width(work),
            )
            futures[name] = future
            future.add_done_callback(done.put)

        self._show.link(self.place.link)
        client.subscribe_topic(self._topic, lambda event: self._show.told(event[1]))
        try:
            for name in list(self._waiting):
                submit(name)
            while self._waiting:
                try:
                    future = done.get(timeout=0.5)
                except queue.Empty:
                    lost = any(f.status in ("lost", "cancelled") for f in futures.values())
                    if client.status == "closed" or lost:
                        raise _Lost from None
                    self._show.show()
                    continue
                if future.key not in self._waiting:
                    continue
                if future.status not in ("finished", "error"):
                    raise _Lost
                work = self._waiting.pop(future.key)
                futures.pop(future.key)
                for more in self._taken(work, future):
                    submit(self._add(more))
                self._show.show()
        except KeyboardInterrupt:
            Event(f"{self._topic}-stop").set()
            client.cancel(list(futures.values()), force=True)
            raise
        except BaseException:
            if client.status == "running":
                Event(f"{self._topic}-stop").set()
            raise

    def _taken(self, work: Dict[str, Any], future: Any) -> List[Dict[str, Any]]:
        """Takes what came of a pass. Returns passes that are to be run because of it."""
        if future.status == "finished":
            value = future.result()
            if "results" in value:
                for key, answer in value["results"]:
                    self.cache.put(key, answer)
                self._show.finished(work)
                return []
            key, message = value["failed"]
            return self._without(work, key, message)
        error = future.exception()
        points = work.get("machines", [])
        if isinstance(error, OverBudget) and len(points) > 1:
            return _halves(work)
        message = f"{error}" or type(error).__name__
        if type(error).__name__ == "KilledWorker":
            message = f"its workers were killed: {message}"
        name = points[0]["key"] if points else work["page_sizes"]["key"]
        self._tries[f"{name} of {len(points)}"] += 1
        if isinstance(error, TraceChanged) or self._tries[f"{name} of {len(points)}"] >= TRIES:
            if len(points) > 1 and not isinstance(error, (TraceChanged, OSError)):
                # One of them may be at fault.
                return _halves(work)
            for key in [point["key"] for point in points] or [name]:
                self._failed[key] = message
            self._show.finished(work)
            return []
        return [work]

    def _without(self, work: Dict[str, Any], key: str, message: str) -> List[Dict[str, Any]]:
        """A point cannot go on: the others run without it, and it is tried again by itself."""
        self._tries[key] += 1
        points = work["machines"]
        rest = [point for point in points if point["key"] != key]
        more = [{**work, "machines": rest}] if rest else []
        if self._tries[key] >= TRIES:
            self._failed[key] = message
            self._show.finished({**work, "machines": [p for p in points if p["key"] == key]})
        else:
            more.append({**work, "machines": [point for point in points if point["key"] == key]})
        return more


def _width(work: Mapping[str, Any]) -> int:
    """Points of a pass."""
    return len(work["machines"]) if "machines" in work else 1


def _halves(work: Dict[str, Any]) -> List[Dict[str, Any]]:
    points = work["machines"]
    half = len(points) // 2
    return [{**work, "machines": points[:half]}, {**work, "machines": points[half:]}]


class _Show:
    """Progress for people, on standard error: a line that is drawn over, or one now and then where that is a file."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._points = self._total = 0
        #: References times machines: of finished passes, and of those under way, by worker.
        self._work = 0
        self._under_way: Dict[str, int] = {}
        self._drawn = False

    def expect(self, passes: Any) -> None:
        self._total = sum(_width(work) for work in passes)

    def link(self, dashboard: Optional[str]) -> None:
        where = f"; Dask's dashboard: {dashboard}" if dashboard else ""
        self.note(f"{self._total - self._points} points{where}")

    def told(self, event: Mapping[str, Any]) -> None:
        before = self._under_way.get(event["worker"], 0)
        if event["work"] < before:
            self._work += before
        self._under_way[event["worker"]] = event["work"]

    def finished(self, work: Mapping[str, Any]) -> None:
        self._points += _width(work)

    def _line(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        done = self._work + sum(self._under_way.values())
        text = (
            f"{self._points:,} of {self._total:,} points, {done / seconds / 1e6:,.0f} M references x machines a second"
        )
        if self._points:
            left = seconds * (self._total - self._points) / self._points
            text += f", about {left / 60:,.0f} min left" if left > 90 else f", about {left:,.0f} s left"
        return text

    def show(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.5 if self._terminal else 30):
            return
        self._shown = now
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{self._line()}")
            sys.stderr.flush()
            self._drawn = True
        else:
            self.note(self._line())

    def note(self, text: str) -> None:
        if not self._quiet:
            sys.stderr.write(("\r\x1b[K" if self._drawn else "") + f"farreach: {text}\n")
            sys.stderr.flush()
            self._drawn = False

    def end(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
