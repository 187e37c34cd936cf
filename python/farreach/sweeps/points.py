"""Points of a sweep, the cache that knows some of them, and what runs the others."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from .. import _core
from ..errors import Error
from ..frames import phase_rows, row_of
from ..machine import Machine
from ..messages import log
from . import cluster
from .grid import twice
from .programs import Hashes, Missing, cache_dir, is_remote, label_of, ready, traces_in
from .runner import Runner

__all__ = ["Point", "Points", "row_of_point", "phases_of_point", "WIDTH"]

#: Machines of a pass, unless there are workers without work.
WIDTH = 32


@dataclass
class Point:
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
                log.warning("%s", line)
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
                if options and "trace" in table:
                    self.storage.update((file, options) for file in traces_in(table) if is_remote(file))
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

    def answers(self, points: Sequence[Point]) -> Tuple[Dict[str, Any], Dict[str, str]]:
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


def phases_of_point(point: Point, text: str) -> List[Dict[str, Any]]:
    """What a point counted phase by phase, as rows; none if it has no phases."""
    return [{**point.names(), **row} for row in phase_rows(json.loads(text)["Machine"]["machine"])]


def row_of_point(point: Point, text: str) -> Dict[str, Any]:
    """A point as a row."""
    measured = json.loads(text)["Machine"]
    row = row_of(measured["workload"], measured["machine"])
    # The cache may know it by other names. The limit is that which was asked for, also where a program ended before.
    names = point.names()
    for name in (*names, "name", "workload.source", "workload.seed", "workload.stopped"):
        row.pop(name, None)
    return {**names, **row}
