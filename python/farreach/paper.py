"""The papers' tables and figures, measured again."""

from __future__ import annotations

import json
import os
from typing import Any, List, Mapping, Optional, Sequence, Union

from . import _command
from .result import Record
from .study import _count

__all__ = ["papers", "PapersResult", "PaperTable"]


class PaperTable(Record):
    """A table: `title`, `columns` (`name`, `origin`, `unit`) and `rows` (`name`, `cells`)."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """A `pandas.DataFrame`; a column that is printed in the paper says so in its name."""
        import pandas as pd

        names = [c.name + (" (printed)" if c.origin == "printed" else "") for c in self.columns]
        return pd.DataFrame([row.cells for row in self.rows], index=[row.name for row in self.rows], columns=names)


class Section(Record):
    """A table or figure: `title`, `tables`, `charts`, `verdicts`, `notes`."""

    __slots__ = ()
    _members = {"tables": PaperTable}


class PapersResult:
    """What `farreach papers --json` prints. `result["t94-table6"]` is one section."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    @property
    def sections(self) -> List[Section]:
        """One for each table or figure."""
        return [Section(section) for section in self._values["sections"]]

    def __getitem__(self, which: str) -> Section:
        for section in self.sections:
            if section.id == which:
                return section
        raise KeyError(f"no section {which!r}; there are {', '.join(section.id for section in self.sections)}")

    @property
    def plot(self) -> Any:
        """Pictures (needs altair)."""
        from .plots import PapersPlots

        return PapersPlots(self)

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON as objects of Python."""
        return self._values


def papers(
    ids: Union[str, Sequence[str], None] = None,
    *,
    small: bool = True,
    workloads: Sequence[str] = (),
    limit: Union[int, str, None] = None,
    seed: int = 0,
    cache: Union[str, "os.PathLike[str]", None] = None,
) -> PapersResult:
    """Measures tables and figures of the papers again.

    Args:
        ids: such as "t94-table6"; `farreach papers` lists them. None: all.
        small: small seeded kernels only.
        workloads: run these instead: kernels, programs of the catalogue, trace files.
        limit: stop each program after so many instructions.
        seed: seed of everything random.
        cache: where results are kept.

    Raises:
        CommandError: there is no such table, or a program cannot be run.
    """
    words: List[str] = ["papers", "--json", "--seed", str(seed)]
    words += ["--all"] if ids is None else [ids] if isinstance(ids, str) else list(ids)
    words += ["--small"] if small and not workloads else []
    words += [word for workload in workloads for word in ("--workload", workload)]
    number: Optional[int] = _count("limit", limit)
    words += ["--limit", str(number)] if number else []
    words += ["--cache", os.fspath(cache)] if cache is not None else []
    return PapersResult(json.loads(_command.run(words)))
