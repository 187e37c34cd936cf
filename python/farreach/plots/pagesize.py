"""Pictures of the page-size study."""

from __future__ import annotations

from typing import Any

import altair as alt

from .base import axis, layered, scale

__all__ = ["PageSizePlots"]


class PageSizePlots:
    """Pictures of the page-size study.

    Args:
        frame: `PageSizeResult.to_frame()`.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def tradeoff(self) -> alt.LayerChart:
        """Misses against memory, a point for each page size."""
        frame = self._frame.copy()
        frame["misses"] = (frame["fetch_misses"] + frame["data_misses"]).astype(float)
        frame["MiB"] = frame["peak_bytes"].astype(float) / (1 << 20)
        frame["page"] = [f"{size >> 10}K" if size < 1 << 20 else f"{size >> 20}M" for size in frame["page_size"]]
        x = alt.X("MiB:Q", title="memory at the peak, MiB", scale=scale(frame["MiB"]), axis=axis(frame["MiB"]))
        y = alt.Y("misses:Q", scale=scale(frame["misses"]), axis=axis(frame["misses"]))
        sizes = list(frame["page"])
        legend = alt.Legend(orient="bottom", title="page size", columns=5, symbolLimit=0)
        line = alt.Chart(frame[["misses", "MiB", "page"]]).encode(x=x, y=y, tooltip=["page", "misses", "MiB"])
        marks = line.mark_point(filled=True, size=90, opacity=1).encode(
            color=alt.Color("page:N", sort=sizes, scale=alt.Scale(domain=sizes, scheme="viridis"), legend=legend)
        )
        return layered(line.mark_line(color="#7f7f7f") + marks, title="Misses against memory, by page size")
