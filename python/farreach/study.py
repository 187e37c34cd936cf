"""What the commands do, as functions."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import subprocess
import sys
import time
from typing import IO, Any, Callable, List, NamedTuple, Optional, Sequence, Union

from . import _command, _core
from .errors import CommandError
from .machine import MachinesLike, listed
from .quantities import Command, Count, PathLike, Size, count_of, is_whole, place_of, seed_of, size_of, words_of
from .result import PageSizeResult, Result
from .trace import Trace, TraceLike, source_of, sources_of

__all__ = ["run", "record", "simulate", "pagesize"]

#: A file by its name, or what `subprocess.run` takes: a file, a descriptor, `subprocess.DEVNULL`; None: that of this
#: program.
Stream = Union[PathLike, IO[Any], int, None]
#: `True` for a line on standard error, or a function of instructions and references so far.
Progress = Union[bool, Callable[[int, int], Any]]


class _Settings(NamedTuple):
    """How to run, as the compiled half takes it."""

    limit: Optional[int]
    seed: int
    align: Union[int, str, None]
    threads: int
    plain: bool
    progress: Optional[Callable[[int, int], Any]]
    sample: Optional[int]
    start: Optional[str]
    skip: Optional[int]
    warmup: Optional[int]
    every: Optional[int]


class _Program(NamedTuple):
    """How a program runs, as the compiled half takes it."""

    command: List[str]
    tool_dir: Optional[str]
    directory: Optional[str] = None
    stdin: Optional[str] = None
    stdout: Optional[str] = None


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
    limit: Optional[Count],
    seed: int,
    align: Optional[Size],
    threads: int,
    plain: bool,
    progress: Progress,
    sample: Optional[int] = None,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
    warmup: Optional[Count] = None,
    every: Optional[Count] = None,
) -> _Settings:
    if not is_whole(threads, 0, 4096):
        raise ValueError(f"threads = {threads!r} is not allowed: a whole number from 0 to 4096 is")
    if not isinstance(plain, bool):
        raise ValueError(f"plain = {plain!r} is not allowed: True or False is")
    if sample is not None and not is_whole(sample, 2, 1000):
        raise ValueError(f"sample = {sample!r} is not allowed: a whole number from 2 to 1000 is")
    if not (callable(progress) or isinstance(progress, bool)):
        raise ValueError(f"progress = {progress!r} is not allowed: True, False or a function is")
    number, bytes_of = count_of("limit", limit), align if align == "linux" else size_of("align", align)
    pieces = (place_of(start), count_of("skip", skip), count_of("warmup", warmup), count_of("every", every))
    return _Settings(number, seed_of(seed), bytes_of, int(threads), plain, _shown(progress), sample, *pieces)


def run(
    command: Command,
    machines: Optional[MachinesLike] = None,
    *,
    limit: Optional[Count] = None,
    seed: int = 0,
    align: Optional[Size] = None,
    threads: int = 0,
    plain: bool = False,
    progress: Progress = False,
    sample: Optional[int] = None,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
    warmup: Optional[Count] = None,
    every: Optional[Count] = None,
    cwd: Optional[PathLike] = None,
    stdin: Optional[PathLike] = None,
    stdout: Optional[PathLike] = None,
) -> Result:
    """Runs a program under the recorder and compares machines on the fly; nothing is stored.

    Args:
        command: the program and its arguments.
        machines: one or several: names as `--machine` takes them, `Machine`s, subclasses of `Tlb`. Default: the five
            designs of the subblock paper.
        limit: stop after so many instructions, such as "300M".
        seed: seed of everything random.
        align: give every new mapping a start that is a multiple of this size, or `"linux"`: where Linux would put it.
        threads: threads to simulate on; 0: as many as there are processors, or one if a design is written in Python.
            The result is the same on any number.
        plain: without shortcuts: every design is asked at every lookup. Slow, same result.
        progress: True for a line on standard error, or a function of instructions and references so far.
        sample: simulate one in N windows of a million instructions, N from 2 on, and estimate what is counted of TLBs,
            with the standard error of misses. Faults and memory are exact.
        start: begin where the program executes this function or address for the first time, such as "main" or 0x401000;
            "mark": the pieces alone that it marks.
        skip: leave out this number of instructions from there on; their events take place, their references do not.
        warmup: simulate this number behind these, and do not count them; memory is that of all that is simulated.
        every: divide what is counted into phases of this length: `Result.phases`.
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
    words = words_of(command)
    if cwd is not None and not os.path.isdir(cwd):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", os.fspath(cwd))
    places = (os.fspath(path) if path is not None else None for path in (cwd, stdin, stdout))
    program = _Program(words, _command.tool_dir(), *places)
    settings = _settings(limit, seed, align, threads, plain, progress, sample, start, skip, warmup, every)
    report, status = _core.run(program, shlex.join(words), [m._tuple() for m in listed(machines)], settings)
    result = Result(report)
    result.status = status
    return result


