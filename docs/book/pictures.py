#!/usr/bin/env python3
"""Draws the picture of each paper from fixtures/papers/small.csv, and that of a measured TLB from fixtures/tlbs.

Usage: docs/book/pictures.py fixtures/papers/small.csv docs/book/src/papers
"""
import csv, json, math, pathlib, sys

SOURCE, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
ROWS = list(csv.DictReader(open(SOURCE)))
STYLE = """<style>
text{font:13px system-ui,sans-serif;fill:currentColor}.small{font-size:11px}.title{font-weight:600;font-size:14px}
.axis{stroke:currentColor;stroke-width:1}.grid{stroke:currentColor;stroke-opacity:.18;stroke-width:1}
.line{fill:none;stroke-width:2.2}.printed{fill:none;stroke:currentColor;stroke-width:1.6}
svg{color:#1b1b1b}.page{fill:#fff}
.bar.a,.dot.a{fill:#0072b2}.line.a{stroke:#0072b2}.bar.b,.dot.b{fill:#d55e00}
.line.b{stroke:#d55e00}.bar.c,.dot.c{fill:#009e73}.line.c{stroke:#009e73}\
.bar.d,.dot.d{fill:#9a5fb5}.line.d{stroke:#9a5fb5}
@media (prefers-color-scheme:dark){svg{color:#dcdcdc}.page{fill:#1e1e24}
.bar.a,.dot.a{fill:#56b4e9}.line.a{stroke:#56b4e9}.bar.b,.dot.b{fill:#e69f00}.line.b{stroke:#e69f00}\
.bar.c,.dot.c{fill:#2fc79a}.line.c{stroke:#2fc79a}.bar.d,.dot.d{fill:#c79bdc}.line.d{stroke:#c79bdc}}
</style>"""


def rows(study, table):
    """Rows of one table of one study whose name begins with `table`."""
    return [r for r in ROWS if r["study"] == study and r["table"].startswith(table)]


def number(text):
    try:
        return float(text.rstrip("?"))
    except ValueError:
        return None


class Picture:
    def __init__(self, width, height, title, about):
        self.width, self.height = width, height
        self.out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                    f'role="img" aria-label="{about}">',
                    f"<title>{about}</title>", STYLE,
                    f'<rect class="page" width="{width}" height="{height}" rx="6"/>']
        self.text(10, 20, title, "title")

    def text(self, x, y, text, kind="", anchor="start", turn=None):
        extra = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.out.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{extra}>{text}</text>')

    def add(self, text):
        self.out.append(text)

    def save(self, name):
        (OUT / name).write_text("\n".join(self.out) + "\n</svg>\n")

    def legend(self, x, y, names, step=150):
        for i, (kind, name) in enumerate(names):
            at = x + i * step
            self.add(f'<rect class="bar {kind}" x="{at}" y="{y - 10}" width="12" height="12"/>')
            self.text(at + 17, y, name)


