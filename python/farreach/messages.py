"""What farreach says while it works: by `logging`, under the name `farreach`, warnings as such and the rest as
information."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import Iterator

__all__ = ["log", "shown"]

log = logging.getLogger("farreach")


class _Lines(logging.Handler):
    """Lines on standard error, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        warning = "warning: " if record.levelno >= logging.WARNING else ""
        line = f"farreach: {warning}{record.getMessage()}"
        try:
            from tqdm import tqdm
        except ImportError:
            print(line, file=sys.stderr)
        else:
            tqdm.write(line, file=sys.stderr)


@contextlib.contextmanager
def shown(quiet: bool = False, always: bool = False) -> Iterator[None]:
    """Shows messages on standard error meanwhile. Where the program that uses the package has set up `logging`, it
    decides.

    Args:
        quiet: warnings only.
        always: this program is the command.
    """
    if not always and (log.hasHandlers() or log.level):
        yield
        return
    handler, before = _Lines(), log.level
    log.addHandler(handler)
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
