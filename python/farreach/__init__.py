"""A laboratory for virtual-memory address translation.

Real programs go through TLB designs and page policies side by side, exactly:

>>> import farreach
>>> result = farreach.simulate("workload:gups:size=1M", ["t94/single", "t94/partial"], limit="100K")
>>> result["t94/single"].counts.misses > result["t94/partial"].counts.misses
True
"""

from ._core import __version__
from .errors import (
    CommandError,
    ConformanceError,
    Error,
    ExperimentError,
    MachineError,
    MissingExtra,
    SimulationError,
    TraceError,
    WorkloadError,
)
from .machine import Machine, area, machines
from .observe import advise, contiguity, trap, watch
from .paper import PapersResult, atlas, papers
from .records import MachineResult, Record
from .repeats import Repeats, repeat
from .result import AdviceResult, ContiguityResult, PageSizeResult, Result, WatchResult
from .study import pagesize, record, run, simulate
from .sweeps import Experiment, Grid, Plan, Sweep, plan, sweep
from .catalogue import WorkloadEntry, Workloads, workloads
from .conformance import Checked, check
from .tlb import FETCH, FILTERABLE, HIT, LOAD, MISS, STORE, SUBBLOCK_MISS, Pte, Tlb
from .trace import Batch, Event, Trace, TraceWriter, Words, formats

__all__ = [
    "run",
    "repeat",
    "Repeats",
    "record",
    "simulate",
    "pagesize",
    "contiguity",
    "trap",
    "watch",
    "advise",
    "workloads",
    "Workloads",
    "WorkloadEntry",
    "papers",
    "atlas",
    "PapersResult",
    "area",
    "sweep",
    "plan",
    "Plan",
    "Experiment",
    "Grid",
    "Sweep",
    "Machine",
    "machines",
    "Trace",
    "TraceWriter",
    "Batch",
    "Event",
    "Words",
    "formats",
    "Result",
    "MachineResult",
    "PageSizeResult",
    "ContiguityResult",
    "AdviceResult",
    "WatchResult",
    "Record",
    "Tlb",
    "Pte",
    "check",
    "Checked",
    "FETCH",
    "LOAD",
    "STORE",
    "HIT",
    "MISS",
    "SUBBLOCK_MISS",
    "FILTERABLE",
    "Error",
    "CommandError",
    "ConformanceError",
    "ExperimentError",
    "MachineError",
    "MissingExtra",
    "SimulationError",
    "TraceError",
    "WorkloadError",
    "__version__",
]
