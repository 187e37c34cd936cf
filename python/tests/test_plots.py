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


def test_of_a_run(kernel, tmp_path):
    result = farreach.simulate(kernel, ["t94/single", "t94/partial", "t94/set-associative"])
    assert {row["name"]: row["misses"] for row in values(result.plot.misses())} == {
        m.name: m.counts.misses for m in result
    }
    assert len(values(result.plot.misses_by_area())) == 2
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
    assert {row["name"]: row["per second"] for row in values(result.plot.misses())} == {
        m.name: pytest.approx(1e6 * m.counts.misses / own) for m in result
    }
    assert all(math.isnan(m.misses_per_1000) for m in result)
    rows = values(result.plot.timeline())
    assert sum(row["misses"] for row in rows) == sum(m.counts.misses for m in result)
    seconds = sorted({row["seconds"] for row in rows})
    assert len(seconds) > 1 and seconds[-1] * 1e6 < result.workload.traps.microseconds
    whole = [row for row in rows if row["seconds"] < seconds[-1]]
    assert all(row["misses"] == pytest.approx(row["per second"] * seconds[1]) for row in whole)


def test_of_a_sweep(table):
    frame = table.frame
    lines = values(table.plot.lines("config.entries"))
    assert sum(row["misses"] for row in lines) == frame["misses"].sum()
    heat = {
        (row["config.entries"], row["config.factor"]): row["misses"]
        for row in values(table.plot.heatmap("config.entries", "config.factor"))
    }
    some = frame[(frame["config.entries"] == 32) & (frame["config.factor"] == 4)]
    assert heat[32, 4] == some["misses"].sum() and len(heat) == 6
    front = table.pareto()
    for _, row in front.iterrows():
        better = frame.groupby("machine").agg({"misses": "sum", "area_rbe": "max"})
        assert not ((better["misses"] < row["misses"]) & (better["area_rbe"] <= row["area_rbe"])).any()
    assert set(table.plot.charts()) >= {"Misses against entries", "Misses against area", "Memory against misses"}
    with pytest.raises(ValueError, match="no column 'nothing'"):
        table.plot.lines("nothing")
    assert table.plot.report().count('vegaEmbed("#chart') == len(table.plot.charts())


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

    frame = table.frame.assign(program=NAME, machine=NAME)
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
        specs = [script for script in found if "vegaEmbed(" in script and "alert(1)" in script]
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
