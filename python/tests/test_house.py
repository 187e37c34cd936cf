"""The house: modules import those below them and nothing else, as the crates do."""

import ast
from pathlib import Path

import farreach

#: From the ground up. A module may import those above its line in this list; those of one line know nothing of each
#: other.
FLOORS = [
    ["_core", "errors"],
    ["messages", "extras", "quantities", "records", "tlb"],
    ["_command", "frames", "aggregate", "machine", "trace"],
    ["catalogue", "conformance", "plots.base"],
    ["plots.observe", "plots.page", "plots.pagesize", "plots.papers", "plots.run"],
    ["plots.sweep"],
    ["plots"],
    ["result", "paper"],
    ["observe", "study"],
    ["repeats", "sweeps.files", "sweeps.toml", "sweeps.quiet"],
    ["sweeps.expressions", "sweeps.host"],
    ["sweeps.grid"],
    ["sweeps.tables"],
    ["sweeps.experiment"],
    ["sweeps.cluster", "sweeps.programs"],
    ["sweeps.worker", "sweeps.table"],
    ["sweeps.runner"],
    ["sweeps.points", "sweeps.papers"],
    ["sweeps.prepare"],
    ["sweeps.search"],
    ["sweeps.api"],
    ["sweeps"],
    ["command"],
    ["__main__"],
]
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
ROOT = Path(farreach.__file__).parent


def modules():
    """Every module by its name, with its file."""
    for file in sorted(ROOT.rglob("*.py*")):
        if file.suffix not in (".py", ".pyi") or file == ROOT / "__init__.py":
            continue
        parts = file.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def imported(name, file):
    """Modules of the package that a module imports, anywhere in it, also for types alone."""
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)] + (node.module.split(".") if node.module else [])
            for one in node.names:
                whole = ".".join([*base, one.name])
                yield whole if whole in FLOOR else ".".join(base)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            for one in names:
                assert one.split(".")[0] != "farreach", f"{name} imports {one} by its full name"


def test_modules_import_those_below_them():
    faults = []
    for name, file in modules():
        assert name in FLOOR, f"{name} is on no floor"
        for other in imported(name, file):
            assert other in FLOOR, f"{name} imports {other!r}, which is no module"
            if FLOOR[other] >= FLOOR[name]:
                faults.append(f"{name} imports {other}")
    assert not faults, "\n".join(faults)


def test_every_module_of_the_list_is_there():
    assert set(FLOOR) == {name for name, _ in modules()}


def test_the_check_sees_imports_in_functions_and_for_types(tmp_path):
    file = tmp_path / "table.py"
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..plots import SweepPlots\n"
    file.write_text(text + "def late():\n    from . import api\n    from ..study import run\n")
    assert set(imported("sweeps.table", file)) == {"plots", "sweeps.api", "study"}
