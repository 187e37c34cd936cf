"""Parts of Dask without pages, and so without ports for them, which would need no certificate."""

from __future__ import annotations

from typing import Any

import distributed

__all__ = ["Scheduler", "Worker"]


class Scheduler(distributed.Scheduler):
    """A scheduler without pages."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Starts none."""


class Worker(distributed.Worker):
    """A worker without pages."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Starts none."""
