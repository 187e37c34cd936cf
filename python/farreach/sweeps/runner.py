"""Hands passes to Dask and takes their results: into the cache, one by one, as they come."""

from __future__ import annotations

import json
import math
import queue
import sys
import time
import uuid
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .. import _core
from ..errors import Error
from ..messages import log
from .cluster import Place
from .programs import TraceChanged
from .worker import OverBudget, run_pass

__all__ = ["Runner"]

#: A point is tried so often.
TRIES = 3
#: How long to look for a scheduler that went away, in seconds.
PATIENCE = 600.0
#: How long passes under way are waited for after Ctrl-C, in seconds.
LAST = 60.0


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

        def told(event: Tuple[float, Mapping[str, Any]]) -> None:
            begun.add(event[1]["pass"])
            self._show.told(event[1])

        begun: Set[str] = set()
        self._show.link(self.place.link)
        client.subscribe_topic(self._topic, told)
        interrupted, end = False, math.inf
        try:
            for name in list(self._waiting):
                submit(name)
            while self._waiting and time.monotonic() < end:
                try:
                    self._next(client, futures, done, None if interrupted else submit)
                except KeyboardInterrupt:
                    if interrupted:
                        raise
                    interrupted, end = True, time.monotonic() + LAST
                    # What is under way is finished, if that is soon; a second Ctrl-C ends it, too.
                    rest = [name for name in self._waiting if name not in begun]
                    client.cancel([futures.pop(name) for name in rest], force=True)
                    for name in rest:
                        del self._waiting[name]
                    if self._waiting:
                        points = sum(map(_width, self._waiting.values()))
                        self._show.note(
                            f"interrupted; {points} points under way have {LAST:.0f} s, unless Ctrl-C again"
                        )
            if interrupted:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            Event(f"{self._topic}-stop").set()
            client.cancel(list(futures.values()), force=True)
            self._show.end()
            raise
        except BaseException:
            if client.status == "running":
                Event(f"{self._topic}-stop").set()
            self._show.end()
            raise

    def _next(self, client: Any, futures: Dict[str, Any], done: queue.Queue[Any], submit: Any) -> None:
        """Waits for a pass, takes it, and submits what is to be run because of it; without `submit` it is given up."""
        try:
            future = done.get(timeout=0.5)
        except queue.Empty:
            lost = any(f.status in ("lost", "cancelled") for f in futures.values())
            if client.status == "closed" or lost:
                raise _Lost from None
            self._show.show()
            return
        if future.key not in self._waiting:
            return
        if future.status not in ("finished", "error"):
            raise _Lost
        work = self._waiting.pop(future.key)
        futures.pop(future.key)
        for more in self._taken(work, future) if submit else self._kept(work, future):
            submit(self._add(more))
        self._show.show()

    def _kept(self, work: Dict[str, Any], future: Any) -> List[Dict[str, Any]]:
        """Of an interrupted sweep: keeps what a pass has found, and tries nothing again."""
        if future.status == "finished":
            for key, answer in future.result().get("results", []):
                self.cache.put(key, answer)
        self._show.finished(work)
        return []

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
    """Progress for people, on standard error: a bar on a terminal and in a notebook, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._drawn = not quiet and (sys.stderr.isatty() or "ipykernel" in sys.modules)
        self._began = self._shown = time.monotonic()
        self._points = self._total = 0
        #: References times machines: of finished passes, and of those under way, by worker.
        self._work = 0
        self._under_way: Dict[str, int] = {}

    def expect(self, passes: Any) -> None:
        self._total = sum(_width(work) for work in passes)

    def link(self, dashboard: Optional[str]) -> None:
        where = f"; Dask's dashboard: {dashboard}" if dashboard else ""
        self.note(f"{self._total - self._points} points{where}")
        if self._drawn and self._bar is None:
            with warnings.catch_warnings():
                # Without widgets a notebook has a bar of characters.
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm
            self._bar = tqdm(total=self._total, initial=self._points, unit=" points", leave=False, file=sys.stderr)

    def told(self, event: Mapping[str, Any]) -> None:
        before = self._under_way.get(event["worker"], 0)
        if event["work"] < before:
            self._work += before
        self._under_way[event["worker"]] = event["work"]

    def finished(self, work: Mapping[str, Any]) -> None:
        self._points += _width(work)
        if self._bar is not None:
            self._bar.update(_width(work))

    def _rate(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        done = self._work + sum(self._under_way.values())
        return f"{done / seconds / 1e6:,.0f} M references x machines a second"

    def show(self) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(self._rate())
        elif not self._quiet and time.monotonic() - self._shown >= 30:
            self._shown = time.monotonic()
            text = f"{self._points:,} of {self._total:,} points, {self._rate()}"
            if self._points:
                left = (self._shown - self._began) * (self._total - self._points) / self._points
                text += f", about {left / 60:,.0f} min left" if left > 90 else f", about {left:,.0f} s left"
            self.note(text)

    def note(self, text: str) -> None:
        if not self._quiet:
            log.info("%s", text)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
