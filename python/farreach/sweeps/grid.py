"""Grids: many machines made of one."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, cast

from .. import _core
from ..errors import Error, ExperimentError
from ..machine import Machine
from ..quantities import is_whole
from .expressions import holds

__all__ = ["Grid", "built", "machine_of", "refuse", "twice"]

#: More values than this of one key are refused.
MOST_VALUES = 1_000_000
#: Faults that are listed; of more, the number is said.
MOST_FAULTS = 50


def _is_number(value: Any) -> bool:
    """Whether it is a number, and not beyond those with a point."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _values(key: str, given: Any) -> List[Any]:
    """The values of one key of a grid: a list, or a range."""

    def refused(why: str) -> ValueError:
        shown = dict(given) if isinstance(given, Mapping) else given
        return ValueError(f"grid.{key} = {shown!r} is not allowed: {why}")

    if not isinstance(given, Mapping):
        values = list(given) if isinstance(given, (list, tuple, range)) else [given]
        if not values:
            raise refused("there must be a value")
    else:
        unknown = sorted(set(given) - {"from", "to", "step", "times"})
        if unknown or "from" not in given or "to" not in given or ("step" in given) == ("times" in given):
            raise refused("a range has from, to, and step or times")
        for name, value in given.items():
            if not _is_number(value):
                raise refused(f"{name} must be a number up to 10^308")
        # `step` or `times` may be missing.
        start, to, step, times = (cast(Any, given.get(name)) for name in ("from", "to", "step", "times"))
        if (step is not None and step <= 0) or (times is not None and (times <= 1 or start <= 0)):
            raise refused("step must be above 0, times above 1")
        if to < start:
            raise refused("there is no value: from is above to")
        # They are counted before they are made. One more than computed may be, or less: these are no whole numbers.
        count = (to - start) / step if step is not None else math.log(to / start) / math.log(times)
        if count >= MOST_VALUES:
            raise refused(f"about {count:,.0f} values; there may be {MOST_VALUES:,}")
        values = [start + i * step if step is not None else start * times**i for i in range(int(count) + 2)]
        values = [value for value in values if value <= to]
    for value in twice(values):
        raise refused(f"{value} is there twice")
    return values


