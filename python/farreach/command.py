"""`farreach sweep`: the command line of what is written in Python. The farreach command hands over to it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, List, Optional

from .errors import Error
from .messages import shown


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="farreach sweep",
        description="Run many machines over many programs: an experiment, described in TOML. Results are kept; what "
        "was run once is not run again, and an interrupted sweep goes on where it stopped.",
        epilog="""examples:
  farreach sweep sizes.toml --dry-run                  points, passes, estimated time and disk
  farreach sweep sizes.toml --on local:4               on four processes here
  farreach sweep sizes.toml --on tls://scheduler:8786  on a Dask cluster
  farreach sweep sizes.toml --on slurm.toml            on a batch system
  farreach sweep report sizes.sweep --html sizes.html  pictures of a table
exit status: 0; 1 if something failed; 2 if the experiment is refused; 3 if single points failed; 130 interrupted""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiment", metavar="EXPERIMENT.toml", help="what to run")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder of the table; default: the experiment's name and .sweep"
    )
    parser.add_argument(
        "--on",
        metavar="PLACE",
        default="local",
        help="local, local:N, tls://HOST:PORT, tcp://HOST:PORT or FILE.toml; default: local",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument(
        "--cache", metavar="DIR", help="where results are kept; default: farreach/sweep in the user's cache directory"
    )
    parser.add_argument("--memory", metavar="SIZE", help="most memory of a worker, such as 8G")
    parser.add_argument(
        "--dashboard",
        action="store_true",
        help="show Dask's dashboard, with --on local: on 127.0.0.1, where every user of this machine can read it",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _report(words: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="farreach sweep report",
        description="Pictures of the table of a sweep.",
        epilog="example: farreach sweep report sizes.sweep --html sizes.html",
    )
    parser.add_argument("folder", metavar="DIR", help="what farreach sweep wrote")
    parser.add_argument("--html", metavar="FILE", required=True, help="the page to write")
    args = parser.parse_args(words)
    from .sweeps import Sweep

    page = Sweep.load(args.folder).plot.report()
    Path(args.html).write_text(page, encoding="utf-8")
    print(f"farreach: report in {args.html}", file=sys.stderr)
    return 0


def _sweep(words: List[str]) -> int:
    if words[:1] == ["report"]:
        return _report(words[1:])
    args = _parser().parse_args(words)
    from .sweeps import plan, sweep

    if args.dry_run:
        print(plan(args.experiment, on=args.on, cache=args.cache))
        return 0
    experiment = _loaded(args.experiment, args.output)
    table = sweep(
        experiment, on=args.on, cache=args.cache, memory=args.memory, dashboard=args.dashboard, quiet=args.quiet
    )
    folder = table.save(args.output or f"{table.about['name']}.sweep")
    print(f"{folder}: {len(table.frame):,} points", file=sys.stderr)
    for failure in table.failures:
        named = ", ".join(f"{key} {failure[key]}" for key in ("program", "machine", "limit", "seed"))
        print(f"farreach: failed: {named}: {failure['message']}", file=sys.stderr)
    return 3 if table.failures else 0


def _loaded(file: str, output: Optional[str]) -> Any:
    """The experiment. Where its table cannot go is said now, together with all else that is wrong."""
    from .sweeps import load

    experiment = load(file)
    folder = Path(output or f"{experiment.name}.sweep")
    if output is not None and not output:
        experiment.faults.append("--output: an empty name is not allowed")
    there = next((place for place in [folder, *folder.absolute().parents] if os.path.lexists(place)), Path("/"))
    if not there.is_dir():
        experiment.faults.append(f"--output {folder}: {there} is no folder")
    elif not os.access(there, os.W_OK | os.X_OK):
        experiment.faults.append(f"--output {folder}: {there} cannot be written")
    return experiment


def main(words: Optional[List[str]] = None) -> int:
    """Runs a command; returns the exit status."""
    given = sys.argv[1:] if words is None else words
    commands: dict[str, Any] = {"sweep": _sweep, "papers": _papers}
    if not given or given[0] not in commands:
        print(
            f"farreach: {', '.join(commands)} are the commands of `python -m farreach`; all others are of `farreach`",
            file=sys.stderr,
        )
        return 2
    try:
        with shown(always=True):
            status = int(commands[given[0]](given[1:]))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as error:
        kept = f"{error}" or "what is done is kept, and the same command goes on from there"
        print(f"farreach: interrupted: {kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Who reads has seen enough: `--dry-run | head`. The rest must not be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (Error, ImportError, OSError, ValueError) as error:
        for line in str(error).splitlines():
            print(f"farreach: {line}", file=sys.stderr)
        return 2 if type(error).__name__ == "ExperimentError" else 1


def _papers(words: List[str]) -> int:
    from .sweeps.papers import command

    return command(words)
