"""`farreach papers --on PLACE`: the passes of the papers' tables and figures, run by Dask.

The command plans and shows; Dask runs. What a study finds may ask for more, so the command is asked for missing passes
until there are none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import List

from .. import _command, _core
from ..errors import Error
from . import cluster
from .runner import Runner

__all__ = ["command"]


def command(words: List[str]) -> int:
    """Runs `farreach papers` with these words, one of which is `--on`. Returns its exit status."""
    at = words.index("--on")
    on, rest = words[at + 1], words[:at] + words[at + 2 :]
    cluster.check(on)
    with cluster.Place(on) as place:
        return _rounds(place, rest)


def _rounds(place: cluster.Place, rest: List[str]) -> int:
    while True:
        # What it records meanwhile it says itself.
        line = [_command.command(), "papers", *rest, "--plan", str(cluster.workers_of(place.on))]
        done = _command.start(line, stdout=subprocess.PIPE)
        if done.returncode:
            return done.returncode
        planned = json.loads(done.stdout)
        if planned["model"] != _core.model():
            raise Error(
                f"{line[0]} and the package farreach of {sys.executable} were built from different sources: "
                f"model {planned['model'][:12]} and {_core.model()[:12]}"
            )
        if not planned["passes"]:
            return _command.start([_command.command(), "papers", *rest]).returncode
        runner = Runner(_core.Cache(planned["cache"]), place)
        failed = runner.run([json.dumps(one) for one in planned["passes"]])
        for message in dict.fromkeys(failed.values()):
            print(f"farreach: {message}", file=sys.stderr)
        if failed:
            return 1
