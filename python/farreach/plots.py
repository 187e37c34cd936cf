"""Pictures, made with Altair: interactive in a notebook and as HTML, and SVG, PNG and PDF without a network.

Every method returns an `altair` chart: `chart.save("picture.svg")` (or `.png`, `.pdf`, `.html`) writes it.
"""

from __future__ import annotations

import json
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import altair as alt
import pandas as pd

from .sweeps import aggregate

if TYPE_CHECKING:
    from .paper import PapersResult
    from .result import PageSizeResult, Result
    from .sweeps import Sweep

__all__ = ["ResultPlots", "PageSizePlots", "SweepPlots", "PapersPlots", "page"]

_AREA = "area in register-bit equivalents"


def _plain(name: str) -> str:
    """A column as Vega-Lite takes it: a dot is a part of the name there, too."""
    return name.replace(".", "\\.")


def _title(name: str) -> str:
    """A column as people read it."""
    return name.replace("config.", "").replace("_", " ").replace(".", " ")


class ResultPlots:
    """Pictures of a run."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @property
    def _traps(self) -> Any:
        """How it was trapped; `None` where every reference was seen."""
        return getattr(self._result.workload, "traps", None)

    def misses(self) -> alt.Chart:
        """Misses per 1000 lookups, a bar for each machine; of a run by traps, which see no lookups, misses per second
        of the program's own time."""
        frame = self._result.to_frame()
        if self._traps is None:
            rate, title, per = "per 1000", "misses per 1000 lookups", 1000 / frame["lookups"].clip(lower=1)
        else:
            rate, title = "per second", "misses per second of the program's own time"
            per = 1e6 / max(self._traps.own_microseconds, 1)
        frame[rate] = per * frame["misses"]
        return (
            alt.Chart(frame[["name", "misses", rate]])
            .mark_bar()
            .encode(
                x=alt.X(f"{rate}:Q", title=title),
                y=alt.Y("name:N", sort=None, title=None),
                tooltip=["name", "misses", rate],
            )
            .properties(title=self._result.workload.source)
        )

    def misses_by_area(self) -> alt.Chart:
        """Misses against chip area. Machines without a known area are named below the title."""
        whole = self._result.to_frame()[["name", "misses", "area_rbe"]]
        frame = whole.dropna()
        without = [name for name in whole["name"] if name not in set(frame["name"])]
        title = alt.TitleParams("Misses against area", subtitle=_left_out(without, "their area is not known"))
        points = alt.Chart(frame).encode(
            x=alt.X("area_rbe:Q", title=_AREA, scale=alt.Scale(zero=False)),
            y=alt.Y("misses:Q", scale=alt.Scale(zero=False)),
            tooltip=["name", "misses", "area_rbe"],
        )
        marks = points.mark_point(filled=True, size=60) + points.mark_text(align="left", dx=7).encode(text="name")
        return marks.properties(title=title)

    def memory(self) -> alt.Chart:
        """Resident memory against misses."""
        frame = self._result.to_frame()[["name", "misses", "resident_bytes", "wasted_bytes"]]
        frame["MiB"] = frame["resident_bytes"] / (1 << 20)
        points = alt.Chart(frame).encode(
            x=alt.X("MiB:Q", title="resident memory at the peak, MiB", scale=alt.Scale(zero=False)),
            y=alt.Y("misses:Q", scale=alt.Scale(zero=False)),
            tooltip=["name", "misses", "resident_bytes", "wasted_bytes"],
        )
        return points.mark_point(filled=True, size=60) + points.mark_text(align="left", dx=7).encode(text="name")

    def timeline(self) -> alt.Chart:
        """Misses over time, a line for each machine: in slices of lookups or, of a run by traps, per second."""
        traps, rows = self._traps, []
        for machine in self._result.machines:
            line = machine.timeline
            for i, misses in enumerate(line.misses):
                row = {"name": machine.name, "misses": misses}
                if traps is None:
                    row["lookups"] = i * line.slice_lookups
                else:
                    # The last slice may be shorter.
                    start = i * line.slice_microseconds
                    length = min(line.slice_microseconds, traps.microseconds - start)
                    row.update({"seconds": start / 1e6, "per second": 1e6 * misses / max(length, 1)})
                rows.append(row)
        if traps is None:
            x, y = alt.X("lookups:Q", title="lookups so far"), alt.Y("misses:Q", title="misses in a slice")
        else:
            x = alt.X("seconds:Q", title="seconds so far")
            y = alt.Y("per second:Q", title="misses per second")
        return (
            alt.Chart(pd.DataFrame(rows))
            .mark_line()
            .encode(
                x=x,
                y=y,
                color=alt.Color("name:N", sort=None, title=None),
            )
            .properties(title=self._result.workload.source)
        )


