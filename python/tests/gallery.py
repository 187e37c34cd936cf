"""A page with every picture, from fixed data: `python gallery.py gallery.html` writes it, to be looked at wide and
narrow, light and dark."""

import sys

import farreach

#: Sizes of a sweep, and how misses fall with them.
PROGRAMS = {"gcc -O2 -c reload.c": 1.0, "workload:join:size=256M": 40.0, "postgres: select": 6.5}


def sweep_rows():
    rows = []
    for program, weight in PROGRAMS.items():
        for kind, keys, factor in (
            ("single", [{}], 1.0),
            ("partial", [{"factor": 4}, {"factor": 16}], 0.35),
            ("superpage", [{"promote": "half"}, {"promote": "full"}], 0.2),
        ):
            for key in keys:
                for i, entries in enumerate((16, 32, 64, 128, 256)):
                    better = factor * 4.0 / key.get("factor", 4)
                    misses = int(weight * 40_000 * better / 4**i) + 3
                    shown = "".join(f",{name}={value}" for name, value in key.items())
                    row = {
                        "program": program,
                        "machine": f"t94/{kind}:entries={entries}{shown}",
                        "limit": 100_000_000,
                        "seed": 0,
                        "misses": misses,
                        "area_rbe": entries * (120.0 + 7.0 * key.get("factor", 0)) + 400,
                        "resident_bytes": int((6 << 20) * weight * (1 + 0.3 * (kind == "superpage"))),
                        "config.kind": kind,
                        "config.entries": entries,
                    }
                    rows.append({**row, **{f"config.{name}": value for name, value in key.items()}})
    rows += [
        {**row, "machine": "today/x86-64-2m with a long name", "area_rbe": None, "config.entries": None}
        for row in rows[::25]
    ]
    return rows


def sweep():
    failed = {"program": "gcc", "machine": "t94/complete", "limit": None, "seed": 0, "message": "the memory is full"}
    return farreach.Sweep(sweep_rows(), [failed], {"name": "gallery"})


def result():
    """A kernel is the same every time."""
    machines = ["t94", "ds13"]
    return farreach.simulate("workload:join:references=200K", machines, limit="2M")


def _column(name, origin, unit):
    return {"name": name, "origin": origin, "unit": unit}


def papers():
    """Tables and figures as the papers have them, with numbers made up."""
    names = ["coral", "nasa7", "compress", "fftpde", "wave5", "a program with a long name (cactusADM)"]
    sizes = ["32", "64", "128", "256"]
    columns = [
        _column(size + " entries", origin, unit)
        for size in sizes
        for origin, unit in (("measured", "misses"), ("measured", "%"), ("printed", "%"))
    ]
    rows = [
        {
            "name": name,
            "command": "",
            "cells": [
                cell for j in range(4) for cell in (int(9e5 / 7**j) + i, 100.0 / (i + 1) / 3**j, 90.0 / (i + 1) / 2**j)
            ],
        }
        for i, name in enumerate(names)
    ]
    table = {
        "title": "single: misses, and in percent of the 64-entry single-page-size TLB",
        "rows_are": "program",
        "command": "",
        "columns": columns,
        "rows": rows,
    }
    places = ["4K", "4K+8K", "4K+16K", "4K+32K", "4K+64K"]
    figure = {
        "title": "Misses by superpage size, 64 entries",
        "x": "superpage size",
        "places": places,
        "y": "misses, single page size = 1",
        "series": [{"name": name, "values": [1.0 / (1 + i) ** j for j in range(5)]} for i, name in enumerate(names)],
    }
    overhead = {
        "title": "Overhead of page walks",
        "x": "program",
        "places": names,
        "y": "% of the ideal run",
        "series": [
            {"name": name, "values": [75.0 / (1 + i * i) / (1 + j) for j in range(6)]}
            for i, name in enumerate(["4 KB", "clustered", "THP", "1 GB", "RMM"])
        ],
    }
    empty = {"rules": "", "verdicts": [], "notes": [], "tables": [], "charts": [], "bars": []}
    sections = [
        {**empty, "id": "t94-table9", "title": "Table 9", "tables": [table]},
        {**empty, "id": "t94-fig4", "title": "Figure 4", "charts": [figure]},
        {**empty, "id": "rmm15-fig6", "title": "Figure 6", "bars": [{"chart": overhead, "clip": 60.0}]},
    ]
    return farreach.PapersResult({"schema": "farreach.papers/1", "set": "small", "programs": [], "sections": sections})


def charts():
    """Every picture by its name."""
    table, run, tables = sweep(), result(), papers()
    pages = farreach.pagesize("workload:join:references=200K", machines=())
    where = {"config.kind": "partial"}
    return {
        "Result: misses": run.plot.misses(),
        "Result: misses by area": run.plot.misses_by_area(),
        "Result: memory": run.plot.memory(),
        "Result: timeline": run.plot.timeline(),
        "Page sizes: tradeoff": pages.plot.tradeoff(),
        "Sweep: lines": table.plot.lines("config.entries"),
        "Sweep: lines, a facet for each program": table.plot.lines("config.entries", facet="program"),
        "Sweep: Pareto front": table.plot.pareto(),
        "Sweep: memory": table.plot.memory(),
        "Sweep: heat map": table.plot.heatmap("config.entries", "config.factor", where=where),
        "Sweep: heat maps": table.plot.heatmap(
            "config.entries", "program", where={"config.kind": ["single", "partial"]}
        ),
        "Papers: a table": tables.plot.compare("t94-table9"),
        "Papers: a figure of lines": tables.plot.figure("t94-fig4"),
        "Papers: a figure of bars": tables.plot.figure("rmm15-fig6"),
    }


def main(file):
    from farreach.plots import page

    text = page("Gallery", "Every picture, from fixed data", charts())
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
