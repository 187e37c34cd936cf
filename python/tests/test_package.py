"""The package as such: documentation, types, examples."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import farreach

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(farreach.__path__, "farreach.")
    if not name.endswith(("_core", "__main__"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if "sweeps" in name:
        pytest.importorskip("distributed")
    if "plots" in name:
        pytest.importorskip("altair")
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_everything_public_is_documented():
    bare = []
    for name in farreach.__all__:
        thing = getattr(farreach, name)
        if inspect.isclass(thing):
            bare += [name] * (not thing.__doc__)
            for member, value in vars(thing).items():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    bare += [f"{name}.{member}"] * (not inspect.getdoc(getattr(thing, member)))
        elif callable(thing):
            bare += [name] * (not thing.__doc__)
    assert bare == []


def test_the_reference_is_up_to_date():
    """`make python-reference` writes it."""
    pytest.importorskip("altair")  # pictures are in it
    root = Path(__file__).resolve().parents[2]
    if not (root / "python" / "reference.py").exists():
        pytest.skip("the tests are not in a clone")
    sys.path.insert(0, str(root / "python"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    assert reference.main() == (root / "docs/book/src/reference/python.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_types(tmp_path):
    pytest.importorskip("mypy")
    example = tmp_path / "example.py"
    example.write_text(
        """import numpy as np
import farreach
from farreach import FILTERABLE, HIT, MISS, Machine, Pte, Tlb, Trace


class Mine(Tlb):
    def __init__(self, entries: int = 4) -> None:
        self.pages: dict[tuple[int, int], int] = {}

    def access(self, asid: int, vpn: int, kind: int, pte: Pte) -> int:
        hit = (asid, vpn) in self.pages
        self.pages[asid, vpn] = pte.pfn
        return (HIT if hit else MISS) | FILTERABLE

    def invalidate(self, asid: int, start: int, stop: int) -> None:
        self.pages.clear()


def most(trace: Trace) -> int:
    return max(int(np.max(batch.address)) for batch in trace)


result: farreach.Result = farreach.simulate("x.frt", [Machine("t94/single", entries=3), "t94/partial", Mine])
misses: int = result[0].counts.misses
area: float | None = result["t94/partial"].cost.area_rbe
table: farreach.Sweep = farreach.sweep(programs=["x.frt"], machines=["t94/single"])
one: farreach.Sweep = farreach.sweep(programs="x.frt", machines=Machine("t94/single"), seeds=np.arange(3), limits="1M")
loaded: farreach.Result = farreach.Result.load("x.json")
there: bool = "t94/single" in result
names: list[str] = result.keys()
spread: float = farreach.repeat("true", machines="t94", times=3).confidence
farreach.simulate(np.arange(0, 1 << 20, 64, dtype=np.uint64), "t94/single")
farreach.simulate({"address": np.zeros(4, np.uint64), "size": 8}, Machine("t94/single").with_(entries=8, split=True))
farreach.record("sort", "s.frt", stdin="in", stdout="out")
farreach.papers("t94-fig2").plot.figure("t94-fig2").save("x.svg")
"""
    )
    assert mypy(example).returncode == 0, mypy(example).stdout
    # Each of these lines is wrong, and no other.
    wrong = """farreach.simulate("x.frt", 3)
farreach.simulate(3, "t94/single")
farreach.simulate("x.frt", ["t94/single", 3.5])
farreach.run("ls", "t94/single", limits="1M")
farreach.Machine("t94/single", entries=None)
farreach.Machine("t94/single", entries={"from": 1})
farreach.sweep(programs="x.frt", machine="t94/single")
farreach.sweep(programs="x.frt", machines=3)
farreach.sweep(programs="x.frt", machines="t94/single", seeds="0")
farreach.record("ls", 3)
x: str = farreach.simulate("x.frt")[0].counts.misses
y: int = farreach.Result.load("x.json")
farreach.simulate("x.frt").plot.nothing()
farreach.repeat("ls", times="5")
farreach.pagesize("x.frt", sizes=[1.5])
""".splitlines()
    example.write_text("import farreach\n" + "\n".join(wrong) + "\n")
    found = {int(line.split(":")[1]) for line in mypy(example).stdout.splitlines() if ": error:" in line}
    assert [wrong[i] for i in range(len(wrong)) if i + 2 not in found] == []


def mypy(file):
    """What mypy says of a file."""
    line = [sys.executable, "-m", "mypy", "--strict", str(file)]
    return subprocess.run(line, capture_output=True, text=True, cwd=file.parent)


@pytest.mark.long
def test_types_are_those_of_the_package(tmp_path):
    """Of the compiled half its stubs, of the rest its own annotations: checked strictly, and against what is there."""
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    allowed.write_text(
        "# Arguments of what lru_cache wraps are unknown to its stub.\nfarreach\\._command\\._installed\n"
    )
    config = Path(__file__).resolve().parents[1] / "pyproject.toml"
    words = ["--mypy-config-file", str(config), "--allowlist", str(allowed)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "farreach", *words], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
