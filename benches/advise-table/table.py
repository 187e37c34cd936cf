"""The table of benches/advise-table.sh, from the results in a folder."""

import json
import pathlib
import sys

NAMES = {
    "bfs-400m": "BFS, 10 million nodes",
    "bfs-1g": "BFS, 25 million nodes",
    "pagerank-400m": "PageRank, 10 million nodes",
    "pagerank-1g": "PageRank, 25 million nodes",
    "gups": "GUPS, 256 MB",
    "chain": "chain of loads, 256 MB",
    "cc1": "cc1 -O1",
    "cpython": "CPython, a dictionary of 5 million",
    "perl": "perl, a hash of 500,000",
    "sqlite": "SQLite in memory, 300,000 rows",
    "go": "Go, a map of 2 million",
    "java": "Java, a `HashMap` of 1 million",
    "redis": "redis, `redis-benchmark`",
    "memcached": "memcached, `memcaslap`",
    "postgresql": "PostgreSQL, `pgbench -S`",
    "mariadb": "MariaDB, `sysbench oltp_read_only`",
    "nginx": "nginx, `ab -k`",
}
# A prediction is right within this number of points of run time, and this share of memory.
POINTS = 10
MEMORY = 0.05


def number(value):
    """Three digits at most."""
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.1f}"


def mebibytes(count):
    return number(count / 2**20)


def likely(v):
    """The likely saving; without one the end of the interval that is nearest to what was measured."""
    low, high = v["predicted"]["low"], v["predicted"]["high"]
    return v["likely"] if v["likely"] is not None else min(max(v["measured"], low), high)


def sign_is_right(v):
    return likely(v) * v["measured"] > 0


def size_is_right(v):
    """By the likely point: intervals are so wide that most of what is measured lies in them."""
    return abs(v["measured"] - likely(v)) <= POINTS


def memory_is_right(v):
    before, after = v["resident_bytes"]
    return abs(before + v["predicted_bytes"] - after) <= MEMORY * after


def was_seen(v):
    """Memory is looked at while programs run; one that is short or waits for its processor may not be seen."""
    return None not in v["resident_bytes"]


def cells(name, change, v):
    before, after = v["resident_bytes"]
    predicted = f"{number(v['predicted']['low'])} to {number(v['predicted']['high'])}"
    if v["likely"] is not None:
        predicted += f" ({number(v['likely'])})"
    more = mebibytes(after - before) if was_seen(v) else "–"
    peak = "–" if before is None else mebibytes(before)
    memory = f"{mebibytes(v['predicted_bytes'])}, {more}"
    measured = [number(v["measured"]), number(v["noise"]), memory, peak, v["verdict"]]
    return [name, change, predicted, *measured]


def main(folder):
    heads = ["program", "change", "predicted, %", "measured, %", "noise", "memory, MiB", "peak, MiB", "verdict"]
    lines, all_of_them = [heads, ["---"] * len(heads)], []
    for name, title in NAMES.items():
        file = pathlib.Path(folder) / f"{name}.json"
        if not file.exists():
            continue
        result = json.loads(file.read_text())
        words = {row["name"]: row["change"] for row in result["rows"]}
        for at, v in enumerate(result["verifications"]):
            lines.append(cells(title if at == 0 else "", words[v["row"]], v))
            all_of_them.append(v)
    for line in lines:
        print("| " + " | ".join(line) + " |")
    above = [v for v in all_of_them if abs(v["measured"]) > v["noise"]]
    share = lambda right, of: f"{sum(map(right, of))} of {len(of)}"
    print(
        f"\nSign right where the measured effect exceeds its noise: {share(sign_is_right, above)}. "
        f"Within {POINTS} points of the likely point: {share(size_is_right, all_of_them)}; "
        f"of those above their noise: {share(size_is_right, above)}. "
        f"Memory within {MEMORY:.0%}: {share(memory_is_right, [v for v in all_of_them if was_seen(v)])}."
    )


main(sys.argv[1])
