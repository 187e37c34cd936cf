"""Pictures, made with Altair: interactive in a notebook and as HTML, and SVG, PNG and PDF without a network.

Every method returns an `altair` chart: `chart.save("picture.svg")` (or `.png`, `.pdf`, `.html`) writes it.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import altair as alt
import pandas as pd

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
        """Misses against chip area; machines without an area are left out."""
        frame = self._result.to_frame()[["name", "misses", "area_rbe"]].dropna()
        points = alt.Chart(frame).encode(
            x=alt.X("area_rbe:Q", title=_AREA, scale=alt.Scale(zero=False)),
            y=alt.Y("misses:Q", scale=alt.Scale(zero=False)),
            tooltip=["name", "misses", "area_rbe"],
        )
        return points.mark_point(filled=True, size=60) + points.mark_text(align="left", dx=7).encode(text="name")

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


class SweepPlots:
    """Pictures of a sweep. Programs, limits and seeds that a picture does not tell apart are summed up."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def _frame(self, columns: Sequence[str]) -> pd.DataFrame:
        frame = self._sweep.frame
        unknown = [name for name in columns if name not in frame]
        if unknown:
            raise ValueError(f"the table has no column {unknown[0]!r}; it has {', '.join(frame.columns)}")
        # Nullable types and objects in one go: Vega-Lite takes numbers and texts.
        return frame[list(dict.fromkeys(columns))].copy()

    def lines(
        self, x: str, y: str = "misses", color: str = "config.kind", facet: Optional[str] = "program"
    ) -> alt.Chart:
        """A value against a key: misses against the number of entries, say.

        Args:
            x: a column, such as `config.entries`.
            y: the value.
            color: a line for each value of this column.
            facet: a picture for each value of this column; None: one picture.
        """
        by = [name for name in dict.fromkeys([x, color, facet]) if name]
        frame = self._frame([*by, y]).groupby(by, dropna=False, as_index=False, sort=False)[y].sum()
        numbers = pd.api.types.is_numeric_dtype(frame[x])
        chart = (
            alt.Chart(frame)
            .mark_line(point=True)
            .encode(
                x=alt.X(
                    f"{_plain(x)}:{'Q' if numbers else 'O'}",
                    title=_title(x),
                    scale=alt.Scale(type="log", base=2) if numbers and frame[x].min() > 0 else alt.Undefined,
                ),
                y=alt.Y(f"{_plain(y)}:Q", title=_title(y)),
                color=alt.Color(f"{_plain(color)}:N", title=_title(color)),
                tooltip=[_plain(name) for name in [*by, y]],
            )
        )
        return chart.properties(width=260, height=200).facet(f"{_plain(facet)}:N", columns=2) if facet else chart

    def pareto(self, x: str = "area_rbe", y: str = "misses") -> alt.Chart:
        """Every machine, and the front of those that no other beats in both columns."""
        frame = self._frame(["machine", x, y])
        sums = (
            frame.groupby("machine", sort=False, as_index=False)
            .agg({x: "max" if x == "area_rbe" else "sum", y: "sum"})
            .dropna()
        )
        base = {
            "x": alt.X(f"{_plain(x)}:Q", title=_AREA if x == "area_rbe" else _title(x), scale=alt.Scale(zero=False)),
            "y": alt.Y(f"{_plain(y)}:Q", title=_title(y), scale=alt.Scale(zero=False)),
            "tooltip": ["machine", _plain(x), _plain(y)],
        }
        points = alt.Chart(sums).mark_point(opacity=0.5).encode(**base)
        front = alt.Chart(self._sweep.pareto(x, y)).mark_line(interpolate="step-after", point=True, color="#d62728")
        return (points + front.encode(**base)).properties(title="Pareto front")

    def memory(self, y: str = "misses") -> alt.Chart:
        """Resident memory against misses, a point for each row."""
        frame = self._frame(["program", "machine", "resident_bytes", y])
        frame["MiB"] = frame["resident_bytes"].astype(float) / (1 << 20)
        return (
            alt.Chart(frame)
            .mark_point()
            .encode(
                x=alt.X("MiB:Q", title="resident memory at the peak, MiB", scale=alt.Scale(zero=False)),
                y=alt.Y(f"{_plain(y)}:Q", title=_title(y)),
                color=alt.Color("program:N", title=None),
                tooltip=["program", "machine", "MiB", _plain(y)],
            )
        )

    def heatmap(self, x: str, y: str, value: str = "misses") -> alt.Chart:
        """A value by two keys, such as `config.entries` and `config.factor`."""
        frame = self._frame([x, y, value]).dropna().groupby([x, y], as_index=False)[value].sum()
        return (
            alt.Chart(frame)
            .mark_rect()
            .encode(
                x=alt.X(f"{_plain(x)}:O", title=_title(x)),
                y=alt.Y(f"{_plain(y)}:O", title=_title(y), sort="descending"),
                color=alt.Color(f"{_plain(value)}:Q", title=_title(value)),
                tooltip=[_plain(name) for name in (x, y, value)],
            )
        )

    def _varied(self) -> List[str]:
        """Keys of machines that have several values, numbers first."""
        frame = self._sweep.frame
        keys = [name for name in frame if name.startswith("config.") and name not in ("config.seed", "config.kind")]
        keys = [name for name in keys if frame[name].nunique() > 1]
        return sorted(keys, key=lambda name: not pd.api.types.is_numeric_dtype(frame[name]))

    def charts(self) -> Dict[str, alt.Chart]:
        """The pictures that this table has something for, by their titles."""
        keys, frame = self._varied(), self._sweep.frame
        found: Dict[str, alt.Chart] = {}
        if not len(frame):
            return found
        for key in keys[:4]:
            found[f"Misses against {_title(key)}"] = self.lines(key)
        if frame["area_rbe"].notna().any():
            found["Misses against area"] = self.pareto()
        found["Memory against misses"] = self.memory()
        if len(keys) >= 2:
            found[f"Misses by {_title(keys[0])} and {_title(keys[1])}"] = self.heatmap(keys[0], keys[1])
        return found

    def report(self) -> str:
        """A page complete in itself, with all pictures, failures and the table's best machines."""
        sweep = self._sweep
        best = sweep.pareto() if len(sweep.frame) and sweep.frame["area_rbe"].notna().any() else None
        parts = []
        if best is not None:
            best = best.rename(columns={"area_rbe": "area in rbe", "misses": "misses, all programs"})
            parts.append(
                f"<h2>Machines that no other beats</h2>{best.to_html(index=False, float_format='{:,.0f}'.format)}"
            )
        if sweep.failures:
            parts.append(f"<h2>Failed</h2>{pd.DataFrame(sweep.failures).to_html(index=False)}")
        about = f"{len(sweep.frame):,} points, {sweep.frame['program'].nunique() if len(sweep.frame) else 0} programs"
        return page(f"Sweep {sweep.about.get('name', '')}", about, self.charts(), "".join(parts))


