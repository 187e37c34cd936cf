"""Pictures of a sweep."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import altair as alt
import pandas as pd

from .. import aggregate
from ..aggregate import Mean
from .base import axis, below, by_decades, key, layered, left_out, lines, plain, scale, side_by_side, sized, title
from .page import page

__all__ = ["SweepPlots"]

#: Lines of a picture in a report; more cannot be told apart.
_MOST_LINES = 16


class SweepPlots:
    """Pictures of a sweep.

    No picture adds points up. What it does not tell apart of programs, limits and seeds is one value, as for
    `Sweep.best`: by default the geometric mean relative to a machine `base`, which the axis names. Machines that differ
    in a key have marks of their own.

    Args:
        frame: `Sweep.frame`.
        name: what the sweep is called.
        failures: `Sweep.failures`.
    """

    def __init__(self, frame: Any, name: str = "", failures: Sequence[Mapping[str, Any]] = ()) -> None:
        self._table, self._name, self._failures = frame, name, failures

    def _frame(self, columns: Sequence[str], where: Optional[Mapping[str, Any]]) -> pd.DataFrame:
        frame = aggregate.chosen(self._table, where)
        for name in columns:
            aggregate.column_of(frame, name)
        return frame.copy()

    def lines(
        self,
        x: str,
        y: str = "misses",
        color: Optional[str] = None,
        facet: Optional[str] = None,
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> Union[alt.Chart, alt.ConcatChart]:
        """A value against a key: misses against the number of entries, say.

        Args:
            x: a column, such as `config.entries`. Machines without it are not in the picture, which says so.
            y: the value.
            color: a line for each value of this column; default: for each kind with its other keys that vary.
            facet: a picture for each value of this column, such as `program`.
            mean, base, where: as for `Sweep.best`.

        Raises:
            ValueError: several machines would be at one mark, machines have not the same programs, limits and seeds,
                or a mean does not exist.
        """
        frame = self._frame([name for name in (x, y, color, facet) if name], where)
        frame, subtitle = _having(frame, [x])
        if color is None:
            color = "design"
            frame[color] = aggregate.labels(frame, [x, facet or ""])
        marks = aggregate.combined(frame, y, [name for name in (x, color, facet) if name], mean, base, self._table)
        rows, numbers = marks.frame, pd.api.types.is_numeric_dtype(frame[x])
        ticks: Any = alt.Undefined
        if numbers:
            ticks = alt.Axis(values=sorted(float(value) for value in rows[x].unique()), labelOverlap="greedy")
        chart = (
            alt.Chart(rows)
            .mark_line(point=alt.OverlayMarkDef(size=45))
            .encode(
                x=alt.X(
                    f"{plain(x)}:{'Q' if numbers else 'O'}",
                    title=title(x),
                    axis=ticks,
                    scale=alt.Scale(type="log", base=2) if numbers and rows[x].min() > 0 else alt.Undefined,
                ),
                y=alt.Y(f"{plain(y)}:Q", title=lines(title(marks.title), 44), scale=scale(rows[y]), axis=axis(rows[y])),
                tooltip=[plain(name) for name in rows.columns],
                **key(list(dict.fromkeys(rows[color])), color, title=None if color == "design" else title(color)),
            )
        )
        head = alt.TitleParams(f"{title(y)} against {title(x)}", subtitle=subtitle)
        return _apart(chart, rows, facet, head) if facet else sized(chart, title=head)

    def pareto(
        self,
        x: str = "area_rbe",
        y: str = "misses",
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> alt.LayerChart:
        """Every machine, and the front of those that no other beats in both columns, by their names.

        Args:
            x, y, mean, base, where: as for `Sweep.pareto`.
        """
        how = Mean(mean, base, where)
        both, across, up = aggregate.both(self._table, x, y, how)
        front = aggregate.pareto(self._table, x, y, how)
        every = aggregate.chosen(self._table, where)["machine"].unique()
        without = [name for name in every if name not in set(both["machine"])]
        # Numbers stand beside the marks and names below: names would lie upon one another.
        front["number"] = [str(i + 1) for i in range(len(front))]
        front["front"] = [f"{number}  {name}" for number, name in zip(front["number"], front["machine"])]
        places: Dict[str, Any] = {
            "x": alt.X(f"{plain(x)}:Q", title=title(across), scale=scale(both[x]), axis=axis(both[x])),
            "y": alt.Y(f"{plain(y)}:Q", title=lines(title(up), 44), scale=scale(both[y]), axis=axis(both[y])),
            "tooltip": ["machine", plain(x), plain(y)],
        }
        points = alt.Chart(both).mark_point(opacity=0.5, color="#7f7f7f").encode(**places)
        chart = alt.Chart(front).encode(**places)
        steps = chart.mark_line(interpolate="step-after", color="#d55e00")
        on_it = chart.mark_point(filled=True, size=70, color="#d55e00", opacity=1).encode(
            # One colour for all: the legend lists the names.
            fill=alt.Fill(
                "front:N",
                sort=None,
                scale=alt.Scale(domain=list(front["front"]), range=["#d55e00"]),
                legend=below([*front["front"], "x" * 99], title="the front"),
            )
        )
        # By turns above and below: neighbours may lie close together.
        odd = chart.transform_filter("toNumber(datum.number) % 2 == 1")
        even = chart.transform_filter("toNumber(datum.number) % 2 == 0")
        names = odd.mark_text(align="left", baseline="bottom", dx=5, dy=-3, fontWeight="bold").encode(text="number:N")
        others = even.mark_text(align="right", baseline="top", dx=-5, dy=4, fontWeight="bold").encode(text="number:N")
        head = alt.TitleParams("Pareto front", subtitle=left_out(without, f"no {title(x)} is known"))
        return layered(points + steps + on_it + names + others, title=head)

    def memory(self, y: str = "misses") -> alt.Chart:
        """Resident memory against misses, a point for each row."""
        columns = ["program", "machine", "resident_bytes", y]
        frame = self._frame(columns, None)[columns]
        frame["MiB"] = frame["resident_bytes"].astype(float) / (1 << 20)
        chart = (
            alt.Chart(frame)
            .mark_point(size=50)
            .encode(
                x=alt.X(
                    "MiB:Q",
                    title="resident memory at the peak, MiB",
                    scale=scale(frame["MiB"]),
                    axis=axis(frame["MiB"]),
                ),
                y=alt.Y(f"{plain(y)}:Q", title=title(y), scale=scale(frame[y]), axis=axis(frame[y])),
                tooltip=["program", "machine", "MiB", plain(y)],
                **key(list(dict.fromkeys(frame["program"])), "program"),
            )
        )
        head = alt.TitleParams("Memory against misses", subtitle="a point for each row of the table")
        return sized(chart, title=head)

    def heatmap(
        self,
        x: str,
        y: str,
        value: str = "misses",
        facet: Optional[str] = None,
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> Union[alt.Chart, alt.ConcatChart]:
        """A value by two keys, such as `config.entries` and `config.factor`.

        Args:
            x, y: columns. Machines without them are not in the picture, which says so.
            value: the value.
            facet: a picture for each value of this column; default: for each kind with its other keys that vary.
            mean, base, where: as for `Sweep.best`.

        Raises:
            ValueError: as for `lines`.
        """
        frame = self._frame([name for name in (x, y, value, facet) if name], where)
        frame, subtitle = _having(frame, [x, y])
        if facet is None:
            facet = "design"
            frame[facet] = aggregate.labels(frame, [x, y])
        marks = aggregate.combined(frame, value, [x, y, facet], mean, base, self._table)
        rows = marks.frame
        legend = alt.Legend(
            orient="bottom", title=lines(title(marks.title), 60), titleLimit=0, gradientLength=240, format="~g"
        )
        chart = (
            alt.Chart(rows)
            .mark_rect()
            .encode(
                x=alt.X(f"{plain(x)}:O", title=title(x), axis=alt.Axis(labelAngle=0, labelOverlap="greedy")),
                y=alt.Y(f"{plain(y)}:O", title=title(y), sort="descending"),
                color=alt.Color(f"{plain(value)}:Q", scale=_coloured(rows[value]), legend=legend),
                tooltip=[plain(name) for name in rows.columns],
            )
        )
        head = alt.TitleParams(f"{title(value)} by {title(x)} and {title(y)}", subtitle=subtitle)
        if rows[facet].nunique() == 1:
            # One picture is no facet: its design stands in the title.
            head.subtitle = [str(rows[facet].iloc[0]), *(head.subtitle if isinstance(head.subtitle, list) else [])]
            return sized(chart, title=head)
        return _apart(chart, rows, facet, head)

    def _varied(self) -> List[str]:
        """Keys of machines that have several values, numbers first."""
        frame = self._table
        keys = [name for name in aggregate.varied(frame) if name != "config.kind" and frame[name].nunique() > 1]
        return sorted(keys, key=lambda name: not pd.api.types.is_numeric_dtype(frame[name]))

    def charts(self) -> Dict[str, Any]:
        """The pictures that this table has something for, by their titles. In place of one that cannot be drawn there
        is the reason, a text."""
        keys, frame = self._varied(), self._table
        found: Dict[str, Any] = {}
        if not len(frame):
            return found
        for name in keys[:4]:
            lines_of = len(set(aggregate.labels(frame, [name])))
            if lines_of > _MOST_LINES:
                found[f"Misses against {title(name)}"] = (
                    f"Not drawn: {lines_of} lines would be in one picture. Choose some of them: "
                    f"plot.lines({name!r}, where={{...}})"
                )
                continue
            found[f"Misses against {title(name)}"] = _drawn(partial(self.lines, name))
        if frame["area_rbe"].notna().any():
            found["Misses against area"] = _drawn(lambda mean: self.pareto(mean=mean))
        found["Memory against misses"] = self.memory()
        if len(keys) >= 2 and frame[keys[:2]].notna().all(axis=1).any():
            head = f"Misses by {title(keys[0])} and {title(keys[1])}"
            found[head] = _drawn(lambda mean: self.heatmap(keys[0], keys[1], mean=mean))
        return found

    def report(self) -> str:
        """A page complete in itself, with all pictures, failures and the table's best machines."""
        table, parts = self._table, []
        if len(table) and table["area_rbe"].notna().any():

            def front(mean: str) -> Tuple[Any, str]:
                how = Mean(mean)
                about = aggregate.of_machines(table, "misses", how).title
                return aggregate.pareto(table, "area_rbe", "misses", how), about

            best = _drawn(front)
            if isinstance(best, str):
                text = f"<p>{escape(best)}</p>"
            else:
                named = best[0].rename(columns={"area_rbe": "area in rbe", "misses": best[1]})
                text = f'<div class="wide">{named.to_html(index=False, float_format=_number, border=0)}</div>'
            parts.append(f"<h2>Machines that no other beats</h2>{text}")
        if self._failures:
            failed = pd.DataFrame(self._failures).to_html(index=False, border=0)
            parts.append(f'<h2>Failed</h2><div class="wide">{failed}</div>')
        about = f"{len(table):,} points"
        for name in ("program", "limit", "seed"):
            values = [f"{value:,}" if isinstance(value, int) else f"{value}" for value in table[name].dropna().unique()]
            if values and (name == "program" or len(values) > 1 or name == "limit"):
                more = f" and {len(values) - 6} more" if len(values) > 6 else ""
                about += f"; {name}{'s' * (len(values) > 1)} {', '.join(values[:6])}{more}"
        return page(f"Sweep {self._name}", about, self.charts(), "".join(parts))


