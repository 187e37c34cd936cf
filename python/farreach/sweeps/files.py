"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Iterator

__all__ = ["remove_if_no_file", "whole", "write_whole"]


def remove_if_no_file(path: Path) -> None:
    """A pipe would be written into, and would wait for a reader."""
    if os.path.lexists(path) and not path.is_file() and not path.is_dir():
        path.unlink()


@contextlib.contextmanager
def whole(file: Path) -> Iterator[Path]:
    """A name to write to in place of that of a file, which then gets the file's. The mode is that of the umask."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(8)}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
    try:
        yield partial
        with open(partial, "rb") as written:
            os.fsync(written.fileno())
        os.replace(partial, file)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_whole(file: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    with whole(file) as partial:
        partial.write_text(text, encoding="utf-8")