class PapersPlots:
    """Pictures of the papers' tables and figures: measured values, and the printed ones beside them."""

    def __init__(self, result: PapersResult) -> None:
        self._result = result

    def compare(self, section: str, table: int = 0) -> alt.Chart:
        """A table whose columns are printed and measured: bars are measured here, diamonds are printed."""
        given = self._result[section].tables[table]
        rows = []
        for row in given.rows:
            for column, cell in zip(given.columns, row.cells):
                value = cell.get("printed", cell.get("value")) if hasattr(cell, "get") else cell
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    what = f"{column.name} ({column.unit})" if column.unit else column.name
                    rows.append({"row": row.name, "column": what, "value": value, "origin": column.origin})
        frame = pd.DataFrame(rows, columns=["row", "column", "value", "origin"])
        base = alt.Chart(frame).encode(
            x=alt.X("value:Q", title=None), y=alt.Y("row:N", sort=None, title=None), tooltip=list(frame.columns)
        )
        bars = base.transform_filter(alt.datum.origin != "printed").mark_bar(opacity=0.7)
        printed = base.transform_filter(alt.datum.origin == "printed").mark_point(
            shape="diamond", filled=True, size=60, color="#d62728"
        )
        layers = alt.layer(bars, printed, data=frame).properties(width=220)
        return layers.facet("column:N", columns=3, title=given.title).resolve_scale(x="independent")

    def figure(self, section: str, chart: int = 0) -> alt.Chart:
        """A figure: a line for each of its series."""
        given = self._result[section].charts[chart]
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
        spec = _in_script(json.dumps(json.loads(chart.to_json())))
        body.append(f'<h2>{escape(name)}</h2><div id="chart{i}"></div><script>vegaEmbed("#chart{i}", {spec});</script>')
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<style>body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse }} td, th {{ padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }}
</style><script>{script}</script></head>
<body><h1>{escape(title)}</h1><p>{escape(about)}</p>{"".join(body)}{rest}</body></html>
"""