class Axes:
    """A plot area with a vertical axis, linear or logarithmic, and a horizontal axis of categories."""

    def __init__(self, p, box, low, high, ticks, log=False, unit=""):
        self.p, (self.x0, self.y0, self.x1, self.y1), self.low, self.high, self.log = p, box, low, high, log
        for value, label in ticks:
            y = self.y(value)
            p.add(f'<line class="grid" x1="{self.x0}" x2="{self.x1}" y1="{y:.1f}" y2="{y:.1f}"/>')
            p.text(self.x0 - 6, y + 4, label, "small", "end")
        p.add(f'<line class="axis" x1="{self.x0}" x2="{self.x1}" y1="{self.y1}" y2="{self.y1}"/>')
        if unit:
            p.text(self.x0 - 6, self.y0 - 10, unit, "small", "start")

    def y(self, value):
        if self.log:
            value = min(max(value, self.low), self.high)
            share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.y1 - share * (self.y1 - self.y0)

    def line(self, kind, values):
        """A line through values at equal distances; None leaves a gap."""
        step = (self.x1 - self.x0) / (len(values) - 1)
        points = [(self.x0 + i * step, self.y(v)) for i, v in enumerate(values) if v is not None]
        self.p.add(f'<polyline class="line {kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        for x, y in points:
            self.p.add(f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')

    def categories(self, names):
        step = (self.x1 - self.x0) / (len(names) - 1)
        for i, name in enumerate(names):
            self.p.text(self.x0 + i * step, self.y1 + 16, name, "small", "middle")


PERCENT = [(v, f"{v} %") for v in (0, 25, 50, 75, 100)]


def t94():
    p = Picture(860, 360, "Misses in percent of the single-page-size TLB, 64 entries (bars: measured, rings: printed)",
                "TLB misses of three designs of T94 on ten kernels, measured and printed")
    designs = [("a", "superpage"), ("b", "partial"), ("c", "complete")]
    p.legend(60, 44, designs, 120)
    axes = Axes(p, (60, 70, 850, 290), 0, 110, PERCENT)
    table = rows("t94-table6", "Misses in percent")
    programs = list(dict.fromkeys(r["row"] for r in table))
    width = (axes.x1 - axes.x0) / len(programs)
    for i, program in enumerate(programs):
        for j, (kind, design) in enumerate(designs):
            x = axes.x0 + i * width + 8 + j * 20
            for r in table:
                value = number(r["value"])
                if r["row"] != program or not r["column"].startswith(design) or value is None:
                    continue
                if r["origin"] == "measured":
                    p.add(f'<rect class="bar {kind}" x="{x:.1f}" y="{axes.y(value):.1f}" width="17" '
                          f'height="{axes.y1 - axes.y(value):.1f}"/>')
                else:
                    p.add(f'<circle class="printed" cx="{x + 8.5:.1f}" cy="{axes.y(value):.1f}" r="4"/>')
        name, paper = program.rstrip(")").split(" (")
        p.text(axes.x0 + (i + .5) * width, 308, name, "small", "middle")
        p.text(axes.x0 + (i + .5) * width, 324, f"({paper})", "small", "middle")
    p.save("t94.svg")


def ps():
    sizes = ["4K", "8K", "16K", "32K", "64K", "128K", "256K"]
    p = Picture(860, 340, "By page size: misses left, and memory, against pages of 4 KB",
                "Data TLB misses that remain and memory that is needed by page size on four kernels")
    shown = [("a", "join"), ("b", "lzw"), ("c", "semispace"), ("d", "compiler")]
    p.legend(60, 44, shown, 110)
    misses = Axes(p, (60, 90, 420, 290), .00001, 1, [(10.0 ** -k, t) for k, t in
                  enumerate(["1", "0.1", "0.01", "0.001", "0.0001", "0.00001"])], True, "data TLB misses, 4 KB = 1")
    ticks = [(v, f"{v:.1f}") for v in (1, 1.2, 1.4, 1.6, 1.8)]
    memory = Axes(p, (490, 90, 850, 290), 1, 1.8, ticks, unit="memory, 4 KB = 1")
    for axes in (misses, memory):
        axes.categories(sizes)
    for kind, program in shown:
        for axes, study, table in ((misses, "ps-dtlb", "data TLB"), (memory, "ps-memory", "code and data")):
            found = {r["column"]: number(r["value"]) for r in rows(study, table) if r["row"] == program}
            axes.line(kind, [found.get(s) for s in sizes])
    p.save("ps.svg")


def sv97():
    sizes = ["1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K"]
    p = Picture(860, 340,
                "Overhead of software translation by size of the first-level cache (second level 512 KB a side)",
                "Cycles per instruction of software-managed translation by cache size and line size, kernel compiler")
    lines = [("a", "16"), ("b", "32"), ("c", "64"), ("d", "128")]
    p.legend(60, 44, [(k, f"lines of {n} bytes") for k, n in lines], 150)
    plots = (("compiler (gcc)", 60, .3, (0, .1, .2, .3)), ("semispace (li)", 490, 1.2, (0, .4, .8, 1.2)))
    for program, left, high, ticks in plots:
        axes = Axes(p, (left, 90, left + 360, 290), 0, high, [(v, f"{v:g}") for v in ticks], unit=f"CPI, {program}")
        axes.categories(sizes)
        table = rows("sv97-fig8", program)
        for kind, size in lines:
            found = {r["column"]: number(r["value"]) for r in table if r["row"] == f"512K, {size}"}
            axes.line(kind, [found.get(f"L1 {s}") for s in sizes])
    p.save("sv97.svg")


def ds13():
    p = Picture(860, 340, "Share of the time spent on data TLB misses, uniform random updates, by footprint",
                "Share of time in walks by footprint for three page sizes and a direct segment")
    kinds = [("a", "4 KB"), ("b", "2 MB"), ("c", "1 GB"), ("d", "direct segment")]
    p.legend(60, 44, kinds, 120)
    axes = Axes(p, (60, 70, 840, 290), 0, 80, [(v, f"{v} %") for v in (0, 20, 40, 60, 80)])
    table = rows("ds13-fig5", "Percent")
    sizes = list(dict.fromkeys(r["row"] for r in table))
    axes.categories(sizes)
    for kind, column in kinds:
        found = {r["row"]: number(r["value"]) for r in table if r["column"] == column}
        axes.line(kind, [found.get(s) for s in sizes])
    p.save("ds13.svg")


def rmm15():
    p = Picture(860, 360, "Overhead of page walks in percent of an ideal run (logarithmic)",
                "Overhead of page walks of four designs of RMM15 on kernels")
    designs = [("a", "4 KB"), ("b", "clustered"), ("c", "THP"), ("d", "RMM")]
    p.legend(60, 44, designs, 120)
    axes = Axes(p, (60, 70, 850, 290), .001, 1000, [(10.0 ** k, f"{10.0 ** k:g} %") for k in range(-3, 4)], True)
    table = rows("rmm15-fig6", "Percent")
    rows_ = [r for r in dict.fromkeys(r["row"] for r in table) if not r.startswith("mean")]
    # A kernel that stands for two programs is shown once.
    programs = list({r.split(" (")[0]: r for r in reversed(rows_)}.values())[::-1]
    width = (axes.x1 - axes.x0) / len(programs)
    for i, program in enumerate(programs):
        for j, (kind, design) in enumerate(designs):
            found = [number(r["value"]) for r in table
                     if r["row"] == program and r["column"] == design and r["origin"] == "measured"]
            if found and found[0] is not None:
                x, y = axes.x0 + i * width + 4 + j * 12, axes.y(max(found[0], .001))
                p.add(f'<rect class="bar {kind}" x="{x:.1f}" y="{y:.1f}" width="10" '
                      f'height="{max(axes.y1 - y, 1):.1f}"/>')
        name, paper = program.rstrip(")").split(" (")
        p.text(axes.x0 + (i + .6) * width, 306, name, "small", "end", -35)
    p.save("rmm15.svg")


def since():
    p = Picture(860, 650, "Designs since 2000 in percent of the machine without them (longer bars end at 150 %)",
                "Walks, references and cycles of designs since 2000, against the machine without them")
    kinds = [("a", "walks"), ("b", "references waited for, not hidden"), ("c", "cycles")]
    p.legend(60, 44, [kinds[0]], 130)
    p.legend(140, 44, [kinds[1]], 130)
    p.legend(380, 44, [kinds[2]], 130)
    found = {(r["row"], r["column"]): number(r["value"]) for r in rows("since-designs", "In percent of the machine")}
    designs = list(dict.fromkeys(row for row, _ in found))
    half = (len(designs) + 1) // 2
    for top, part in ((70, designs[:half]), (355, designs[half:])):
        axes = Axes(p, (60, top, 850, top + 200), 0, 150, [(v, f"{v} %") for v in (0, 50, 100, 150)])
        width = (axes.x1 - axes.x0) / half
        for i, design in enumerate(part):
            walks, waited, hidden, cycles = (
                found[design, c] for c in ("walks", "references waited for", "of these hidden", "cycles"))
            for j, value in enumerate((walks, waited * (1 - hidden / 100), cycles)):
                x, y = axes.x0 + i * width + 2 + j * 8, axes.y(value)
                p.add(f'<rect class="bar {kinds[j][0]}" x="{x:.1f}" y="{y:.1f}" width="7" '
                      f'height="{max(axes.y1 - y, 1):.1f}"/>')
            p.text(axes.x0 + (i + .7) * width, axes.y1 + 14, design, "small", "end", -40)
    p.save("since.svg")


def tlbs():
    """Cycles of translation by pages of a chain, as `farreach machines --this --measure --json` has them."""
    found = json.load(open(pathlib.Path(SOURCE).parent.parent / "tlbs" / "granite-rapids-vm.json"))
    p = Picture(860, 380, "Cycles that translation adds to a load, by pages of the chain (both logarithmic)",
                "Measured data TLB of a virtual machine on a Granite Rapids, with described entries and knees")
    names = {(4096, 1): "4 KB, side by side", (4096, 9): "4 KB, every 9th", (2 << 20, 1): "2 MB, side by side"}
    p.legend(60, 44, [(k, names[c["page_size"], c["stride_pages"]]) for k, c in zip("abc", found["curves"])], 170)
    axes = Axes(p, (60, 100, 840, 330), 1, 10000, [(10 ** k, f"{10 ** k:,}") for k in range(5)], True)
    most = max(point["pages"] for c in found["curves"] for point in c["points"])
    x = lambda pages: axes.x0 + (axes.x1 - axes.x0) * math.log(pages) / math.log(most)
    for pages in (1, 10, 100, 1000, 10000, 100000):
        p.add(f'<line class="grid" x1="{x(pages):.1f}" x2="{x(pages):.1f}" y1="{axes.y0}" y2="{axes.y1}"/>')
        p.text(x(pages), axes.y1 + 16, f"{pages:,}", "small", "middle")
    p.text(axes.x1, axes.y1 + 34, "pages of the chain; a cycle or less stands at 1", "small", "end")
    described = {}
    for knee in found["knees"]:
        if knee["described"]:
            described.setdefault(knee["described"], []).append(f"{knee['page_size'] >> 10:,} KB")
    for i, (entries, sizes) in enumerate(sorted(described.items())):
        y = 62 + 14 * (i % 2)
        p.add(f'<line class="axis" stroke-dasharray="4 3" x1="{x(entries):.1f}" x2="{x(entries):.1f}" y1="{y}" '
              f'y2="{axes.y1}"/>')
        size = ", ".join(dict.fromkeys(sizes)).replace("2,048 KB", "2 MB")
        p.text(x(entries) - 4, y + 6, f"{entries:,} described, {size}", "small", "end")
    for kind, curve in zip("abc", found["curves"]):
        points = " ".join(f"{x(o['pages']):.1f},{axes.y(o['cycles']):.1f}" for o in curve["points"])
        p.add(f'<polyline class="line {kind}" points="{points}"/>')
        for knee in found["knees"]:
            if (knee["page_size"], knee["stride_pages"]) == (curve["page_size"], curve["stride_pages"]):
                at = next(o for o in curve["points"] if o["pages"] == knee["entries"])
                p.add(f'<circle class="dot {kind}" cx="{x(at["pages"]):.1f}" cy="{axes.y(at["cycles"]):.1f}" r="4">'
                      f'<title>level {knee["level"]}: up to {knee["entries"]} pages</title></circle>')
    p.save("../guide/tlbs.svg")


OUT.mkdir(parents=True, exist_ok=True)
for draw in (t94, ps, sv97, ds13, rmm15, since, tlbs):
    draw()
