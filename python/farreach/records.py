"""Records: the JSON of results as objects with attributes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional

__all__ = ["Record", "Workload", "Counts", "Memory", "Cost", "MachineResult"]


#: Members that a short form shows.
_SHOWN = 6


def _short(value: Any) -> str:
    """A value in a short form."""
    if isinstance(value, dict):
        return "{...}"
    if isinstance(value, list):
        return f"[{len(value)}]"
    return f"{value:,}" if isinstance(value, int) else repr(value)


class Record:
    """A JSON object whose members are attributes. `to_dict()` is the object itself.

    >>> Record({"misses": 3, "walk": {"walks": 2}}).walk.walks
    2
    """

    __slots__ = ("_values",)
    _members: Mapping[str, type] = {}

    def __init__(self, values: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._values[name]
        except KeyError:
            there = ", ".join(self._values)
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {there}") from None
        of = type(self)._members.get(name, Record)
        if isinstance(value, dict):
            return of(value)
        if isinstance(value, list):
            return [of(item) if isinstance(item, dict) else item for item in value]
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a result cannot be changed")

    def __getitem__(self, name: str) -> Any:
        """The same as the attribute of this name."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Names of the members."""
        return iter(self._values)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._values]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # What there is without numbers that are 0, and no more than fits a line or two.
        shown = [f"{name}={_short(value)}" for name, value in self._values.items() if value not in (0, None, [], {})]
        more = len(self._values) - len(shown[:_SHOWN])
        return f"<{type(self).__name__} {', '.join(shown[:_SHOWN])}{f', and {more} more' if more else ''}>"

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON object."""
        return self._values  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return type(self), (self._values,)


class Workload(Record):
    """What ran."""

    __slots__ = ()
    if TYPE_CHECKING:
        source: str
        instructions: int
        references: Record
        lookups: Record
        touched_bytes: int
        processes: int
        threads: int
        stopped: Optional[str]
        seed: int
        huge_pages: Record
        allocator: Optional[str]
        traps: Record
        guest: Record


class Counts(Record):
    """Raw integers of hardware and operating system; names as in the book's page about results."""

    __slots__ = ()
    if TYPE_CHECKING:
        lookups: int
        misses: int
        fetch_misses: int
        data_misses: int
        load_misses: int
        store_misses: int
        tag_misses: int
        subblock_misses: int
        superpage_misses: int
        fills: int
        merges: int
        evictions: int
        preloaded: int
        invalidations: int
        page_faults: int
        protection_faults: int
        cow_copies: int
        promotions: int
        demotions: int


class Memory(Record):
    """Memory in bytes: at its peak, but for the last."""

    __slots__ = ()
    if TYPE_CHECKING:
        resident_bytes: int
        mapped_bytes: int
        reserved_bytes: int
        touched_bytes: int
        wasted_bytes: int
        virtual_bytes: int
        resident_at_end_bytes: int


class Cost(Record):
    """What it costs."""

    __slots__ = ()
    if TYPE_CHECKING:
        cycles: int
        os_cycles: int
        cycles_per_instruction: Optional[float]
        percent_of_time: Optional[float]
        total_cycles_per_instruction: Optional[float]
        area_rbe: Optional[float]
        energy_pj: Optional[float]
        energy: Record
        reach_bytes: int


class MachineResult(Record):
    """What one machine of a run found."""

    __slots__ = ()
    _members = {"counts": Counts, "memory": Memory, "cost": Cost}
    if TYPE_CHECKING:
        name: str
        config: Record
        counts: Counts
        memory: Memory
        cost: Cost
        ledger: List[Record]
        timeline: Record
        memory_over_time: Record
        regions: List[Record]
        guest: Record

    @property
    def misses_per_1000(self) -> float:
        """Misses per 1000 lookups; not a number where there were none, as in a run by traps."""
        return 1000 * self.counts.misses / self.counts.lookups if self.counts.lookups else math.nan