class PageSizePlots:
    """Pictures of the page-size study."""

    def __init__(self, result: PageSizeResult) -> None:
        self._result = result

    def tradeoff(self) -> alt.Chart:
        """Misses against memory, a point for each page size."""
        frame = self._result.to_frame()
        frame["misses"] = frame["fetch_misses"] + frame["data_misses"]
        frame["MiB"] = frame["peak_bytes"] / (1 << 20)
        frame["page"] = [f"{size >> 10}K" if size < 1 << 20 else f"{size >> 20}M" for size in frame["page_size"]]
        points = alt.Chart(frame[["misses", "MiB", "page"]]).encode(
            x=alt.X("MiB:Q", title="memory at the peak, MiB", scale=alt.Scale(zero=False)),
            y=alt.Y("misses:Q", scale=alt.Scale(zero=False)),
            tooltip=["page", "misses", "MiB"],
        )
        return points.mark_line(point=True) + points.mark_text(dy=-9).encode(text="page")


def _scale(values: Any) -> Any:
    """By decades where values span more than two of them."""
    least, most = values.min(), values.max()
    return alt.Scale(type="log") if least > 0 and most > 100 * least else alt.Scale(zero=False)


class SweepPlots:
    """Pictures of a sweep.

    No picture adds points up. What it does not tell apart of programs, limits and seeds is one value, as for
    `Sweep.best`: by default the geometric mean relative to a machine `base`, which the axis names. Machines that differ
    in a key have marks of their own.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def _frame(self, columns: Sequence[str], where: Optional[Mapping[str, Any]]) -> pd.DataFrame:
        frame = aggregate.chosen(self._sweep.frame, where)
        unknown = [name for name in columns if name not in frame]
        if unknown:
            raise ValueError(f"the table has no column {unknown[0]!r}; it has {', '.join(frame.columns)}")
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
    ) -> alt.Chart:
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
        marks = aggregate.combined(
            frame, y, [name for name in (x, color, facet) if name], mean, base, self._sweep.frame
        )
        numbers = pd.api.types.is_numeric_dtype(frame[x])
        rows = marks.frame
        chart = (
            alt.Chart(rows)
            .mark_line(point=True)
            .encode(
                x=alt.X(
                    f"{_plain(x)}:{'Q' if numbers else 'O'}",
                    title=_title(x),
                    scale=alt.Scale(type="log", base=2) if numbers and rows[x].min() > 0 else alt.Undefined,
                ),
                y=alt.Y(f"{_plain(y)}:Q", title=_title(marks.title), scale=_scale(rows[y])),
                color=alt.Color(f"{_plain(color)}:N", title=_title(color), legend=_WHOLE),
                tooltip=[_plain(name) for name in rows.columns],
            )
        )
        title = alt.TitleParams(f"{_title(y)} against {_title(x)}", subtitle=subtitle)
        if facet:
            return chart.properties(width=260, height=200).facet(f"{_plain(facet)}:N", columns=2, title=title)
        return chart.properties(title=title)

    def pareto(
        self,
        x: str = "area_rbe",
        y: str = "misses",
        *,
        mean: str = "geometric",
        base: Optional[str] = None,
        where: Optional[Mapping[str, Any]] = None,
    ) -> alt.Chart:
        """Every machine, and the front of those that no other beats in both columns, by their names.

        Args:
            x, y, mean, base, where: as for `Sweep.pareto`.
        """
        both, across, up = self._sweep._both(x, y, mean, base, where)
        front = self._sweep.pareto(x, y, mean=mean, base=base, where=where)
        all_machines = aggregate.chosen(self._sweep.frame, where)["machine"].unique()
        without = [name for name in all_machines if name not in set(both["machine"])]
        encoding: Dict[str, Any] = {
            "x": alt.X(f"{_plain(x)}:Q", title=_title(across), scale=_scale(both[x])),
            "y": alt.Y(f"{_plain(y)}:Q", title=_title(up), scale=_scale(both[y])),
            "tooltip": ["machine", _plain(x), _plain(y)],
        }
        points = alt.Chart(both).mark_point(opacity=0.5).encode(**encoding)
        line = alt.Chart(front).encode(**encoding)
        names = line.mark_text(align="left", baseline="bottom", dx=5, dy=-3, fontSize=10).encode(text="machine:N")
        steps = line.mark_line(interpolate="step-after", point=True, color="#d62728")
        title = alt.TitleParams("Pareto front", subtitle=_left_out(without, f"no {_title(x)} is known"))
        return (points + steps + names).properties(title=title)

    def memory(self, y: str = "misses") -> alt.Chart:
        """Resident memory against misses, a point for each row."""
        frame = self._frame(["program", "machine", "resident_bytes", y], None)
        frame = frame[["program", "machine", "resident_bytes", y]]
        frame["MiB"] = frame["resident_bytes"].astype(float) / (1 << 20)
        return (
            alt.Chart(frame)
            .mark_point()
            .encode(
                x=alt.X("MiB:Q", title="resident memory at the peak, MiB", scale=_scale(frame["MiB"])),
                y=alt.Y(f"{_plain(y)}:Q", title=_title(y), scale=_scale(frame[y])),
                color=alt.Color("program:N", title=None, legend=_WHOLE),
                tooltip=["program", "machine", "MiB", _plain(y)],
            )
            .properties(title=alt.TitleParams("Memory against misses", subtitle="a point for each row of the table"))
        )

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
    ) -> alt.Chart:
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
        marks = aggregate.combined(frame, value, [x, y, facet], mean, base, self._sweep.frame)
        rows = marks.frame
        chart = (
            alt.Chart(rows)
            .mark_rect()
            .encode(
                x=alt.X(f"{_plain(x)}:O", title=_title(x)),
                y=alt.Y(f"{_plain(y)}:O", title=_title(y), sort="descending"),
                color=alt.Color(f"{_plain(value)}:Q", title=_title(marks.title).split(", "), scale=_scale(rows[value])),
                tooltip=[_plain(name) for name in rows.columns],
            )
        )
        title = alt.TitleParams(f"{_title(value)} by {_title(x)} and {_title(y)}", subtitle=subtitle)
        return chart.facet(f"{_plain(facet)}:N", columns=2, title=title)

    def _varied(self) -> List[str]:
        """Keys of machines that have several values, numbers first."""
        frame = self._sweep.frame
        keys = [name for name in aggregate.varied(frame) if name != "config.kind" and frame[name].nunique() > 1]
        return sorted(keys, key=lambda name: not pd.api.types.is_numeric_dtype(frame[name]))

    def charts(self) -> Dict[str, Any]:
        """The pictures that this table has something for, by their titles. In place of one that cannot be drawn there
        is the reason, a text."""
        keys, frame = self._varied(), self._sweep.frame
        found: Dict[str, Any] = {}
        if not len(frame):
            return found
        for key in keys[:4]:
            found[f"Misses against {_title(key)}"] = _drawn(partial(self.lines, key))
        if frame["area_rbe"].notna().any():
            found["Misses against area"] = _drawn(lambda mean: self.pareto(mean=mean))
        found["Memory against misses"] = self.memory()
        if len(keys) >= 2 and frame[keys[:2]].notna().all(axis=1).any():
            title = f"Misses by {_title(keys[0])} and {_title(keys[1])}"
            found[title] = _drawn(lambda mean: self.heatmap(keys[0], keys[1], mean=mean))
        return found

    def report(self) -> str:
        """A page complete in itself, with all pictures, failures and the table's best machines."""
        sweep = self._sweep
        parts = []
        if len(sweep.frame) and sweep.frame["area_rbe"].notna().any():
            best = _drawn(lambda mean: (sweep.pareto(mean=mean), sweep._machines("misses", mean, None, None).title))
            if isinstance(best, str):
                table = f"<p>{escape(best)}</p>"
            else:
                front = best[0].rename(columns={"area_rbe": "area in rbe", "misses": best[1]})
                table = front.to_html(index=False, float_format="{:,.4g}".format)
            parts.append(f"<h2>Machines that no other beats</h2>{table}")
        if sweep.failures:
            parts.append(f"<h2>Failed</h2>{pd.DataFrame(sweep.failures).to_html(index=False)}")
        about = f"{len(sweep.frame):,} points, {sweep.frame['program'].nunique() if len(sweep.frame) else 0} programs"
        return page(f"Sweep {sweep.about.get('name', '')}", about, self.charts(), "".join(parts))


