"""Libraries that only parts of the package need, and how they are installed."""

from __future__ import annotations

import importlib.util

from .errors import MissingExtra

__all__ = ["need"]

#: The part of the package that brings a library along.
_PARTS = {
    "pandas": "frames",
    "altair": "plots",
    "vl_convert": "plots",
    "pyarrow": "sweep",
    "distributed": "sweep",
    "cryptography": "sweep",
    "fsspec": "sweep",
    "simpleeval": "sweep",
    "tomli": "sweep",
    "tqdm": "sweep",
    "dask_jobqueue": "cluster",
    "optuna": "search",
}


def need(what: str, *names: str) -> None:
    """Refuses what cannot be done without these libraries, before any work is done.

    Args:
        what: what needs them: "a table".
        names: names of modules.

    Raises:
        MissingExtra: one of them is not installed.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        parts = ",".join(dict.fromkeys(_PARTS[name] for name in missing))
        how = f"pip install 'farreach[{parts}]'"
        raise MissingExtra(f"{what} needs {' and '.join(missing)}, not installed here: {how}", name=missing[0])
