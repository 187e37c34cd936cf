"""What can go wrong. Every message is complete: it names the thing, the place and the value, and what is allowed."""

from __future__ import annotations

import re
from typing import Optional

__all__ = [
    "Error",
    "MachineError",
    "ConformanceError",
    "SimulationError",
    "TraceError",
    "WorkloadError",
    "ExperimentError",
    "CommandError",
    "MissingExtra",
]


class Error(Exception):
    """Base of all exceptions of this package, except those of the system (`OSError`)."""


class TraceError(Error):
    """A trace that cannot be read on, or references that are not possible."""

    def __init__(self, file: str, place: str, what: str) -> None:
        super().__init__(file, place, what)
        #: File name, or `arrays`.
        self.file = file
        #: Line, block, byte or number of the reference.
        self.place = place
        #: What is wrong and what is allowed.
        self.what = what

    def __str__(self) -> str:
        return f"{self.file}: {self.place}: {self.what}"


_REFUSAL = re.compile(r"(?:line \d+: )?(?P<key>\w+) = (?P<value>.*?) is not allowed(?P<rest>.*)", re.DOTALL)
_UNKNOWN = re.compile(r"(?:line \d+: )?unknown key '(?P<key>[^']*)'(?P<rest>.*)", re.DOTALL)


class MachineError(Error, ValueError):
    """A machine description that is not acceptable."""

    def __init__(self, machine: str, what: str) -> None:
        super().__init__(machine, what)
        #: The name of the machine.
        self.machine = machine
        #: What is wrong and what is allowed.
        self.what = what
        found = _REFUSAL.match(what) or _UNKNOWN.match(what)
        groups = found.groupdict() if found else {}
        #: The key, if one key is at fault.
        self.key: Optional[str] = groups.get("key")
        #: Its value, as text.
        self.value: Optional[str] = groups.get("value")
        #: What would be allowed, in words.
        self.allowed: Optional[str] = groups["rest"].lstrip(":; ") if found else None

    def __str__(self) -> str:
        return f"machine '{self.machine}': {self.what}"


class ConformanceError(Error, AssertionError):
    """A design that breaks its contract: what `check` found."""

    def __init__(self, machine: str, what: str) -> None:
        super().__init__(machine, what)
        #: The name of the machine.
        self.machine = machine
        #: The rule, the place in a stream of lookups and changes, and what happened there.
        self.what = what

    def __str__(self) -> str:
        return self.what


class SimulationError(Error):
    """A simulation that cannot go on: the memory of a machine is full, say."""

    def __init__(self, machine: str, what: str) -> None:
        super().__init__(machine, what)
        #: The name of the machine.
        self.machine = machine
        #: What happened.
        self.what = what

    def __str__(self) -> str:
        return f"machine '{self.machine}': {self.what}"


class WorkloadError(Error, ValueError):
    """A kernel that cannot run as asked."""

    def __init__(self, workload: str, what: str) -> None:
        super().__init__(workload, what)
        #: Its name in the catalogue.
        self.workload = workload
        #: What is wrong and what is allowed.
        self.what = what

    def __str__(self) -> str:
        return f"workload '{self.workload}': {self.what}"


class ExperimentError(Error, ValueError):
    """An experiment with faults: all of them, found before anything ran."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(faults)
        #: One line for each fault.
        self.faults = faults

    def __str__(self) -> str:
        return "\n".join(self.faults)


class CommandError(Error):
    """The farreach command failed."""

    def __init__(self, words: list[str], status: int, message: str) -> None:
        super().__init__(words, status, message)
        #: The command line.
        self.words = words
        #: Its exit status.
        self.status = status
        #: What it said.
        self.message = message

    def __str__(self) -> str:
        return self.message or f"{' '.join(self.words)} ended with status {self.status}"


class MissingExtra(Error, ImportError):
    """A library of a part of the package that is not installed. The message says how it is."""
