"""Sweeps: many machines over many programs, on one machine or a hundred."""

from .api import Plan, plan, sweep
from .experiment import Experiment, load
from .grid import Grid
from .points import WIDTH
from .programs import cache_dir
from .table import SCHEMA, Sweep

__all__ = [
    "sweep",
    "plan",
    "Plan",
    "Sweep",
    "Experiment",
    "Grid",
    "load",
    "cache_dir",
    "SCHEMA",
    "WIDTH",
]