@dataclass
class Grid:
    """Machines made of one: every combination of values of some keys, a list of them, or a random sample.

    Args:
        name: the machine: a preset, a file, a kind of hardware.
        grid: values by key; a range is `{"from": 16, "to": 1024, "times": 2}` or has a `step`.
        list: combinations, one by one.
        sample: so many combinations of the grid, chosen at random.
        sample_seed: the seed of that choice.
        where: conditions on keys, such as `"entries % ways == 0"`; what does not meet them is left out.
    """

    name: str
    grid: Mapping[str, Any] = field(default_factory=dict)
    list: Sequence[Mapping[str, Any]] = ()
    sample: Optional[int] = None
    sample_seed: int = 0
    where: Sequence[str] = ()

    def _faults(self) -> List[str]:
        """What is of the wrong kind."""
        faults = []
        for name, value, right, what in [
            ("name", self.name, isinstance(self.name, str) and bool(self.name), "a name"),
            ("grid", self.grid, isinstance(self.grid, Mapping), "a table of keys"),
            ("list", self.list, _is_list_of(self.list, Mapping), "a list of tables"),
            ("sample", self.sample, self.sample is None or is_whole(self.sample, 1), "a whole number of at least 1"),
            ("sample_seed", self.sample_seed, is_whole(self.sample_seed, 0), "a whole number"),
            ("where", self.where, _is_list_of(self.where, str), 'a list of conditions, such as ["entries > 16"]'),
        ]:
            if not right:
                faults.append(f"machine {self.name!r}: {name} = {value!r} is not allowed: {what} is")
        return faults

    def _choices(self) -> Tuple[Dict[str, List[Any]], List[Mapping[str, Any]]]:
        """Values by key, and the combinations that are listed.

        Raises:
            ExperimentError: with every fault.
        """
        values, faults = {}, self._faults()
        for key, given in self.grid.items() if not faults else ():
            try:
                values[key] = _values(key, given)
            except (ValueError, OverflowError) as error:
                faults.append(f"machine {self.name!r}: {error}")
        if faults:
            raise ExperimentError(faults)
        return values, list(self.list) or [{}]

    def count(self) -> int:
        """Combinations, before conditions; none is made.

        Raises:
            ExperimentError: with every fault.
        """
        values, rest = self._choices()
        total = math.prod([len(some) for some in values.values()] + [len(rest)])
        return total if self.sample is None else min(self.sample, total)

    def _combinations(self) -> Iterator[Dict[str, Any]]:
        values, rest = self._choices()
        if self.sample is None:
            for one in rest:
                for some in itertools.product(*values.values()):
                    yield {**dict(one), **dict(zip(values, some))}
            return
        # Numbers stand for combinations: a grid may be too large to write down.
        total = math.prod([len(some) for some in values.values()] + [len(rest)])
        dice = random.Random(self.sample_seed)
        order = dice.sample(range(total), total) if total <= 10_000 else _draws(dice, total, 1000 * self.sample)
        for number in order:
            one = {}
            for key, choices in values.items():
                number, index = divmod(number, len(choices))
                one[key] = choices[index]
            yield {**dict(rest[number]), **one}

    def machines(self, faults: List[str]) -> List[Machine]:
        """The machines; what is wrong goes into `faults`. What only the parts of a machine can judge is left to
        `built`."""
        found: Dict[str, Machine] = {}
        before = len(faults)
        try:
            self._choices()
        except ExperimentError as error:
            faults += error.faults
        try:
            base = machine_of(self.name) if isinstance(self.name, str) and self.name else None
        except (Error, OSError, ValueError) as error:
            faults.append(str(error))
        if len(faults) > before or base is None:
            return []
        for keys in self._combinations():
            if self.sample is not None and len(found) >= self.sample:
                break
            try:
                machine = base.with_(**keys)
                config = machine.config
                if not all(holds(condition, config) for condition in self.where):
                    continue
                if machine.name in found:
                    faults.append(f"machine {machine.name!r} is there twice")
                found[machine.name] = machine
            except (Error, OSError, ValueError) as error:
                faults.append(str(error))
            except (TypeError, ArithmeticError) as error:
                faults.append(f"machine {self.name!r}: {error}")
                if len(faults) > MOST_FAULTS * 10:
                    break
        if not found and len(faults) == before:
            faults.append(f"machine {self.name!r}: no combination meets {' and '.join(self.where) or 'the grid'}")
        return list(found.values())


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, kind) for one in value)


def built(machines: Iterable[Machine], sample: Optional[int], faults: List[str]) -> None:
    """Finds what only the parts of a machine can judge: entries in ways, memory in pages, what cannot be sampled."""
    for machine in machines:
        try:
            _core.build(machine._tuple(), 0, sample)
        except (Error, OSError) as error:
            faults.append(str(error))


def refuse(faults: List[str]) -> None:
    """Raises an `ExperimentError` if there are faults."""
    faults = list(dict.fromkeys(faults))
    more = len(faults) - MOST_FAULTS
    if faults:
        raise ExperimentError(faults[:MOST_FAULTS] + ([f"and {more} more"] if more > 0 else []))


def twice(values: Iterable[Any]) -> List[str]:
    """What is there more than once, as it is written."""
    return [text for text, count in Counter(map(repr, values)).items() if count > 1]


def _draws(dice: random.Random, total: int, most: int) -> Iterator[int]:
    """Different numbers below `total`, at most so many."""
    seen: Set[int] = set()
    while len(seen) < min(total, most):
        number = dice.randrange(total)
        if number not in seen:
            seen.add(number)
            yield number


def machine_of(name: str) -> Machine:
    """A preset, a file, or a kind of hardware."""
    presets = {preset.partition("/")[0] for preset in _core.presets()}
    if "/" in name or ".toml" in name or name in presets:
        return Machine(name)
    return Machine.of_kind(name)
