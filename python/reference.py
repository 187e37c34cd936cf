"""Prints the book's reference of the Python package, made from its docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import textwrap
from typing import Any, List

import farreach

GROUPS = [
    ("Running", ["run", "repeat", "record", "simulate", "pagesize", "papers", "atlas"]),
    ("On this machine", ["trap", "watch", "advise", "contiguity"]),
    ("Workloads", ["workloads", "Workloads", "WorkloadEntry"]),
    ("Machines", ["Machine", "machines", "area"]),
    ("Traces and arrays", ["Trace", "TraceWriter", "Batch", "Event", "Words", "formats"]),
    ("Designs in Python", ["Tlb", "Pte", "check", "Checked"]),
    (
        "Results",
        [
            "Result",
            "MachineResult",
            "PageSizeResult",
            "ContiguityResult",
            "AdviceResult",
            "WatchResult",
            "PapersResult",
            "Repeats",
            "Record",
        ],
    ),
    ("Sweeps", ["sweep", "plan", "Plan", "Experiment", "Grid", "Sweep"]),
    (
        "Errors",
        [
            "Error",
            "MachineError",
            "ConformanceError",
            "TraceError",
            "SimulationError",
            "WorkloadError",
            "ExperimentError",
            "CommandError",
            "MissingExtra",
        ],
    ),
]
PICTURES = ["ResultPlots", "PageSizePlots", "SweepPlots", "PapersPlots", "AdvicePlots", "WatchPlots"]
CONSTANTS = ["FETCH", "LOAD", "STORE", "HIT", "MISS", "SUBBLOCK_MISS", "FILTERABLE"]
_SECTION = re.compile(r"^(Args|Returns|Raises):$")


def signature(thing: Any) -> str:
    """The parameters, without annotations: the text has them."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "()"
    plain = [p.replace(annotation=p.empty) for p in parameters if p.name != "self"]
    return str(inspect.Signature(plain))


def prose(text: str) -> List[str]:
    """A docstring as Markdown: sections become lists, examples blocks of code."""
    out: List[str] = []
    item = ""
    listed = example = False

    def end() -> None:
        nonlocal item
        if item:
            out.append(item)
        item = ""

    for line in inspect.cleandoc(text).splitlines():
        head = _SECTION.match(line)
        if example and (not line.strip() or not line.startswith((">>>", "...")) and not line.strip()):
            out.append("```")
            example = False
        if line.startswith(">>>") and not example:
            end()
            out += ["```python"]
            example = True
        if example:
            out.append(line)
        elif head:
            end()
            listed = True
            out += [f"*{head[1]}:*", ""]
        elif listed and line.startswith("    ") and not line.startswith("        "):
            end()
            name, colon, rest = line.strip().partition(": ")
            item = f"* `{name}`: {rest}" if colon and " " not in name.replace(", ", "") else f"* {line.strip()}"
        elif listed and line.startswith("        "):
            item += " " + line.strip()
        else:
            end()
            listed = listed and not line.strip()
            out.append(line)
    end()
    if example:
        out.append("```")
    return out


def wrapped(lines: List[str]) -> List[str]:
    """Lists and paragraphs in lines of at most 120 characters."""
    out: List[str] = []
    code = False
    for line in lines:
        code ^= line.startswith("```")
        if code or len(line) <= 118:
            out.append(line.rstrip())
        else:
            out += textwrap.wrap(line, 118, subsequent_indent="  " * line.startswith("* "), break_long_words=False)
    return out


def entry(name: str, thing: Any, level: int = 3) -> List[str]:
    """A function, or a class with its members."""
    called = "" if isinstance(thing, property) else signature(thing)
    lines = [f"{'#' * level} `{name}`", ""]
    if called:
        lines += textwrap.wrap(f"`{name}{called}`", 118, subsequent_indent="  ", break_on_hyphens=False) + [""]
    lines += prose(inspect.getdoc(thing) or "") + [""]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if member.startswith("_") or not (
                inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))
            ):
                continue
            shown = value if isinstance(value, property) else getattr(thing, member)
            lines += entry(f"{name.split('.')[-1]}.{member}", shown, level + 1)
    return lines


def constants() -> List[str]:
    """The numbers that stand for kinds and answers, with the comments above them."""
    source = inspect.getsource(sys.modules["farreach.tlb"])
    lines = ["| constant | value | meaning |", "|---|---|---|"]
    for name in CONSTANTS:
        comment = re.search(rf"#: ([^\n]*)\n{name} = ", source)
        assert comment, name
        lines.append(f"| `{name}` | {getattr(farreach, name)} | {comment[1]} |")
    return lines + [""]


def main() -> str:
    """The page."""
    listed = {name for _, names in GROUPS for name in names} | set(CONSTANTS) | {"__version__"}
    missing = sorted(set(farreach.__all__) - listed)
    assert not missing, f"not in the reference: {missing}"
    lines = ["<!-- Printed by python/reference.py. -->", "# Python reference", ""]
    lines += ["All names are in the module `farreach`. [Python](../guide/python.md) shows how they go together.", ""]
    for group, names in GROUPS:
        lines += [f"## {group}", ""]
        if group == "Results":
            lines += entry("Reported", sys.modules["farreach.result"].Reported)
        for name in names:
            lines += entry(name, getattr(farreach, name))
        if group == "Designs in Python":
            lines += constants()
        if group == "Results":
            lines += ["## Pictures", "", "`plot` of a result, or of the table of a sweep, is one of these.", ""]
            for name in PICTURES:
                lines += entry(name, getattr(importlib.import_module("farreach.plots"), name))
    text = "\n".join(wrapped(lines))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


if __name__ == "__main__":
    print(main(), end="")
