"""Pictures of the papers' tables and figures."""

from __future__ import annotations

from typing import Any, List, Sequence, Union

import altair as alt
import pandas as pd

from ..records import Record
from .base import COLOURS, axis, below, key, layered, lines, scale, side_by_side, sized

__all__ = ["PapersPlots"]

#: Shape and colour of a value, by where it comes from.
_LOOKS = {"measured": ("circle", COLOURS[0]), "computed": ("square", COLOURS[0]), "printed": ("diamond", COLOURS[4])}


class PapersPlots:
    """Pictures of the papers' tables and figures: measured values, and the printed ones beside them.

    Args:
        sections: `PapersResult.sections`.
    """

    def __init__(self, sections: Sequence[Record]) -> None:
        self._sections = {section.id: section for section in sections}

    def _section(self, which: str) -> Record:
        if which not in self._sections:
            raise KeyError(f"no section {which!r}; there are {', '.join(self._sections)}")
        return self._sections[which]

    def compare(self, section: str, table: int = 0) -> alt.VConcatChart:
        """A table whose columns are printed and measured: circles are measured here, diamonds are printed. Columns of
        one unit have one scale.

        Raises:
            KeyError: there is no such section.
            ValueError: the section has no such table, or the table no numbers.
        """
        tables = self._section(section).tables
        if not 0 <= table < len(tables):
            raise ValueError(f"section {section!r} has {len(tables)} tables, so table = {table} is not one")
        given = tables[table]
        rows = []
        for row in given.rows:
            for column, cell in zip(given.columns, row.cells):
                value = cell.get("printed", cell.get("value")) if hasattr(cell, "get") else cell
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    what = f"{column.name} ({column.unit})" if column.unit else column.name
                    rows.append((row.name, what, float(value), column.origin, column.unit or ""))
        frame = pd.DataFrame(rows, columns=["row", "column", "value", "origin", "unit"])
        if not len(frame):
            raise ValueError(f"table {table} of section {section!r} has no numbers")
        order = [row.name for row in given.rows]
        known = [origin for origin in _LOOKS if origin in set(frame["origin"])]
        units = [self._of_unit(some, str(unit), order, known) for unit, some in frame.groupby("unit", sort=False)]
        drawn: alt.VConcatChart = alt.vconcat(*units, title=alt.TitleParams(lines(given.title), anchor="start"))
        return drawn

    @staticmethod
    def _of_unit(frame: pd.DataFrame, unit: str, order: List[str], known: List[str]) -> alt.ConcatChart:
        """The columns of one unit, side by side; rows without a value are not there."""
        there = [name for name in order if name in set(frame["row"])]
        shapes = alt.Scale(domain=known, range=[_LOOKS[origin][0] for origin in known])
        colours = alt.Scale(domain=known, range=[_LOOKS[origin][1] for origin in known])
        values = frame["value"]
        across = scale(values)
        if "type" not in across.to_dict():
            across = alt.Scale(zero=True)
        legend = below(known, title=None)
        chart = (
            alt.Chart(frame)
            .mark_point(filled=True, size=70, opacity=0.9)
            .encode(
                x=alt.X("value:Q", title=unit or None, scale=across, axis=axis(values)),
                y=alt.Y("row:N", sort=there, title=None, axis=alt.Axis(labelLimit=240, grid=True)),
                shape=alt.Shape("origin:N", scale=shapes, legend=legend),
                color=alt.Color("origin:N", scale=colours, legend=legend),
                tooltip=["row", "column", "value", "origin"],
            )
        )
        columns = list(dict.fromkeys(frame["column"]))
        charts = {column: chart.properties(data=frame[frame["column"] == column]) for column in columns}
        return side_by_side(charts, 2 if max(map(len, there)) > 16 else 3, height=alt.Step(18))

    def figure(self, section: str, chart: int = 0) -> Union[alt.Chart, alt.LayerChart]:
        """A figure: a line for each of its series, or bars where the paper has bars.

        Raises:
            KeyError: there is no such section.
            ValueError: the section has no such figure.
        """
        given = self._section(section)
        figures = [*given.charts, *given.bars]
        if not 0 <= chart < len(figures):
            there = [name for name, one in self._sections.items() if one.charts or one.bars]
            raise ValueError(
                f"section {section!r} has {len(figures)} figures, so chart = {chart} is not one; sections with "
                f"figures: {', '.join(there) or 'none'}. Its tables are drawn by compare({section!r})"
            )
        return self._bars(figures[chart]) if chart >= len(given.charts) else self._lines(figures[chart])

    @staticmethod
    def _rows(given: Record) -> pd.DataFrame:
        """Values of a figure that there are, by place and series."""
        rows = [
            {"x": place, "series": series.name, "value": float(value)}
            for series in given.series
            for place, value in zip(given.places, series.values)
            if value is not None
        ]
        if not rows:
            raise ValueError(f"figure {given.title!r} has no values: none of its programs was run")
        return pd.DataFrame(rows)

    def _lines(self, given: Record) -> alt.Chart:
        frame = self._rows(given)
        chart = (
            alt.Chart(frame)
            .mark_line(point=alt.OverlayMarkDef(size=45))
            .encode(
                x=alt.X("x:O", sort=list(given.places), title=given.x, axis=alt.Axis(labelAngle=0)),
                y=alt.Y("value:Q", title=lines(given.y, 44), scale=scale(frame["value"]), axis=axis(frame["value"])),
                tooltip=["series", "x", "value"],
                **key([series.name for series in given.series], "series"),
            )
        )
        return sized(chart, title=lines(given.title))

    def _bars(self, given: Record) -> alt.LayerChart:
        """Groups of bars; longer ones than the paper's axis end there and carry their value."""
        frame, inner = self._rows(given.chart), given.chart
        clip = given.clip
        frame["drawn"] = frame["value"].clip(upper=clip) if clip is not None else frame["value"]
        names = [series.name for series in inner.series]
        places: Any = {
            "y": alt.Y("x:N", sort=list(inner.places), title=None, axis=alt.Axis(labelLimit=240)),
            "yOffset": alt.YOffset("series:N", sort=names),
            "x": alt.X("drawn:Q", title=inner.y),
        }
        base = alt.Chart(frame).encode(tooltip=["x", "series", "value"], **places)
        layers: List[Any] = [base.mark_bar().encode(color=key(names, "series")["color"])]
        if clip is not None and (frame["value"] > clip).any():
            over = frame[frame["value"] > clip]
            text = alt.Text("value:Q", format=",.0f")
            layers.append(alt.Chart(over).mark_text(align="left", dx=3, fontSize=8).encode(text=text, **places))
        return layered(alt.layer(*layers), title=lines(inner.title), height=alt.Step(9))
