"""Pictures, made with Altair: interactive in a notebook and as HTML, and SVG, PNG and PDF without a network.

Every method returns an `altair` chart: `chart.save("picture.svg")` (or `.png`, `.pdf`, `.html`) writes it. They are
drawn from frames and records; they know neither results nor sweeps.
"""

from .observe import AdvicePlots, WatchPlots
from .page import page
from .pagesize import PageSizePlots
from .papers import PapersPlots
from .run import ResultPlots
from .sweep import SweepPlots

__all__ = ["ResultPlots", "PageSizePlots", "SweepPlots", "PapersPlots", "AdvicePlots", "WatchPlots", "page"]
