"""Pictures of advice, and of the memory that a process uses."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from .base import COLOURS, key, sized

__all__ = ["AdvicePlots", "WatchPlots"]


class AdvicePlots:
    """Pictures of advice.

    Args:
        frame: `AdviceResult.to_frame()`.
        source: the program or the trace.
    """

    def __init__(self, frame: Any, source: str) -> None:
        self._frame, self._source = frame, source

    def savings(self) -> alt.LayerChart:
        """What each change saves: all that is possible as a line, the likely part as a point. In percent of the run
        or, of a trace, in cycles."""
        of_run = "saved_percent.low" in self._frame and self._frame["saved_percent.low"].notna().any()
        what = "saved_percent" if of_run else "saved_cycles"
        frame = pd.DataFrame(
            {
                "row": self._frame["name"],
                "low": self._frame[f"{what}.low"].astype(float),
                "high": self._frame[f"{what}.high"].astype(float),
                "likely": self._frame["likely_percent"].astype(float) if of_run else float("nan"),
            }
        )
        title = "saved, percent of the run" if of_run else "saved cycles"
        y = alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=260))
        base = alt.Chart(frame).encode(y=y, tooltip=["row", "low", "high", "likely"])
        line = base.mark_rule(strokeWidth=5, opacity=0.45, color=COLOURS[0]).encode(
            x=alt.X("low:Q", title=title), x2="high:Q"
        )
        point = base.mark_point(filled=True, size=80, opacity=1, color=COLOURS[4]).encode(x="likely:Q")
        drawn: alt.LayerChart = (line + point).properties(title=self._source, width=480, height=alt.Step(26))
        return drawn


class WatchPlots:
    """Pictures of the memory that a process uses.

    Args:
        frame: `WatchResult.to_frame()`.
        source: the process.
    """

    def __init__(self, frame: Any, source: str) -> None:
        self._frame, self._source = frame, source

    def memory(self) -> alt.Chart:
        """Memory over time: present, in huge pages, and used in an interval where that is known (its upper bound)."""
        names = {"present": "present_bytes", "in huge pages": "huge_bytes", "used": "used_bytes.high"}
        there = [name for name, column in names.items() if column in self._frame]
        parts = [
            pd.DataFrame(
                {
                    "seconds": self._frame["seconds"].astype(float),
                    "MiB": self._frame[names[name]].astype(float) / (1 << 20),
                    "memory": name,
                }
            )
            for name in there
        ]
        chart = (
            alt.Chart(pd.concat(parts, ignore_index=True))
            .mark_line(point=True)
            .encode(
                x=alt.X("seconds:Q", title="seconds since the watch began"),
                y=alt.Y("MiB:Q"),
                tooltip=["memory", "seconds", "MiB"],
                **key(there, "memory"),
            )
        )
        return sized(chart, title=self._source)
