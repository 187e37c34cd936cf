"""What the commands do, as functions."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

from . import _command, _core
from .errors import CommandError
from .machine import _listed
from .result import ContiguityResult, PageSizeResult, Result
from .trace import Trace, _source

__all__ = ["run", "record", "simulate", "pagesize", "contiguity"]

#: A path.
_Path = Union[str, "os.PathLike[str]"]
#: A command line: words, or one text that is taken apart as a shell would.
Command = Union[str, Sequence[_Path]]
#: `True` for a line on standard error, or a function of instructions and references so far.
Progress = Union[bool, Callable[[int, int], Any]]


class _Settings(NamedTuple):
    """How to run, as the compiled half takes it."""

    limit: Optional[int]
    seed: int
    align: Optional[int]
    threads: int
    plain: bool
    progress: Optional[Callable[[int, int], Any]]


class _Program(NamedTuple):
    """How a program runs, as the compiled half takes it."""

    command: List[str]
    tool_dir: Optional[str]
    directory: Optional[str] = None
    stdin: Optional[str] = None
    stdout: Optional[str] = None


_LETTERS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _count(name: str, value: Union[int, float, str, None]) -> Optional[int]:
    """A number of instructions, as people write it: 300M."""
    given = value
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not (isinstance(value, str) or hasattr(value, "__index__")):
        raise ValueError(f"{name} = {value!r} is not allowed: a whole number such as 300M or 1.5G is")
    if isinstance(value, str):
        letter = value[-1:].upper()
        digits, power = (value[:-1], _LETTERS[letter]) if letter in _LETTERS else (value, 1)
        try:
            number = float(digits) * power
        except ValueError:
            number = 0.5
        if not math.isfinite(number) or number != int(number):
            raise ValueError(f"{name} = {value!r} is not allowed: a whole number such as 300M or 1.5G is")
        value = int(number)
    if value < 1:
        raise ValueError(f"{name} = {value} is not allowed: {name} must be at least 1")
    if value >= 1 << 64:
        raise ValueError(f"{name} = {given!r} is not allowed: {name} must be below 2^64")
    return int(value)


def _bytes(name: str, value: Union[int, str, None]) -> Optional[int]:
    """A size, as people write it: 64K."""
    if value is None:
        return value
    power = {"K": 10, "M": 20, "G": 30, "T": 40}.get(value[-1:].upper(), 0) if isinstance(value, str) else 0
    digits = str(value)[:-1] if power else str(value)
    if isinstance(value, bool) or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{name} = {value!r} is not allowed: a size such as 64K is")
    if len(digits) > 20 or int(digits) << power >= 1 << 64:
        raise ValueError(f"{name} = {value!r} is not allowed: a size below 2^64 is")
    return int(digits) << power


def _words(command: Command) -> List[str]:
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    if not words:
        raise ValueError("the command is empty")
    return words


def _shown(progress: Progress) -> Optional[Callable[[int, int], Any]]:
    """A function that shows how far a run is."""
    if callable(progress):
        return progress
    if not progress:
        return None
    began = time.monotonic()

    def show(instructions: int, references: int) -> None:
        rate = references / max(time.monotonic() - began, 1e-9)
        sys.stderr.write(f"\r{instructions:,} instructions, {references:,} references, {rate / 1e6:,.0f} M a second ")
        sys.stderr.flush()

    return show


def _settings(
    limit: Union[int, str, None],
    seed: int,
    align: Union[int, str, None],
    threads: int,
    plain: bool,
    progress: Progress,
) -> _Settings:
    return _Settings(_count("limit", limit), seed, _bytes("align", align), threads, plain, _shown(progress))


def run(
    command: Command,
    machines: Any = None,
    *,
    limit: Union[int, str, None] = None,
    seed: int = 0,
    align: Union[int, str, None] = None,
    threads: int = 0,
    plain: bool = False,
    progress: Progress = False,
    cwd: Optional[_Path] = None,
    stdin: Optional[_Path] = None,
    stdout: Optional[_Path] = None,
) -> Result:
    """Runs a program under the recorder and compares machines on the fly; nothing is stored.

    Args:
        command: the program and its arguments.
        machines: one or several: names as `--machine` takes them, `Machine`s, subclasses of `Tlb`. Default: the five
            designs of the subblock paper.
        limit: stop after so many instructions, such as "300M".
        seed: seed of everything random.
        align: give every new mapping a start that is a multiple of this size.
        threads: threads to simulate on; 0: as many as there are processors, or one if a design is written in Python.
            The result is the same on any number.
        plain: without shortcuts: every design is asked at every lookup. Slow, same result.
        progress: True for a line on standard error, or a function of instructions and references so far.
        cwd: directory in which the program starts.
        stdin: file that is its standard input.
        stdout: file that its standard output goes to.

    Returns:
        The result; its `status` is the program's exit status.

    Raises:
        MachineError: a machine is refused.
        TraceError: the program cannot be recorded.
        KeyboardInterrupt: Ctrl-C; the program is asked to end, and killed half a second later.
    """
    words = _words(command)
    places = (os.fspath(path) if path is not None else None for path in (cwd, stdin, stdout))
    program = _Program(words, _command.tool_dir(), *places)
    settings = _settings(limit, seed, align, threads, plain, progress)
    report, status = _core.run(program, shlex.join(words), [m._tuple() for m in _listed(machines)], settings)
    result = Result(report)
    result.status = status
    return result


def simulate(
    trace: Any,
    machines: Any = None,
    *,
    limit: Union[int, str, None] = None,
    seed: int = 0,
    align: Union[int, str, None] = None,
    threads: int = 0,
    plain: bool = False,
    progress: Progress = False,
) -> Result:
    """Compares machines on a trace, a kernel, or references of your own.

    Args:
        trace: a path, `workload:NAME`, a `Trace`, or references: an array of addresses (loads of one byte), arrays by
            name (`address`, and `size`, `kind`, `pid` as arrays or one number), a structured array, an Arrow table or
            record batch, a frame, a `Batch`, or an iterable of these.
        machines: as for `run`; so are the other arguments.

    Raises:
        MachineError: a machine is refused.
        TraceError: the trace is damaged, or a reference is not possible.
        SimulationError: a machine cannot go on.
    """
    source, label = _source(trace)
    settings = _settings(limit, seed, align, threads, plain, progress)
    return Result(_core.simulate(source, label, [m._tuple() for m in _listed(machines)], settings))


def record(
    command: Command,
    output: _Path,
    *,
    limit: Union[int, str, None] = None,
    cwd: Optional[_Path] = None,
    stdin: Any = None,
    stdout: Any = None,
) -> Trace:
    """Runs a program and stores its trace.

    Args:
        command: the program and its arguments.
        output: the trace file.
        limit: stop after so many instructions, such as "300M".
        cwd: directory in which the program starts.
        stdin, stdout: as for `subprocess.run`.

    Raises:
        CommandError: the program cannot be recorded. Its own exit status is no error.
    """
    _recorded(command, output, limit, cwd, stdin, stdout)
    return Trace(output)


def _recorded(
    command: Command, output: _Path, limit: Union[int, str, None], cwd: Optional[_Path], stdin: Any, stdout: Any
) -> int:
    """Stores the trace of a program and returns its exit status, as a shell would say it."""
    words = _words(command)
    line = [_command.command(), "record", "--output", os.path.abspath(output)]
    if (number := _count("limit", limit)) is not None:
        line += ["--limit", str(number)]
    done = _command.start(
        [*line, "--", *words],
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        errors="replace",
        env=_command.user_environment(),
    )
    if done.returncode == 130:
        raise KeyboardInterrupt
    # The program's own exit status may be anything: the trace says whether it was recorded.
    if done.returncode in (125, 126, 127) and not os.path.exists(output):
        raise CommandError(line, done.returncode, done.stderr.strip())
    return done.returncode


def pagesize(
    trace: Any = None,
    *,
    command: Optional[Command] = None,
    sizes: Optional[Sequence[Union[int, str]]] = None,
    entries: int = 64,
    machines: Any = ("ps/two-size", "ps/itanium"),
    limit: Union[int, str, None] = None,
    seed: int = 0,
    threads: int = 0,
    progress: Progress = False,
) -> PageSizeResult:
    """What other page sizes would have brought: misses against memory, from 4 KB to 2 MB, in one pass.

    Args:
        trace: as for `simulate`; or
        command: a program to run under the recorder.
        sizes: page sizes, ascending powers of two from "4K" to "2M"; default: all.
        entries: entries of each of the two TLBs.
        machines: machines to run beside; `()` for none.
        limit, seed, threads, progress: as for `run`.
    """
    if (trace is None) == (command is None):
        raise ValueError("a trace or a command is needed, and only one of them")
    numbers = [_bytes("sizes", size) or 0 for size in sizes or [4096 << i for i in range(10)]]
    listed = [m._tuple() for m in (_listed(machines) if len(machines) else [])]
    settings = _settings(limit, seed, None, threads, False, progress)
    if command is not None:
        words = _words(command)
        program = _Program(words, _command.tool_dir())
        report, status = _core.pagesize_of_command(program, shlex.join(words), numbers, entries, listed, settings)
        result = PageSizeResult(report)
        result.status = status
        return result
    source, label = _source(trace)
    return PageSizeResult(_core.pagesize(source, label, numbers, entries, listed, settings))


def contiguity(
    command: Optional[Command] = None, *, pid: Optional[int] = None, options: Sequence[str] = ()
) -> ContiguityResult:
    """Ranges and contiguity of a living process.

    Args:
        command: a program to run and to look at; or
        pid: a process to look at.
        options: further options of `farreach contiguity`.

    Raises:
        CommandError: the process cannot be looked at.
    """
    if (command is None) == (pid is None):
        raise ValueError("a command or a pid is needed, and only one of them")
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "result.json")
        words = ["contiguity", "--json", "--output", output, *options]
        words += ["-p", str(pid)] if pid is not None else ["--", *_words(command or [])]
        line = [_command.command(), *words]
        done = _command.start(line, stderr=subprocess.PIPE)
        if done.returncode == 130:
            raise KeyboardInterrupt
        if not os.path.exists(output):
            raise CommandError(line, done.returncode, done.stderr.strip())
        return ContiguityResult.load(output)  # type: ignore[no-any-return]
