"""Programs and processes as they are on this machine: by their traps, by the memory that they use, and what to change.

The command does it, in a process of its own: it takes signals, and ends with this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
from typing import IO, Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _command
from .errors import CommandError, MachineError
from .machine import Machine, MachineLike, MachinesLike, listed
from .quantities import Command, Count, PathLike, count_of, is_whole, seed_of, words_of
from .result import AdviceResult, ContiguityResult, Result, WatchResult

__all__ = ["advise", "contiguity", "trap", "watch"]

#: Seconds, or a text such as "500ms", "90s", "5m".
Time = Union[int, float, str]
#: What may be said of a sample: a power of two, or "auto".
Sample = Union[int, str]


_TIME = re.compile(r"\d+(\.\d+)?(ms|s|m|h)?")


def _time(name: str, value: Time) -> str:
    """A time as the command takes it."""
    text = value if isinstance(value, str) else f"{value!r}s"
    if isinstance(value, bool) or not _TIME.fullmatch(text) or float(text.rstrip("msh")) <= 0:
        raise ValueError(
            f"{name} = {value!r} is not allowed: seconds above 0 are, or a text such as 500ms, 90s, 5m, 2h"
        )
    return text


def _run(command: str, words: Sequence[str], program: Sequence[str], **how: Any) -> Tuple[str, int]:
    """The result of a command as JSON, and its exit status, which may be the program's.

    Raises:
        CommandError: there is no result.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "result.json")
        line = [_command.command(), command, "--json", "--output", output, *words]
        line += ["--", *program] if program else []
        environment = _command.user_environment()
        done = _command.start(line, stderr=subprocess.PIPE, errors="replace", env=environment, **how)
        if done.returncode == 130:
            raise KeyboardInterrupt
        if not os.path.exists(output):
            raise CommandError(line, done.returncode, done.stderr.strip())
        with open(output, encoding="utf-8") as file:
            return file.read(), done.returncode


@contextlib.contextmanager
def _named(machines: Sequence[Machine]) -> Iterator[List[str]]:
    """Machines as the command takes them: by name, or as files where they were described here."""
    with tempfile.TemporaryDirectory() as folder:
        words = []
        for i, machine in enumerate(machines):
            name, toml, _, design = machine._tuple()
            if design is not None:
                raise MachineError(name, "a design written in Python takes part in run and simulate only")
            if toml is not None:
                name = os.path.join(folder, f"{i}.toml")
                with open(name, "w", encoding="utf-8") as file:
                    file.write(machine.to_toml())
            words += ["--machine", name]
        yield words


def _called(text: str, machines: Sequence[Machine]) -> str:
    """A result whose machines are called as they were given."""
    values = json.loads(text)
    for machine, given in zip(values["machines"], machines):
        machine["name"] = given.name
    return json.dumps(values)


def trap(
    command: Command,
    machines: MachinesLike = "t94/set-associative:entries=1536,ways=12",
    *,
    length: Optional[Time] = None,
    after: Optional[Time] = None,
    sample: Optional[Sample] = None,
    slowdown: Optional[float] = None,
    kernel: bool = False,
    seed: int = 0,
    cwd: Optional[PathLike] = None,
    stdin: Optional[PathLike] = None,
    stdout: Optional[PathLike] = None,
) -> Result:
    """Runs a program with only those pages mapped that the machines hold, and counts their misses: at a few times its
    own speed. Lookups are not seen, nor hits.

    Args:
        command: the program and its arguments.
        machines: as for `run`, but no designs written in Python.
        length: observe for this long, from the end of `after` on, then kill the program: seconds, or "10m".
        after: let it run freely for this long first, while a server is filled, say.
        sample: simulate one set of N, a power of two, or "auto".
        slowdown: with `sample="auto"`: how many times its own time the program may take.
        kernel: count what the kernel refers to for the program, too.
        seed: seed of everything random.
        cwd, stdin, stdout: as for `run`.

    Returns:
        The result; its `status` is the program's exit status, as a shell says it. `result.workload.traps` says how it
        was trapped.

    Raises:
        MachineError: a machine is refused.
        CommandError: the program cannot be run so.
    """
    given = listed(machines)
    words = ["--seed", str(seed_of(seed))]
    for option, name, value in (("--for", "length", length), ("--after", "after", after)):
        words += [option, _time(name, value)] if value is not None else []
    words += ["--sample", str(sample)] if sample is not None else []
    words += ["--slowdown", repr(slowdown)] if slowdown is not None else []
    words += ["--kernel"] if kernel else []
    with contextlib.ExitStack() as opened:
        named = opened.enter_context(_named(given))
        streams: List[Optional[IO[bytes]]] = [
            opened.enter_context(open(path, mode)) if path is not None else None
            for path, mode in ((stdin, "rb"), (stdout, "wb"))
        ]
        how: Mapping[str, Any] = {"cwd": cwd, "stdin": streams[0], "stdout": streams[1]}
        text, status = _run("trap", [*named, *words], words_of(command), **how)
    result = Result.from_json(_called(text, given))
    result.status = status
    return result