def _number(value: float) -> str:
    """A number of a table: whole from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _coloured(values: Any) -> alt.Scale:
    """Colours for numbers, by decades as axes are."""
    words = {"type": "log"} if by_decades(values) else {"zero": False}
    return alt.Scale(scheme="viridis", **words)


def _apart(chart: alt.Chart, rows: pd.DataFrame, column: str, head: alt.TitleParams) -> alt.ConcatChart:
    """A picture for each value of a column."""
    charts = {}
    for name in dict.fromkeys(rows[column]):
        charts[str(name)] = chart.properties(data=rows[rows[column] == name])
    drawn = side_by_side(charts, 3)
    drawn.title = head
    return drawn


def _having(frame: pd.DataFrame, columns: Sequence[str]) -> Tuple[pd.DataFrame, Any]:
    """The rows that have values of these columns, and a subtitle that names the machines of the others."""
    there = frame[list(columns)].notna().all(axis=1)
    without = [name for name in frame["machine"].unique() if name not in set(frame[there]["machine"])]
    if not there.any():
        raise ValueError(f"no machine has {' and '.join(columns)}")
    why = f"without {' and '.join(title(name) for name in columns)}"
    return frame[there].copy(), left_out(without, f"they are {why}")


def _drawn(draw: Callable[..., Any]) -> Any:
    """With the geometric mean, where there is none with the arithmetic one; else why not."""
    try:
        return draw(mean="geometric")
    except ValueError:
        try:
            return draw(mean="arithmetic")
        except ValueError as error:
            return f"Not drawn: {error}"