#: A legend that cuts no name.
_WHOLE = alt.Legend(labelLimit=0)


def _left_out(names: Sequence[str], why: str) -> Any:
    """A subtitle that names what a picture does not show."""
    if not len(names):
        return alt.Undefined
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"Not shown, because {why}: {', '.join(names[:4])}{more}"


def _having(frame: pd.DataFrame, columns: Sequence[str]) -> Tuple[pd.DataFrame, Any]:
    """The rows that have values of these columns, and a subtitle that names the machines of the others."""
    there = frame[list(columns)].notna().all(axis=1)
    without = [name for name in frame["machine"].unique() if name not in set(frame[there]["machine"])]
    if not there.any():
        raise ValueError(f"no machine has {' and '.join(columns)}")
    why = f"without {' and '.join(_title(name) for name in columns)}"
    return frame[there].copy(), _left_out(without, f"they are {why}")


def _drawn(draw: Callable[..., Any]) -> Any:
    """With the geometric mean, where there is none with the arithmetic one; else why not."""
    try:
        return draw(mean="geometric")
    except ValueError:
        try:
            return draw(mean="arithmetic")
        except ValueError as error:
            return f"Not drawn: {error}"


class PapersPlots:
    """Pictures of the papers' tables and figures: measured values, and the printed ones beside them."""

    def __init__(self, result: PapersResult) -> None:
        self._result = result

    def compare(self, section: str, table: int = 0) -> alt.VConcatChart:
        """A table whose columns are printed and measured: bars are measured here, diamonds are printed. Columns of one
        unit have one scale."""
        given = self._result[section].tables[table]
        rows = []
        for row in given.rows:
            for column, cell in zip(given.columns, row.cells):
                value = cell.get("printed", cell.get("value")) if hasattr(cell, "get") else cell
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    what = f"{column.name} ({column.unit})" if column.unit else column.name
                    unit = column.unit or ""
                    rows.append(
                        {"row": row.name, "column": what, "value": value, "origin": column.origin, "unit": unit}
                    )
        frame = pd.DataFrame(rows, columns=["row", "column", "value", "origin", "unit"])
        units = [self._of_unit(rows, unit) for unit, rows in frame.groupby("unit", sort=False)]
        return alt.vconcat(*units, title=given.title)

    @staticmethod
    def _of_unit(frame: pd.DataFrame, unit: Any) -> Any:
        """The columns of one unit, side by side."""
        base = alt.Chart(frame).encode(
            x=alt.X("value:Q", title=unit or None),
            y=alt.Y("row:N", sort=None, title=None),
            tooltip=["row", "column", "value", "origin"],
        )
        bars = base.transform_filter(alt.datum.origin != "printed").mark_bar(opacity=0.7)
        printed = base.transform_filter(alt.datum.origin == "printed").mark_point(
            shape="diamond", filled=True, size=60, color="#d62728"
        )
        return (
            alt.layer(bars, printed, data=frame)
            .properties(width=220)
            .facet(alt.Facet("column:N", title=None), columns=3)
        )

    def figure(self, section: str, chart: int = 0) -> alt.Chart:
        """A figure: a line for each of its series.

        Raises:
            ValueError: the section has no such figure.
        """
        charts = self._result[section].charts
        if not 0 <= chart < len(charts):
            there = [one.id for one in self._result.sections if one.charts]
            raise ValueError(
                f"section {section!r} has {len(charts)} figures, so chart = {chart} is not one; sections with figures: "
                f"{', '.join(there) or 'none'}. Its tables are drawn by compare({section!r})"
            )
        given = charts[chart]
        rows = [
            {"x": place, "series": series.name, "value": value}
            for series in given.series
            for place, value in zip(given.places, series.values)
            if value is not None
        ]
        return (
            alt.Chart(pd.DataFrame(rows))
            .mark_line(point=True)
            .encode(
                x=alt.X("x:O", sort=None, title=given.x),
                y=alt.Y("value:Q", title=given.y),
                color=alt.Color("series:N", sort=None, title=None),
                tooltip=["series", "x", "value"],
            )
            .properties(title=given.title)
        )


