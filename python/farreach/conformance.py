"""Designs written in Python, held to their contract."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Type, Union

from . import _core
from .errors import MachineError
from .machine import Machine
from .tlb import Tlb

__all__ = ["check", "Checked"]

#: Streams of lookups and changes of mappings, and the length of each.
_STREAMS = 4
_STEPS = 2500


class Checked(NamedTuple):
    """What `check` tried without finding a fault."""

    #: The machines.
    machines: List[str]
    #: Lookups and changes of mappings that each went through.
    steps: int

    def __repr__(self) -> str:
        return f"<{', '.join(self.machines)}: no rule broken in {self.steps:,} lookups and changes each>"


def check(design: Union[Type[Tlb], Machine], *, times: int = 1, **keys: Any) -> Checked:
    """Holds a design to the contract of `Tlb`, in a second or two: random lookups, and everything that an operating
    system does to mappings in use.

    * What was invalidated, or belongs to an address space that has ended, is no hit.
    * What `access` answers `| FILTERABLE` is a hit that changes nothing when it is repeated, until `unfilter` reports
      the page; and a design that is not asked then gives the same answers as one that is.
    * What `probe` answers, if there is one, agrees with `access` and the page table.
    * Two of it, made alike, do alike.

    If the design has a key `entries`, it is tried with four, too, where more is replaced.

    Args:
        design: a subclass of `Tlb`, or a machine of one.
        times: how many times as long.
        keys: keys of the machine.

    Raises:
        ConformanceError: a rule is broken. It names the rule and the place.
        MachineError: a key is refused.

    >>> from farreach import HIT, MISS, Tlb
    >>> class Never(Tlb):
    ...     def access(self, asid, vpn, kind, pte):
    ...         return MISS
    ...     def invalidate(self, asid, start, stop):
    ...         pass
    >>> check(Never)
    <Never: no rule broken in 10,000 lookups and changes each>
    """
    if times < 1:
        raise ValueError(f"times = {times} is not allowed: times must be at least 1")
    machine = Machine(design, **keys)
    machines = [machine]
    if machine.config.get("entries", 4) != 4:
        try:
            smaller = machine.with_(entries=4)
            _core.check(smaller._tuple(), 0, 0)
            machines.append(smaller)
        except MachineError:
            pass  # its other keys do not go with so few
    for each in machines:
        _core.check(each._tuple(), _STREAMS * times, _STEPS)
    return Checked([each.name for each in machines], _STREAMS * times * _STEPS)
