"""TLB designs written in Python."""

from __future__ import annotations

import inspect
from typing import Any, Tuple, Type

from . import _core
from ._core import Pte

__all__ = ["Tlb", "Pte", "HIT", "MISS", "SUBBLOCK_MISS", "FILTERABLE", "FETCH", "LOAD", "STORE"]

#: The kind of a reference: an instruction fetch.
FETCH = 0
#: The kind of a reference: a data read.
LOAD = 1
#: The kind of a reference: a data write.
STORE = 2

#: Answer of `Tlb.access`: no entry had the tag; the design has filled itself.
MISS = 0
#: Answer of `Tlb.access`: an entry translated the page.
HIT = 1
#: Answer of `Tlb.access`: an entry had the tag, but not the subblock.
SUBBLOCK_MISS = 2
#: Beside an answer (`HIT | FILTERABLE`): the same lookup, repeated now, would be a hit that changes nothing.
FILTERABLE = 4


class Tlb(_core.Tlb):
    """Base class of TLB designs.

    A subclass says what a lookup does and what it forgets. It runs beside the built-in designs:
    `farreach.simulate(trace, machines=["t94/single", MyTlb])`, or `Machine(MyTlb, entries=32)`. The parameters of its
    `__init__`, all with defaults, are its keys; those of the operating system and of prices come on top.

    Lookups come in pages of the machine's base page (`page_size`). Page numbers, address spaces and frames are whole
    numbers.

    **The filter.** Most lookups repeat the one before. If `access` answers `HIT | FILTERABLE`, the laboratory counts
    the same lookups from then on without asking (for a store: loads too). In return the design reports a page by
    `unfilter` as soon as its next lookup would change something: its entry goes, its used bit is cleared, it is no
    longer the most recent. Reporting too much costs time; too little gives wrong counts: a sample of these lookups is
    asked all the same, which may end the run with SimulationError, and `farreach.check` finds nearly all such faults in
    a second. A design that never says FILTERABLE is right and slow. `simulate(..., plain=True)` asks at every lookup:
    both must give the same counts.

    Misses are counted by what `access` answers. `fills`, `evictions`, `invalidations`, `merges`, `preloaded`,
    `extra_pte_reads` and `covered_drops` are for the design to count: `self.fills += 1`.

    >>> class OnePage(Tlb):
    ...     '''Remembers the last page.'''
    ...     last = None
    ...     def access(self, asid, vpn, kind, pte):
    ...         hit = self.last == (asid, vpn)
    ...         if not hit and self.last:
    ...             self.unfilter(*self.last)
    ...         self.last = asid, vpn
    ...         return (HIT if hit else MISS) | FILTERABLE
    ...     def invalidate(self, asid, start, stop):
    ...         if self.last and self.last[0] == asid and start <= self.last[1] < stop:
    ...             self.unfilter(*self.last)
    ...             self.last = None

    Optional methods: `demote(asid, start, stop)`, a superpage was split; `switch(asid)`, another address space runs
    now; `thread(asid, thread)`, another thread runs now; `probe(asid, vpn, kind)`, the frame and attributes that it
    would answer, or None.
    """

    def access(self, asid: int, vpn: int, kind: int, pte: Pte) -> int:
        """One lookup.

        Args:
            asid: address space.
            vpn: page.
            kind: FETCH, LOAD or STORE.
            pte: the page table entry: `pfn`, `attr` (1 read, 2 write, 4 execute) and `order` (log2 of the base pages
                in the mapping). Faults have been served.

        Returns:
            HIT, MISS or SUBBLOCK_MISS, with `| FILTERABLE` or without. After a miss the translation is in the design.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method access, which every design needs")

    def invalidate(self, asid: int, start: int, stop: int) -> None:
        """The mappings of the pages from `start` to before `stop` changed or went away: their entries are dropped."""
        raise NotImplementedError(f"{type(self).__name__} has no method invalidate, which every design needs")

    def unfilter(self, asid: int, vpn: int, pages: int = 1) -> None:
        """Reports pages that are no longer filterable."""
        super().unfilter(asid, vpn, pages)

    def unfilter_all(self) -> None:
        """Reports all pages."""
        super().unfilter_all()


# In the loop a call less matters.
Tlb.unfilter = _core.Tlb.unfilter  # type: ignore[method-assign]
Tlb.unfilter_all = _core.Tlb.unfilter_all  # type: ignore[method-assign]


def _parameters(design: Type[Tlb]) -> list[Tuple[str, Any]]:
    """Keys of a design with their defaults."""
    for method in ("access", "invalidate"):
        if getattr(design, method) is getattr(Tlb, method):
            raise TypeError(f"{design.__name__} has no method {method}, which every design needs")
    if design.__init__ is object.__init__ or design.__init__ is Tlb.__init__:
        return []
    found = []
    for name, parameter in list(inspect.signature(design.__init__).parameters.items())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise TypeError(
                f"{design.__name__}.__init__: {name} has no default; the parameters of a design are its keys"
            )
        found.append((name, parameter.default))
    return found
