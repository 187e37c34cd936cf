"""TOML files, with the reader that Python has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Dict, Union

from ..errors import ExperimentError

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
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError([f"{os.fspath(file)}: {error}"]) from None
