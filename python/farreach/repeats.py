"""The same thing several times: how far results move from run to run."""

from __future__ import annotations

import statistics
from typing import Any, Iterable, Iterator, List, Optional, Sequence

from .frames import frame
from .machine import MachinesLike
from .quantities import Command, Count, PathLike, is_whole, seed_of
from .result import Result
from .study import run, simulate
from .trace import TraceLike

__all__ = ["Repeats", "repeat"]


class Repeats(Sequence[Result]):
    """Results of the same machines on the same program, run several times: `repeats[0]` is the first.

    Args:
        results: at least one, all with machines of the same names.

    Raises:
        ValueError: they have not.
    """

    def __init__(self, results: Iterable[Result]) -> None:
        self.results: List[Result] = list(results)
        if not self.results:
            raise ValueError("results = [] is not allowed: there must be at least one")
        for i, result in enumerate(self.results):
            if result.keys() != self.results[0].keys():
                raise ValueError(f"result {i} has the machines {result.keys()}, result 0 {self.results[0].keys()}")

    @property
    def confidence(self) -> float:
        """How sure it is that the median of all possible runs lies between `least` and `most`: 1 - 2^(1-n) of n runs,
        for any distribution. 0.94 of five, 0.97 of six."""
        return 1.0 - 2.0 ** (1 - len(self.results))

    def values(self, machine: str, y: str = "misses") -> List[float]:
        """The value of a machine in each run. `y` is a column of `Result.to_frame`."""
        rows = [row for result in self.results for row in result.rows() if row["machine"] == machine]
        if not rows:
            raise KeyError(f"no machine {machine!r}; there are {', '.join(self.results[0].keys())}")
        if not all(isinstance(row.get(y), (int, float)) for row in rows):
            there = ", ".join(name for name, value in rows[0].items() if isinstance(value, (int, float)))
            raise ValueError(f"y = {y!r} is not allowed: columns with numbers are {there}")
        return [float(row[y]) for row in rows]

    def to_frame(self, y: str = "misses", base: Optional[str] = None) -> Any:
        """A `pandas.DataFrame` with a row for each machine: `machine`, `least`, `median`, `most` and `spread`, which is
        `most` / `least` - 1.

        Args:
            y: a column of `Result.to_frame`.
            base: a machine: values are relative to its value in the same run. What moves both is not in the spread.
        """
        against = self.values(base, y) if base is not None else [1.0] * len(self.results)
        if not all(against):
            raise ValueError(f"{y} of {base} is 0 in a run: nothing is relative to it")
        rows = []
        for machine in self.results[0].keys():
            values = [value / other for value, other in zip(self.values(machine, y), against)]
            least, most = min(values), max(values)
            spread = most / least - 1 if least else None
            middle = statistics.median(values)
            rows.append({"machine": machine, "least": least, "median": middle, "most": most, "spread": spread})
        return frame(rows)

    def __getitem__(self, which: Any) -> Any:
        return self.results[which]

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"<Repeats: {len(self)} times {self.results[0]!r}>"


def repeat(
    command: Optional[Command] = None,
    machines: Optional[MachinesLike] = None,
    *,
    trace: Optional[TraceLike] = None,
    times: int = 5,
    limit: Optional[Count] = None,
    seed: int = 0,
    threads: int = 0,
    cwd: Optional[PathLike] = None,
    stdin: Optional[PathLike] = None,
    stdout: Optional[PathLike] = None,
) -> Repeats:
    """Runs a program several times, or a trace with several seeds, to see how far results move.

    A program that runs again may do other things: where its memory lies, what its input and the time are. Its misses
    may move by a few percent for that alone, more than designs differ. On one recording only what is random in a
    machine moves.

    Args:
        command: a program to run under the recorder each time; or
        trace: as for `simulate`; arrays too, but no iterator.
        machines: as for `run`.
        times: so often; seeds are `seed`, `seed` + 1, and so on.
        limit, seed, threads, cwd, stdin, stdout: as for `run`.

    >>> found = repeat(trace="workload:gups:size=1M,references=20K", machines="t94/single", times=3)
    >>> len(found), len(set(found.values("t94/single")))
    (3, 1)
    """
    if (trace is None) == (command is None):
        raise ValueError("a trace or a command is needed, and only one of them")
    if not is_whole(times, 1, 10_000):
        raise ValueError(f"times = {times!r} is not allowed: a whole number from 1 to 10,000 is")
    seeds = [seed_of(seed_of(seed) + i) for i in range(times)]
    if command is not None:

        def once(seed: int) -> Result:
            return run(command, machines, limit=limit, seed=seed, threads=threads, cwd=cwd, stdin=stdin, stdout=stdout)

        return Repeats(map(once, seeds))
    assert trace is not None, "one of them is given"
    return Repeats(simulate(trace, machines, limit=limit, seed=one, threads=threads) for one in seeds)
