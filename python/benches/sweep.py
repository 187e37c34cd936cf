"""What Dask costs: the passes of a sweep against a shell loop of `farreach sim`, and two workers against one.

    python python/benches/sweep.py [--references 300M] [--rounds 2] [--dir DIR]

64 machines on 4 traces, which are made first. All ways take turns. Time is CPU time, of all processes and of threads
that read traces, since on a machine that others use the clock on the wall tells about those; wall time is printed
beside it. What is printed is ratios, of the medians over all rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, Tuple

from farreach import _command
from farreach.sweeps import WIDTH

ENTRIES = list(range(8, 72))
PROGRAMS = 4


def cpu() -> float:
    """User and system time of this process and of its children that have ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def command(*words: str) -> None:
    subprocess.run([_command.command(), *words], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def traces(folder: Path, references: str) -> List[str]:
    files = [str(folder / f"{seed}.frt") for seed in range(PROGRAMS)]
    for seed, file in enumerate(files):
        command("workloads", "compiler", "--trace", "-o", file, "--references", references, "--seed", str(seed))
    return files


def loop(files: List[str], folder: Path) -> None:
    """The passes as a person would run them: one after the other, 32 machines each."""
    for file in files:
        for first in range(0, len(ENTRIES), WIDTH):
            words = [w for n in ENTRIES[first : first + WIDTH] for w in ("-m", f"t94/single:entries={n}")]
            command("sim", file, "--threads", "1", "--json", "-o", str(folder / "sim.json"), *words)


def sweep(files: List[str], folder: Path, on: str, entries: List[int] = ENTRIES) -> None:
    """In a process of its own, as the loop's: what it imports counts."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    programs = "".join(f"[[program]]\ntrace = {json.dumps(file)}\n" for file in files)
    experiment = folder / "bench.toml"
    experiment.write_text(f'{programs}[[machine]]\nname = "t94/single"\ngrid.entries = {entries}\n')
    command(
        *("sweep", str(experiment), "--on", on, "--cache", str(folder / "cache"), "-o", str(folder / "out"), "--quiet")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", default="300M", help="of each trace")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dir", help="where traces are kept for the next time")
    args = parser.parse_args()
    folder = Path(args.dir or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    files = traces(folder, args.references)
    tiny = folder / "tiny.frt"
    command("workloads", "gups", "--trace", "-o", str(tiny), "--references", "1K", "--size", "1M")
    ways: Dict[str, Callable[[], None]] = {
        "loop": lambda: loop(files, folder),
        "one": lambda: sweep(files, folder, "local:1"),
        "two": lambda: sweep(files, folder, "local:2"),
        "start": lambda: sweep([str(tiny)], folder, "local:1", [8]),
    }
    times: Dict[str, List[Tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, way in ways.items():
            began, wall = cpu(), time.perf_counter()
            way()
            times[name].append((cpu() - began, time.perf_counter() - wall))
    median = {name: [statistics.median(column) for column in zip(*taken)] for name, taken in times.items()}
    passes = PROGRAMS * -(-len(ENTRIES) // WIDTH)
    print(f"{PROGRAMS} traces of {args.references}, {len(ENTRIES)} machines, {passes} passes; {args.rounds} rounds")
    print(f"{'':44}{'CPU':>8}{'wall':>8}")
    for what, over, under in (
        ("a sweep with one worker : loop of sim", "one", "loop"),
        ("two workers : one worker", "two", "one"),
        ("imports, starting and ending : loop of sim", "start", "loop"),
    ):
        ratio = [a / b for a, b in zip(median[over], median[under])]
        print(f"{what:44}{ratio[0]:>8.3f}{ratio[1]:>8.3f}")
    rest = (median["one"][0] - median["start"][0]) / median["loop"][0]
    print(f"{'the first without the third':44}{rest:>8.3f}")
    print(f"{'throughput per core used, two : one':44}{median['one'][0] / median['two'][0]:>8.3f}")
    if args.dir is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
