"""Pictures of a run."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import altair as alt
import pandas as pd

from ..records import MachineResult, Record
from .base import AREA, COLOURS, axis, key, left_out, scale, sized

__all__ = ["ResultPlots"]


class ResultPlots:
    """Pictures of a run.

    Args:
        frame: `Result.to_frame()`.
        source: what ran.
        machines: machine by machine.
        traps: how it was trapped; `None` where every reference was seen.
    """

    def __init__(
        self, frame: Any, source: str, machines: Sequence[MachineResult], traps: Optional[Record] = None
    ) -> None:
        self._frame, self._source, self._machines, self._traps = frame, source, machines, traps

    def misses(self) -> alt.Chart:
        """Misses per 1000 lookups, a bar for each machine; of a run by traps, which see no lookups, misses per second
        of the program's own time."""
        frame = self._frame[["machine", "misses", "lookups"]].copy()
        if self._traps is None:
            rate, title, per = "per 1000", "misses per 1000 lookups", 1000 / frame["lookups"].clip(lower=1)
        else:
            rate, title = "per second", "misses per second of the program's own time"
            per = 1e6 / max(self._traps.own_microseconds, 1)
        frame[rate] = (per * frame["misses"]).astype(float)
        chart = (
            alt.Chart(frame[["machine", "misses", rate]])
            .mark_bar(color=COLOURS[0])
            .encode(
                x=alt.X(f"{rate}:Q", title=title),
                y=alt.Y("machine:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
                tooltip=["machine", "misses", rate],
            )
        )
        return sized(chart, title=self._source, height=alt.Step(24))

    def misses_by_area(self) -> alt.Chart:
        """Misses against chip area. Machines without a known area are named below the title."""
        whole = self._frame[["machine", "misses", "area_rbe"]]
        frame = whole.dropna()
        if not len(frame):
            raise ValueError("no machine of this result has a known chip area")
        without = [name for name in whole["machine"] if name not in set(frame["machine"])]
        title = alt.TitleParams("Misses against area", subtitle=left_out(without, "their area is not known"))
        return self._points(frame, "area_rbe", AREA, title)

    def memory(self) -> alt.Chart:
        """Resident memory against misses."""
        frame = self._frame[["machine", "misses", "resident_bytes", "wasted_bytes"]].copy()
        frame["MiB"] = frame["resident_bytes"].astype(float) / (1 << 20)
        return self._points(frame, "MiB", "resident memory at the peak, MiB", "Misses against memory")

    @staticmethod
    def _points(frame: Any, x: str, about: str, title: Any) -> alt.Chart:
        """A point for each machine, with the names below."""
        chart = (
            alt.Chart(frame)
            .mark_point(filled=True, size=90, opacity=0.9)
            .encode(
                x=alt.X(f"{x}:Q", title=about, scale=scale(frame[x]), axis=axis(frame[x])),
                y=alt.Y("misses:Q", scale=scale(frame["misses"]), axis=axis(frame["misses"])),
                tooltip=list(frame.columns),
                **key(list(frame["machine"]), "machine"),
            )
        )
        return sized(chart, title=title)

    def timeline(self) -> alt.Chart:
        """Misses over time, a line for each machine: in slices of lookups or, of a run by traps, per second."""
        traps, rows = self._traps, []
        for machine in self._machines:
            line = machine.timeline
            for i, misses in enumerate(line.misses):
                row = {"machine": machine.name, "misses": misses}
                if traps is None:
                    row["lookups"] = i * line.slice_lookups
                else:
                    # The last slice may be shorter.
                    start = i * line.slice_microseconds
                    length = min(line.slice_microseconds, traps.microseconds - start)
                    row.update({"seconds": start / 1e6, "per second": 1e6 * misses / max(length, 1)})
                rows.append(row)
        if traps is None:
            x, y = alt.X("lookups:Q", title="lookups so far", axis=alt.Axis(format="~s")), "misses"
        else:
            x, y = alt.X("seconds:Q", title="seconds so far"), "per second"
        title = "misses in a slice" if traps is None else "misses per second"
        colour = key([machine.name for machine in self._machines], "machine")["color"]
        chart = alt.Chart(pd.DataFrame(rows)).mark_line().encode(x=x, y=alt.Y(f"{y}:Q", title=title), color=colour)
        return sized(chart, title=self._source)
