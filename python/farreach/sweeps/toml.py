"""TOML files, with the reader that Python has."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Union

from ..errors import ExperimentError
from ..machine import text_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["read"]


def read(file: Union[str, os.PathLike[str]]) -> Dict[str, Any]:
    """The tables of a file.

    Raises:
        ExperimentError: it is no TOML.
        OSError: it cannot be read.
    """
    try:
        return tomllib.loads(text_of(file))
    except (ValueError, RecursionError) as error:
        # Of the reader of TOML, of UTF-8, and of numbers: some have more digits than Python takes.
        raise ExperimentError([f"{os.fspath(file)}: {error}"]) from None