def _in_script(text: str) -> str:
    """JSON that can stand in a script: no name in it ends the script or begins a comment."""
    return text.replace("<", "\\u003c")


class _Json:
    """What Altair makes JSON with where it writes HTML. By itself it would let a name end the script."""

    def __getattr__(self, name: str) -> Any:
        return getattr(json, name)

    @staticmethod
    def dumps(*words: Any, **keys: Any) -> str:
        return _in_script(json.dumps(*words, **keys))


# Charts of farreach are Altair's, and so are those that users make of several: all of them are safe to save and show.
alt.utils.html.json = _Json()  # type: ignore[assignment]


def page(title: str, about: str, charts: Dict[str, Any], rest: str = "") -> str:
    """An HTML page complete in itself: charts with the script that draws them."""
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub demands what may be left out
    body = []
    for i, (name, chart) in enumerate(charts.items()):
        if isinstance(chart, str):
            body.append(f"<h2>{escape(name)}</h2><p>{escape(chart)}</p>")
            continue
        spec = _in_script(json.dumps(json.loads(chart.to_json())))
        body.append(f'<h2>{escape(name)}</h2><div id="chart{i}"></div><script>vegaEmbed("#chart{i}", {spec});</script>')
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }}
</style><script>{script}</script></head>
<body><h1>{escape(title)}</h1><p>{escape(about)}</p>{"".join(body)}{rest}</body></html>
"""
