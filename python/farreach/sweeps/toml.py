"""TOML files, with the reader that Python has."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Union

from ..errors import ExperimentError
from ..extras import need
from ..machine import text_of

__all__ = ["read"]


def read(file: Union[str, os.PathLike[str]]) -> Dict[str, Any]:
    """The tables of a file.

    Raises:
        ExperimentError: it is no TOML.
        MissingExtra: Python is older than 3.11, and tomli is not installed.
        OSError: it cannot be read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        need("a description in TOML", "tomli")
        import tomli as tomllib
    try:
        return tomllib.loads(text_of(file))
    except (ValueError, RecursionError) as error:
        # Of the reader of TOML, of UTF-8, and of numbers: some have more digits than Python takes.
        raise ExperimentError([f"{os.fspath(file)}: {error}"]) from None
