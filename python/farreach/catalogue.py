"""The catalogue of workloads: kernels that come with farreach, and real programs that descend from the papers'."""

from __future__ import annotations

import difflib
import json
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, overload

from . import _command
from .frames import flat, frame
from .quantities import Count, PathLike, Size, count_of, seed_of, size_of
from .records import Record
from .trace import Trace

__all__ = ["WorkloadEntry", "Workloads", "workloads"]


class WorkloadEntry(Record):
    """A workload: `name`, `type` (kernel or program), `kind`, `stands_for`, `about`, `footprint` in bytes, `installed`
    or not."""

    __slots__ = ()
    if TYPE_CHECKING:
        name: str
        type: str
        kind: str
        stands_for: str
        about: str
        footprint: int
        installed: bool

    def prepare(self, install: bool = False) -> None:
        """Checks that its packages are installed, and makes its inputs from a seed. `install`: as root, installs what
        is missing with apt-get.

        Raises:
            CommandError: a package is missing, or inputs cannot be made.
        """
        _command.run(["workloads", self.name, "--prepare", *(["--install"] if install else [])])

    def record(
        self,
        output: PathLike,
        *,
        size: Optional[Size] = None,
        references: Optional[Count] = None,
        seed: Optional[int] = None,
        limit: Optional[Count] = None,
    ) -> Trace:
        """Stores its trace: a program is recorded, a server with its load beside it; a kernel makes it.

        Args:
            output: the trace file.
            size: bytes of its input, where they can be chosen.
            references: references of a kernel.
            seed: seed of its input.
            limit: the number of instructions after which it stops, such as "300M".

        Raises:
            CommandError: it cannot be recorded, or is not asked as it can be.
        """
        words = ["workloads", self.name, "--trace", "--output", os.path.abspath(output)]
        number, bytes_of = count_of("limit", limit), size_of("size", size)
        for name, value in (
            ("--size", bytes_of),
            ("--references", count_of("references", references)),
            ("--seed", None if seed is None else seed_of(seed)),
            ("--limit", number),
        ):
            words += [name, str(value)] if value is not None else []
        # Programs may end as they like, and a server is ended by a signal.
        _command.run(words, statuses=(0,) if self.type == "kernel" else [*range(125), *range(131, 256)])
        return Trace(output)


class Workloads(Sequence[WorkloadEntry]):
    """The catalogue. `workloads()["redis"]` is one entry, by its name or number; `"redis" in workloads()` asks."""

    def __init__(self, entries: Sequence[Dict[str, Any]]) -> None:
        self._entries = [WorkloadEntry(entry) for entry in entries]

    def keys(self) -> List[str]:
        """All names."""
        return [entry.name for entry in self._entries]

    @overload
    def __getitem__(self, which: "int | str") -> WorkloadEntry: ...
    @overload
    def __getitem__(self, which: slice) -> List[WorkloadEntry]: ...
    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._entries[which]
        for entry in self._entries:
            if which in (entry.name, entry.name.partition("/")[2]):
                return entry
        near = difflib.get_close_matches(which, [name.partition("/")[2] or name for name in self.keys()], 3)
        like = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self.keys())}"
        raise KeyError(f"no workload {which!r}; {like}")

    def __contains__(self, which: object) -> bool:
        return which in self.keys() or f"kernel/{which}" in self.keys()

    def __len__(self) -> int:
        return len(self._entries)

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each workload."""
        return frame([flat(entry.to_dict()) for entry in self._entries])

    def __repr__(self) -> str:
        return f"<Workloads: {len(self)}, {sum(entry.installed for entry in self)} of them installed>"


def workloads() -> Workloads:
    """The catalogue of workloads: what `farreach workloads` lists.

    >>> workloads()["gups"].type
    'kernel'
    """
    return Workloads(json.loads(_command.run(["workloads", "--json"]))["workloads"])
