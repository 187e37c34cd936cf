"""Where the command and the recorder are, and how the command is run."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _core
from .errors import CommandError
from .messages import log

_TOOL = "farreach-amd64-linux"
_VARIABLE = "FARREACH_VALGRIND_DIR"
#: The command that handed over to Python.
_COMMAND_VARIABLE = "FARREACH_COMMAND"
#: With whom the command ends.
_PARENT_VARIABLE = "FARREACH_PARENT"
#: What it started Python with only in part, because nothing is found in the working directory, and where the whole is.
_KEPT = {"PATH": "FARREACH_USER_PATH", "PYTHONPATH": "FARREACH_USER_PYTHONPATH"}


@functools.lru_cache(maxsize=None)
def _installed(name: str) -> Optional[Path]:
    """A file of the installed package, wherever the installer put it."""
    try:
        files = metadata.files("farreach") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name and not str(file).startswith("farreach/"):
            path = Path(str(file.locate()))
            if path.is_file():
                return path.resolve()
    return None


def command() -> str:
    """Path of the farreach command: the one that handed over, that of this package, else the first on the path."""
    if given := os.environ.get(_COMMAND_VARIABLE):
        return os.path.abspath(given)
    own = _installed("farreach") or Path(sysconfig.get_path("scripts")) / "farreach"
    if own.is_file():
        return str(own)
    try:
        return str(_core.find_tool("farreach"))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"the farreach command is not installed; pip install ./python in a clone does it ({error})"
        ) from None


def user_environment() -> Dict[str, str]:
    """The environment of programs that the user names: as the shell has it."""
    environment = dict(os.environ)
    for name, kept in _KEPT.items():
        if kept in environment:
            environment[name] = environment.pop(kept)
    return environment


def forget_user_environment() -> None:
    """For processes that run no program of the user's."""
    for kept in _KEPT.values():
        os.environ.pop(kept, None)


def tool_dir() -> Optional[str]:
    """Folder of the recorder; `None` leaves it to the library."""
    if os.environ.get(_VARIABLE):
        return None
    tool = _installed(_TOOL)
    return str(tool.parent) if tool else None


def start(line: Sequence[str], **how: Any) -> "subprocess.CompletedProcess[str]":
    """Runs the command and waits; it ends with this process, also where that is killed.

    Args:
        line: its path and words.
        how: arguments of `subprocess.run`.
    """
    environment = how.pop("env", None) or dict(os.environ)
    return subprocess.run(line, text=True, env={**environment, _PARENT_VARIABLE: str(os.getpid())}, **how)


def run(words: Sequence[Union[str, os.PathLike[str]]], statuses: Sequence[int] = (0,), silent: str = "") -> str:
    """Runs the command and returns what it prints. `silent`: lines that begin so are not handed on.

    Raises:
        CommandError: it ended with another status; the message is what it said.
        KeyboardInterrupt: it was interrupted.
    """
    line: List[str] = [command(), *(os.fspath(word) for word in words)]
    done = start(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode not in statuses:
        raise CommandError(line, done.returncode, done.stderr.strip())
    for said in done.stderr.splitlines():
        text = said[len("farreach: ") :] if said.startswith("farreach: ") else said
        if silent and text.startswith(silent):
            continue
        warning = text.startswith("warning: ")
        log.log(logging.WARNING if warning else logging.INFO, "%s", text[len("warning: ") :] if warning else text)
    return str(done.stdout)
