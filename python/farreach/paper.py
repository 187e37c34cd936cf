"""The papers' tables and figures, measured again."""

from __future__ import annotations

import json
import os
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Sequence, Union

from . import _command
from .extras import need
from .frames import frame
from .messages import shown
from .quantities import Count, PathLike, count_of, seed_of
from .records import Record

if TYPE_CHECKING:
    from .plots import PapersPlots

__all__ = ["papers", "atlas", "PapersResult", "PaperTable"]


#: What the JSON says of itself.
_SCHEMA = "farreach.papers/1"


class PaperTable(Record):
    """A table: `title`, `columns` (`name`, `origin`, `unit`) and `rows` (`name`, `cells`)."""

    __slots__ = ()

    def to_frame(self) -> Any:
        """A `pandas.DataFrame`; a column that is printed in the paper says so in its name."""
        need("a frame", "pandas")
        import pandas as pd

        names = [c.name + (" (printed)" if c.origin == "printed" else "") for c in self.columns]
        return pd.DataFrame([row.cells for row in self.rows], index=[row.name for row in self.rows], columns=names)


class Section(Record):
    """A table or figure: `title`, `tables`, `charts`, `verdicts`, `notes`."""

    __slots__ = ()
    _members = {"tables": PaperTable}


class PapersResult:
    """What `farreach papers --json` prints. `result["t94-table6"]` is one section; `"t94-table6" in result` asks for
    it, and a loop goes over all."""

    def __init__(self, values: Mapping[str, Any], page: Optional[str] = None) -> None:
        if values.get("schema") != _SCHEMA:
            raise ValueError(f"schema = {values.get('schema')!r} is not allowed: it must be {_SCHEMA!r}")
        self._values, self._page = values, page

    @property
    def sections(self) -> List[Section]:
        """One for each table or figure."""
        return [Section(section) for section in self._values["sections"]]

    def __getitem__(self, which: str) -> Section:
        for section in self.sections:
            if section.id == which:
                return section
        raise KeyError(f"no section {which!r}; there are {', '.join(section.id for section in self.sections)}")

    def __contains__(self, which: object) -> bool:
        return which in self.keys()

    def __iter__(self) -> Iterator[Section]:
        return iter(self.sections)

    def __len__(self) -> int:
        return len(self._values["sections"])

    def keys(self) -> List[str]:
        """The ids of the sections."""
        return [section["id"] for section in self._values["sections"]]

    @property
    def verdicts(self) -> List[Record]:
        """What was claimed and what was found: `id`, `claim`, `verdict`, `why`; each once."""
        found = {verdict.id: verdict for section in self.sections for verdict in section.verdicts}
        return list(found.values())

    @property
    def plot(self) -> PapersPlots:
        """Pictures (needs altair)."""
        need("a picture", "pandas", "altair", "vl_convert")
        from .plots import PapersPlots

        return PapersPlots(self.sections)

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each number of all tables: `section`, `table`, `row`, `column`, `unit`,
        `origin` (measured, printed or computed) and `value`."""
        rows = []
        for section in self.sections:
            for table in section.tables:
                for row in table.rows:
                    for column, value in zip(table.columns, row.cells):
                        if isinstance(value, (int, float)) and not isinstance(value, bool):
                            where = {"section": section.id, "table": table.title, "row": row.name}
                            what = {"column": column.name, "unit": column.unit, "origin": column.origin}
                            rows.append({**where, **what, "value": float(value)})
        return frame(rows)

    def to_html(self) -> str:
        """A page complete in itself, as `farreach papers --html` writes it.

        Raises:
            ValueError: this result was loaded from JSON, which has no page.
        """
        if self._page is None:
            raise ValueError("a result that was loaded has no page: `farreach papers --html FILE` writes one")
        return self._page

    def save(self, file: PathLike) -> None:
        """Writes the JSON to a file."""
        Path(file).write_text(json.dumps(self._values, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, file: PathLike) -> PapersResult:
        """From a file that `save` or `farreach papers --json` wrote."""
        return cls(json.loads(Path(file).read_text(encoding="utf-8")))

    def _repr_html_(self) -> str:
        parts = [f"<h4>{escape(s.title)}</h4>{t.to_frame().to_html()}" for s in self.sections for t in s.tables]
        return f'<div style="overflow-x:auto">{"".join(parts)}</div>'

    def __repr__(self) -> str:
        names = self.keys()
        more = f", and {len(names) - 5} more" if len(names) > 5 else ""
        return f"<PapersResult: {', '.join(names[:5])}{more}>"

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON as objects of Python."""
        return self._values


def papers(
    ids: Union[str, Sequence[str], None] = None,
    *,
    small: bool = True,
    workloads: Sequence[str] = (),
    limit: Optional[Count] = None,
    seed: int = 0,
    cache: Optional[PathLike] = None,
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
    if ids is not None and not ids:
        raise ValueError("ids = [] is not allowed: at least one table or figure is, or None for all")
    words: List[str] = ["papers", "--json", "--seed", str(seed_of(seed))]
    words += ["--all"] if ids is None else [ids] if isinstance(ids, str) else list(ids)
    words += ["--small"] if small and not workloads else []
    # As elsewhere in Python a kernel may be called `workload:NAME`.
    names = [name[9:] if name.startswith("workload:") else name for name in workloads]
    words += [word for name in names for word in ("--workload", name)]
    number = count_of("limit", limit)
    words += ["--limit", str(number)] if number else []
    words += ["--cache", os.fspath(cache)] if cache is not None else []
    with tempfile.TemporaryDirectory() as folder, shown():
        html = os.path.join(folder, "papers.html")
        values = json.loads(_command.run([*words, "--html", html], silent="report in "))
        return PapersResult(values, Path(html).read_text(encoding="utf-8"))


def atlas(file: PathLike) -> Any:
    """The atlas as a `pandas.DataFrame`: a row for each program, budget and design, with empty cells where nothing is
    known. `atlas(file).to_parquet("atlas.parquet")` stores it (needs pyarrow).

    Args:
        file: `atlas.csv`, as `farreach papers atlas -o FOLDER/` writes it.

    Raises:
        MissingExtra: pandas is not installed.
        OSError: the file cannot be read.
    """
    need("a frame", "pandas")
    import pandas as pd

    return pd.read_csv(file).convert_dtypes()
