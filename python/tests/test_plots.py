"""Pictures: every one is made, and written in every form without a network."""

import json
import math
import subprocess

import pytest

import farreach
from farreach import Grid, _command

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    pytest.importorskip("distributed")
    grid = Grid("t94/partial", {"entries": [16, 32, 64], "factor": [4, 16]})
    return farreach.sweep(
        programs=["workload:join:references=30K", "workload:gups:size=1M,references=30K"],
        machines=[grid, "t94/single"],
        cache=tmp_path_factory.mktemp("cache"),
        on="local:1",
        quiet=True,
    )


def values(chart):
    """All data of a chart."""
    spec = json.loads(chart.to_json())
    return [row for rows in spec["datasets"].values() for row in rows]


def subtitle(chart):
    """What stands below the title of a chart."""
    return " ".join(chart.to_dict()["title"]["subtitle"])


def test_of_a_run(kernel, tmp_path):
    result = farreach.simulate(kernel, ["t94/single", "t94/partial", "t94/set-associative"])
    assert {row["machine"]: row["misses"] for row in values(result.plot.misses())} == {
        m.name: m.counts.misses for m in result
    }
    areas = result.plot.misses_by_area()
    assert len(values(areas)) == 2
    assert subtitle(areas) == "Not shown, because their area is not known: t94/set-associative"
    assert len(values(result.plot.memory())) == 3
    assert sum(row["misses"] for row in values(result.plot.timeline())) == sum(m.counts.misses for m in result)
    for form, head in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        file = tmp_path / f"p.{form}"
        result.plot.misses().save(file)
        assert file.read_bytes().startswith(head)
    assert len(values(farreach.pagesize(kernel, machines=()).plot.tradeoff())) == 10