def watch(pid: int, *, length: Time = 30, interval: Optional[Time] = None, method: Optional[str] = None) -> WatchResult:
    """Which of its memory a running process uses, and whether huge pages would suit it. It is neither stopped nor
    changed.

    Args:
        pid: the process.
        length: how long to watch: seconds, or "5m".
        interval: a page counts as used if it was used in it. Default: a second, or longer where that would cost much.
        method: how to watch, such as "damon". Default: the best that works here.

    Raises:
        CommandError: the process cannot be watched.
    """
    words = ["--pid", str(_pid(pid)), "--for", _time("length", length)]
    words += ["--interval", _time("interval", interval)] if interval is not None else []
    words += ["--method", method] if method is not None else []
    return WatchResult.from_json(_run("watch", words, [])[0])


def _pid(pid: int) -> int:
    if not is_whole(pid, 1, (1 << 31) - 1):
        raise ValueError(f"pid = {pid!r} is not allowed: the number of a process is")
    return int(pid)


def advise(
    command: Optional[Command] = None,
    *,
    trace: Optional[PathLike] = None,
    machine: MachineLike = "this",
    runs: Optional[int] = None,
    verify: Optional[int] = None,
    change: Union[str, Sequence[str]] = (),
    apply: bool = False,
    load: Optional[str] = None,
    port: Optional[int] = None,
    stdin: Optional[PathLike] = None,
    limit: Optional[Count] = None,
    cwd: Optional[PathLike] = None,
) -> AdviceResult:
    """What to change on this machine for a program: kinds of huge pages, with what each would save and cost.

    The program runs by itself for its time, then under the recorder for its references, with its output thrown away.
    Nothing on the machine is changed, but by `apply`.

    Args:
        command: the program and its arguments; or
        trace: a trace, or `workload:NAME`: costs are in cycles then.
        machine: the processor: the one at hand, or a preset such as "today/zen3".
        runs: runs of the program by itself; default: 3.
        verify: then run it so often each way, with the change and without, and compare with the prediction.
        change: with `verify`: try these rows; "all" is every row. Default: the recommended one.
        apply: with `verify`: settings of the kernel may be written for the runs that need them; they are restored.
        load: for a server: the command of its load, for a shell.
        port: the port on 127.0.0.1 where the server answers.
        stdin: file that is the standard input of the program in every run.
        limit: the number of instructions that are simulated.
        cwd: directory in which the program starts.

    Raises:
        MachineError: the machine is refused.
        CommandError: the program fails, or a row is refused.
    """
    if (trace is None) == (command is None):
        raise ValueError("a trace or a command is needed, and only one of them")
    words = ["--apply"] if apply else []
    for row in [change] if isinstance(change, str) else change:
        words += ["--change", row]
    number = count_of("limit", limit)
    for name, value in (
        ("--runs", runs),
        ("--verify", verify),
        ("--load", load),
        ("--port", port),
        ("--limit", number),
    ):
        words += [name, str(value)] if value is not None else []
    words += ["--stdin", os.path.abspath(stdin)] if stdin is not None else []
    # `this` is measured when it is used; all others are checked now.
    this = str(machine) if str(machine).partition(":")[0] == "this" else None
    with contextlib.ExitStack() as opened:
        named = ["--machine", this] if this else opened.enter_context(_named(listed(machine)))
        if len(named) != 2:
            raise ValueError(f"machine = {machine!r} is not allowed: advice is for one machine")
        of = [os.fspath(trace)] if trace is not None else []
        text, _ = _run("advise", [*named, *words, *of], words_of(command) if command is not None else [], cwd=cwd)
    return AdviceResult.from_json(text)


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
    words = [*options] + (["-p", str(_pid(pid))] if pid is not None else [])
    return ContiguityResult.from_json(_run("contiguity", words, words_of(command) if command is not None else [])[0])