def simulate(
    trace: Union[TraceLike, Sequence[Union[PathLike, Trace]]],
    machines: Optional[MachinesLike] = None,
    *,
    limit: Optional[Count] = None,
    seed: int = 0,
    align: Optional[Size] = None,
    threads: int = 0,
    plain: bool = False,
    progress: Progress = False,
    sample: Optional[int] = None,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
    warmup: Optional[Count] = None,
    every: Optional[Count] = None,
    interleave: Optional[Count] = None,
) -> Result:
    """Compares machines on a trace, a kernel, or references of your own.

    Args:
        trace: a path, `workload:NAME`, a `Trace`, or references: an array of addresses (loads of one byte), arrays by
            name (`address`, and `size`, `kind`, `pid` as arrays or one number), a structured array, an Arrow table or
            record batch, a frame, a `Batch`, or an iterable of these.
        machines: as for `run`; so are the other arguments.
        interleave: `trace` is a list of paths, kernels or `Trace`s, which run side by side on one machine, in time
            slices of this number of instructions.

    Raises:
        MachineError: a machine is refused.
        TraceError: the trace is damaged, or a reference is not possible.
        SimulationError: a machine cannot go on.
    """
    number = count_of("interleave", interleave)
    source, label = source_of(trace) if number is None else sources_of(trace, number)  # type: ignore[arg-type]
    settings = _settings(limit, seed, align, threads, plain, progress, sample, start, skip, warmup, every)
    return Result(_core.simulate(source, label, [m._tuple() for m in listed(machines)], settings))


def record(
    command: Command,
    output: PathLike,
    *,
    limit: Optional[Count] = None,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
    pages_only: bool = False,
    cwd: Optional[PathLike] = None,
    stdin: Stream = None,
    stdout: Stream = None,
) -> Trace:
    """Runs a program and stores its trace.

    Args:
        command: the program and its arguments.
        output: the trace file.
        limit: stop after so many instructions, such as "300M".
        start, skip: what is left out first, as for `run`.
        pages_only: a page trace, for machines that look at pages alone: smaller, and simulated faster.
        cwd: directory in which the program starts.
        stdin: file that is its standard input; or as for `subprocess.run`.
        stdout: file that its standard output goes to; or as for `subprocess.run`.

    A program that is recorded again may do other things: its addresses, its input and its timing differ. Its misses
    then differ too, by a few percent for many programs; `repeat` says by how much. Compare machines on one recording.

    Raises:
        CommandError: the program cannot be recorded. Its own exit status is no error.
    """
    recorded(command, output, limit, cwd, stdin, stdout, pages_only, start, skip)
    return Trace(output)


def recorded(
    command: Command,
    output: PathLike,
    limit: Optional[Count],
    cwd: Optional[PathLike],
    stdin: Stream,
    stdout: Stream,
    pages_only: bool = False,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
) -> int:
    """Stores the trace of a program and returns its exit status, as a shell would say it."""
    words = words_of(command)
    line = [_command.command(), "record", "--output", os.path.abspath(output)]
    numbers = (("--from", place_of(start)), ("--skip", count_of("skip", skip)), ("--limit", count_of("limit", limit)))
    for option, value in numbers:
        line += [option, str(value)] if value is not None else []
    if pages_only:
        line.append("--pages-only")
    with contextlib.ExitStack() as opened:
        streams = [
            opened.enter_context(open(stream, mode)) if isinstance(stream, (str, os.PathLike)) else stream
            for stream, mode in ((stdin, "rb"), (stdout, "wb"))
        ]
        done = _command.start(
            [*line, "--", *words],
            cwd=cwd,
            stdin=streams[0],
            stdout=streams[1],
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
    trace: Optional[TraceLike] = None,
    *,
    command: Optional[Command] = None,
    sizes: Optional[Sequence[Size]] = None,
    entries: int = 64,
    machines: MachinesLike = ("ps/two-size", "ps/itanium"),
    limit: Optional[Count] = None,
    seed: int = 0,
    threads: int = 0,
    progress: Progress = False,
    start: Union[str, int, None] = None,
    skip: Optional[Count] = None,
    warmup: Optional[Count] = None,
    every: Optional[Count] = None,
) -> PageSizeResult:
    """What other page sizes would have brought: misses against memory, from 4 KB to 2 MB, in one pass.

    Args:
        trace: as for `simulate`; or
        command: a program to run under the recorder.
        sizes: page sizes, ascending powers of two from "4K" to "2M"; default: all.
        entries: entries of each of the two TLBs.
        machines: machines to run beside; `()` for none.
        limit, seed, threads, progress, start, skip, warmup: as for `run`.
        every: divide what is counted into phases of this number of instructions: `PageSizeResult.phases`.
    """
    if (trace is None) == (command is None):
        raise ValueError("a trace or a command is needed, and only one of them")
    numbers = [size_of("sizes", size) or 0 for size in sizes or [4096 << i for i in range(10)]]
    beside = [m._tuple() for m in listed(machines, none=True)]
    settings = _settings(limit, seed, None, threads, False, progress, None, start, skip, warmup, every)
    if command is not None:
        words = words_of(command)
        program = _Program(words, _command.tool_dir())
        report, status = _core.pagesize_of_command(program, shlex.join(words), numbers, entries, beside, settings)
        result = PageSizeResult(report)
        result.status = status
        return result
    assert trace is not None, "one of them is given"
    source, label = source_of(trace)
    return PageSizeResult(_core.pagesize(source, label, numbers, entries, beside, settings))