def test_of_a_run_by_traps(tmp_path):
    """There are no lookups: misses are per second."""
    file = tmp_path / "trap.json"
    words = ["trap", "--json", "-o", str(file), "-m", "t94/single", "-m", "t94/partial", "--", "ls", "-R", "/usr/lib"]
    done = subprocess.run([_command.command(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if not file.exists():
        pytest.skip(done.stderr)
    result = farreach.Result.load(file)
    own = result.workload.traps.own_microseconds
    assert {row["machine"]: row["per second"] for row in values(result.plot.misses())} == {
        m.name: pytest.approx(1e6 * m.counts.misses / own) for m in result
    }
    assert all(math.isnan(m.misses_per_1000) for m in result)
    rows = values(result.plot.timeline())
    assert sum(row["misses"] for row in rows) == sum(m.counts.misses for m in result)
    seconds = sorted({row["seconds"] for row in rows})
    assert len(seconds) > 1 and seconds[-1] * 1e6 < result.workload.traps.microseconds
    whole = [row for row in rows if row["seconds"] < seconds[-1]]
    assert all(row["misses"] == pytest.approx(row["per second"] * seconds[1]) for row in whole)


def rows_of(misses, **keys):
    """Rows of a table: `misses` by program; the rest is the machine."""
    config = {f"config.{key}": value for key, value in keys.items() if key not in ("machine", "area_rbe", "seed")}
    return [
        {
            "program": program,
            "machine": keys["machine"],
            "limit": None,
            "seed": keys.get("seed", 0),
            "misses": value,
            "area_rbe": keys.get("area_rbe"),
            "resident_bytes": 1 << 20,
            **config,
        }
        for program, value in misses.items()
    ]


def known():
    """A table of which everything can be worked out by hand: partial has two points where single has one, and is better
    at both. Added up, it would look worse."""
    rows = rows_of({"a": 100, "b": 400}, machine="single", area_rbe=10.0, kind="single", entries=32)
    rows += rows_of({"a": 50, "b": 800}, machine="single-64", area_rbe=20.0, kind="single", entries=64)
    rows += rows_of({"a": 80, "b": 320}, machine="p4", area_rbe=12.0, kind="partial", entries=32, factor=4)
    rows += rows_of({"a": 20, "b": 80}, machine="p16", area_rbe=30.0, kind="partial", entries=32, factor=16)
    rows += rows_of({"a": 90, "b": 90}, machine="cache", kind="set", entries=128)
    return farreach.Sweep(rows, [], {"name": "known"})


def test_marks_are_means_and_never_sums():
    table = known()
    chart = table.plot.lines("config.entries")
    # Relative to single, the first: a and b, and the square root of their product.
    found = {(row["config.entries"], row["design"]): row["misses"] for row in values(chart)}
    assert found == {
        (32, "single"): 1.0,
        (64, "single"): pytest.approx(1.0),  # 0.5 and 2
        (32, "partial factor=4"): pytest.approx(0.8),
        (32, "partial factor=16"): pytest.approx(0.2),
        (128, "set"): pytest.approx(math.sqrt(0.9 * 0.225)),
    }
    axis = "misses relative to single, geometric mean over 2 programs"
    assert " ".join(chart.to_dict()["encoding"]["y"]["title"]) == axis
    chart = table.plot.lines("config.entries", mean="arithmetic")
    found = {(row["config.entries"], row["design"]): row["misses"] for row in values(chart)}
    assert found[32, "single"] == 250 and found[64, "single"] == 425 and found[32, "partial factor=16"] == 50
    assert " ".join(chart.to_dict()["encoding"]["y"]["title"]) == "misses, arithmetic mean over 2 programs"
    # Of one program each, they are the values.
    for chart in (
        table.plot.lines("config.entries", facet="program", where={"config.kind": "single"}),
        table.plot.lines("config.entries", where={"config.kind": "single", "program": "b"}),
    ):
        found = {(row["config.entries"], row.get("program", "b")): row["misses"] for row in values(chart)}
        assert (found[32, "b"], found[64, "b"]) == (400, 800)
    chart = table.plot.lines("config.factor", base="single-64")
    found = {row["config.factor"]: row["misses"] for row in values(chart)}
    assert found == {4: pytest.approx(0.8), 16: pytest.approx(0.2)}  # roots of 1.6 * 0.4 and of 0.4 * 0.1
    assert "single, single-64, cache" in subtitle(chart)
    heat = table.plot.heatmap("config.entries", "config.factor")
    assert {(row["config.entries"], row["config.factor"]): row["misses"] for row in values(heat)} == {
        (32, 4): pytest.approx(0.8),
        (32, 16): pytest.approx(0.2),
    }


def test_colours_are_those_of_the_values():
    """A key whose values are numbers tells marks apart as one of texts does."""
    table = known()
    for color, where in (("config.factor", {"config.kind": "partial"}), ("machine", None)):
        chart = table.plot.lines("config.entries", color=color, where=where)
        spec = chart.to_dict()["encoding"]["color"]
        there = {row[color] for row in values(chart)}
        assert set(spec["scale"]["domain"]) == there and len(there) > 1
        looks = list(zip(spec["scale"]["range"], chart.to_dict()["encoding"]["shape"]["scale"]["range"]))
        assert len(set(looks)) == len(there)
    from farreach.plots.base import key

    names = [f"series {i}" for i in range(40)]
    both = [key(names, "x")[part].to_dict()["scale"]["range"] for part in ("color", "shape")]
    assert len(set(zip(*both))) == 40
    assert table.plot.lines("config.entries").to_dict()["encoding"]["color"]["scale"]["domain"][1] == "partial factor=4"


def test_what_is_misspelt_gets_the_names_most_like_it():
    with pytest.raises(ValueError, match="no column 'config.entires'; did you mean config.entries"):
        known().plot.lines("config.entires")
    with pytest.raises(ValueError, match="no column 'mises'; did you mean misses"):
        known().best("mises")


def test_rankings_are_those_of_the_pictures():
    table = known()
    best = table.best()
    assert list(best["machine"]) == ["p16", "cache", "p4", "single", "single-64"]
    assert list(best["misses"]) == pytest.approx([0.2, 0.45, 0.8, 1.0, 1.0])
    assert best.attrs["misses"] == "misses relative to single, geometric mean over 2 programs"
    assert list(table.best(where={"program": "a"})["misses"]) == [20, 50, 80, 90, 100]
    front = table.pareto()
    assert list(front["machine"]) == ["single", "p4", "p16"]
    assert list(front["area_rbe"]) == [10, 12, 30] and front.attrs["misses"] == best.attrs["misses"]
    chart = table.plot.pareto()
    marks = {row["machine"]: (row["area_rbe"], row["misses"]) for row in values(chart)}
    assert marks == {
        "single": (10, 1.0),
        "single-64": (20, pytest.approx(1.0)),
        "p4": (12, pytest.approx(0.8)),
        "p16": (30, pytest.approx(0.2)),
    }
    spec = chart.to_dict()
    assert subtitle(chart) == "Not shown, because no area in register-bit equivalents is known: cache"
    y = " ".join(spec["layer"][0]["encoding"]["y"]["title"])
    assert y == "misses relative to single, geometric mean over 2 programs"
    # Points of the front have numbers, and their names stand below.
    assert [row["front"] for row in values(chart) if "front" in row] == ["1  single", "2  p4", "3  p16"]


def test_what_cannot_be_compared_is_refused():
    table = known()
    with pytest.raises(ValueError, match=r"several machines are at one mark \(config.entries 32, config.kind partial"):
        table.plot.lines("config.entries", color="config.kind")
    with pytest.raises(ValueError, match=r"differ in config.factor.*where=\{'?config.factor"):
        table.plot.lines("config.entries", color="config.kind")
    short = farreach.Sweep(table._rows[:-1], [], {})
    with pytest.raises(ValueError, match="cache has no point of program b, limit none, seed 0, which others have"):
        short.best()
    assert len(short.best(where={"program": "a"})) == 5
    zero = farreach.Sweep(rows_of({"a": 0, "b": 5}, machine="none", kind="single", entries=8), [], {})
    with pytest.raises(ValueError, match="misses of none is 0 for program a.*mean='arithmetic'"):
        zero.best()
    assert list(zero.best(mean="arithmetic")["misses"]) == [2.5]
    for wrong, match in (
        (dict(mean="median"), "'geometric' or 'arithmetic'"),
        (dict(base="nobody"), "it has single, single-64"),
        (dict(where={"nothing": 1}), "no column 'nothing'"),
        (dict(where={"program": "c"}), "there are a, b"),
    ):
        with pytest.raises(ValueError, match=match):
            table.best(**wrong)
    # A report says why a picture is not there, and has the others.
    page = short.plot.report()
    assert "Not drawn: cache has no point of program b" in page and "Memory against misses" in page


def test_of_a_sweep(table):
    frame = table.frame
    lines = values(table.plot.lines("config.entries", facet="program"))
    found = {(row["program"], row["design"], row["config.entries"]): row["misses"] for row in lines}
    single = frame[frame["machine"] == "t94/single"].set_index("program")["misses"]
    entries = frame[frame["machine"] == "t94/single"]["config.entries"].iloc[0]
    for program in single.index:
        assert found[program, "single", entries] == single[program]
    assert len(found) == len(frame)
    assert set(table.plot.charts()) >= {"Misses against entries", "Misses against area", "Memory against misses"}
    assert not [chart for chart in table.plot.charts().values() if isinstance(chart, str)]
    with pytest.raises(ValueError, match="no column 'nothing'"):
        table.plot.lines("nothing")
    assert table.plot.report().count('charts.push(["chart') == len(table.plot.charts())


NAME = "</script><script>alert(1)</script><!--<script>"


def scripts(page):
    """The scripts of a page, as a browser takes them apart."""
    from html.parser import HTMLParser

    class Parser(HTMLParser):
        found, inside = [], False

        def handle_starttag(self, tag, attributes):
            self.inside = tag == "script"
            self.found = [*self.found, ""] if self.inside else self.found

        def handle_endtag(self, tag):
            self.inside = False if tag == "script" else self.inside

        def handle_data(self, data):
            if self.inside:
                self.found[-1] += data

    parser = Parser()
    parser.feed(page)
    parser.close()
    return parser.found


def test_names_do_not_become_scripts(table, kernel, tmp_path):
    import altair as alt

    from farreach.plots import page

    # One case of each machine.
    frame = table.frame.drop_duplicates("machine")
    frame = frame.assign(program=NAME, machine=[NAME + machine for machine in frame["machine"]])
    hostile = farreach.Sweep([], [{"program": NAME, "machine": NAME, "message": NAME}], {"name": NAME})
    hostile._frame = frame
    result = farreach.simulate(kernel, ["t94/single"])
    text = json.dumps(result.to_dict()).replace(json.dumps("t94/single"), json.dumps(NAME))
    other = farreach.Result.from_json(text) if hasattr(farreach.Result, "from_json") else None
    charts = [hostile.plot.pareto(), hostile.plot.memory(), hostile.plot.lines("config.entries")]
    charts += [
        hostile.plot.memory() | hostile.plot.pareto(),
        alt.Chart(frame, title=NAME).mark_point().encode(x="program:N"),
    ]
    charts += [other.plot.misses()] if other else []
    pages = [hostile.plot.report(), page(NAME, NAME, {NAME: charts[0]})]
    for chart in charts:
        chart.save(tmp_path / "x.html")
        pages += [(tmp_path / "x.html").read_text(), chart.to_html()]
    for one in pages:
        found = scripts(one)
        # Those of the page itself: each is whole, and none is the name's.
        assert not [script for script in found if script.startswith("alert(1)")]
        specs = [script for script in found if "alert(1)" in script]
        assert specs and all(NAME not in script and "<!--" not in script for script in specs)
        assert all(script.count("\\u003c/script>\\u003cscript>alert(1)") >= 1 for script in specs)
    # It is the same data.
    assert {row["program"] for row in values(hostile.plot.memory())} == {NAME}


def test_of_papers(tmp_path):
    result = farreach.papers("t94-fig2", cache=tmp_path)
    frame = result["t94-fig2"].tables[0].to_frame()
    assert list(frame["as in the figure"]) == ["yes"] * len(frame)
    area = farreach.papers("t94-table9", workloads=["join"], limit="20K", cache=tmp_path)
    assert {row["origin"] for row in values(area.plot.compare("t94-table9"))} >= {"measured"}
    with pytest.raises(KeyError, match="t94-table9"):
        area["t94-table1"]
