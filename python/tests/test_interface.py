"""The interface as scripts and notebooks use it: one or several, messages, interruptions, what is missing."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import farreach
from farreach import Grid, extras, messages

GUPS = "workload:gups:size=1M,references=20K"


def test_one_needs_no_list(cache):
    result = farreach.simulate(GUPS, "t94/single")
    assert result.keys() == ["t94/single"] and "t94/single" in result and "t94/partial" not in result
    assert result[0] in result
    assert farreach.pagesize(GUPS, machines="ps/two-size").policies[0].name == "ps/two-size"
    assert farreach.pagesize(GUPS, machines=()).policies == []
    pytest.importorskip("distributed")
    table = farreach.sweep(
        programs=GUPS, machines="t94/single", seeds=0, limits="10K", cache=cache, on="local:1", quiet=True
    )
    assert len(table) == 1 and list(table.frame["limit"]) == [10_000]


def test_results_and_sweeps_have_the_same_columns(cache):
    pytest.importorskip("distributed")
    keys = dict(machines=["t94/single", "rmm15/range"], cache=cache, on="local:1", quiet=True)
    swept = farreach.sweep(programs=GUPS, limits="10K", **keys).frame
    alone = farreach.simulate(GUPS, ["t94/single", "rmm15/range"], limit="10K").to_frame()
    # The result has more: its name as in the CSV, and what a cache does not know.
    more = ["name", "workload.source", "workload.stopped", "workload.seed"]
    assert [name for name in alone if name not in more] == list(swept)
    for name in ("program", "machine", "limit", "seed", "misses", "config.entries"):
        assert list(alone[name].dropna()) == list(swept[name].dropna()), name


def test_seeds_are_as_numpy_has_them(cache):
    pytest.importorskip("distributed")
    machine = "t94/single:replacement=random"
    assert farreach.simulate(GUPS, machine, seed=np.int64(3)).workload.seed == 3
    keys = dict(programs=GUPS, machines=machine, cache=cache, on="local:1", quiet=True)
    frames = [farreach.sweep(seeds=seeds, **keys).frame for seeds in (range(3), np.arange(3), (0, 1, 2))]
    assert list(frames[0]["seed"]) == [0, 1, 2] and all(frame.equals(frames[0]) for frame in frames)
    for wrong in (-1, 1.5, True, "3"):
        with pytest.raises(ValueError, match=f"seed = {wrong!r} is not allowed: a seed must be a whole number from 0"):
            farreach.simulate(GUPS, machine, seed=wrong)
    with pytest.raises(farreach.ExperimentError, match=r"seeds = -1 is not allowed.*from 0 to 2\^64-1"):
        farreach.sweep(seeds=[0, -1], **keys)


def test_limits_are_those_asked_for(cache):
    """Also where a program ends before: it is one limit, not two."""
    pytest.importorskip("distributed")
    keys = dict(machines=["t94/single", "t94/partial"], cache=cache, on="local:1", quiet=True)
    table = farreach.sweep(programs=[GUPS, "workload:gups:size=2M,references=5K"], limits="50K", **keys)
    assert list(table.frame["limit"]) == [50_000] * 4
    assert table.frame["workload.instructions"].nunique() == 2  # one of them ended before
    assert len(table.best(where={"limit": 50_000})) == 2
    assert table.best().attrs["misses"].endswith("geometric mean over 2 programs")


def test_groups_traces_and_designs_in_sweeps(cache, shell):
    from designs import OnePage

    pytest.importorskip("distributed")
    plan = farreach.plan(programs=farreach.Trace(shell), machines="ds13", cache=cache)
    assert plan.points == len(farreach.machines("ds13"))
    with pytest.raises(farreach.ExperimentError, match="OnePage: a design written in Python cannot be part of a sweep"):
        farreach.plan(programs=GUPS, machines=[OnePage], cache=cache)


def test_wrong_uses_are_named():
    from designs import OnePage

    for wrong, kind, match in (
        (dict(machines=[]), ValueError, r"machines = \[\] is not allowed"),
        (dict(machines=[OnePage()]), TypeError, "an object of OnePage is no machine: the class OnePage is"),
        (dict(machines=[None]), TypeError, "None is no machine"),
        (dict(machines="this"), farreach.MachineError, "processor at hand"),
        (dict(threads=-1), ValueError, "threads = -1"),
        (dict(threads="two"), ValueError, "threads = 'two'"),
        (dict(plain="yes"), ValueError, "plain = 'yes'"),
        (dict(progress="x"), ValueError, "progress = 'x'"),
    ):
        with pytest.raises(kind, match=match):
            farreach.simulate(GUPS, **wrong)
    with pytest.raises(FileNotFoundError, match="'/nope'"):
        farreach.run("true", "t94/single", cwd="/nope")
    with pytest.raises(ValueError, match=r"ids = \[\]"):
        farreach.papers([])
    with pytest.raises(ValueError, match="length = 'x'"):
        farreach.trap("true", length="x")
    with pytest.raises(KeyError, match="did you mean gups"):
        farreach.workloads()["gup"]
    with pytest.raises(ValueError, match="/etc/passwd: "):
        farreach.Result.load("/etc/passwd")


def test_parts_and_experiment_do_not_mix(cache):
    pytest.importorskip("distributed")
    with pytest.raises(TypeError, match="machines beside it"):
        farreach.plan({"program": [], "machine": []}, machines="t94/single", cache=cache)
    with pytest.raises(TypeError, match="unknown argument 'machine'"):
        farreach.plan(programs=GUPS, machine="t94/single", cache=cache)


def test_streams_are_files_by_name(tmp_path):
    given, got = tmp_path / "in", tmp_path / "out"
    given.write_text("b\na\n")
    farreach.record("sort", tmp_path / "sort.frt", stdin=given, stdout=str(got))
    assert got.read_text() == "a\nb\n"


def test_short_forms_are_short():
    result = farreach.simulate(GUPS, "all")
    assert len(repr(result)) < 200 and "and" in repr(result)
    assert repr(result[0].counts).startswith("<Counts lookups=") and len(repr(result[0].counts)) < 200
    assert len(repr(result[0])) < 400 and len(repr(result.workload)) < 400


def test_repeats():
    pytest.importorskip("pandas")
    found = farreach.repeat(trace=GUPS, machines=["t94/single:replacement=random", "t94/single"], times=4)
    assert len(found) == 4 and found.confidence == 1 - 1 / 8
    values = found.values("t94/single:replacement=random")
    assert [result.workload.seed for result in found] == [0, 1, 2, 3] and len(set(values)) > 1
    frame = found.to_frame().set_index("machine")
    row = frame.loc["t94/single:replacement=random"]
    assert (row["least"], row["most"]) == (min(values), max(values)) and row["least"] <= row["median"] <= row["most"]
    assert row["spread"] == pytest.approx(max(values) / min(values) - 1)
    assert frame.loc["t94/single", "spread"] == 0
    # Relative to a machine in the same run, worked out by hand.
    other = found.values("t94/single")
    ratio = found.to_frame(base="t94/single").set_index("machine").loc["t94/single:replacement=random"]
    assert ratio["most"] == pytest.approx(max(a / b for a, b in zip(values, other)))
    for wrong in (0, -1, "5", True):
        with pytest.raises(ValueError, match="times = "):
            farreach.repeat(trace=GUPS, times=wrong)
    with pytest.raises(ValueError, match="y = 'nothing' is not allowed"):
        found.values("t94/single", "nothing")
    assert len(farreach.repeat("true", "t94/single", times=2)) == 2


def test_what_is_missing_is_said_before_work_begins(monkeypatch, cache):
    pytest.importorskip("pandas")
    find = extras.importlib.util.find_spec

    def without(*names):
        monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None if name in names else find(name))

    result = farreach.simulate(GUPS, "t94/single")
    without("pandas")
    with pytest.raises(farreach.MissingExtra, match=r"a frame needs pandas.*pip install 'farreach\[frames\]'"):
        result.to_frame()
    without("altair")
    with pytest.raises(ImportError, match=r"a picture needs altair.*pip install 'farreach\[plots\]'"):
        result.plot
    without("distributed", "pyarrow")
    with pytest.raises(farreach.MissingExtra, match=r"pyarrow and distributed.*'farreach\[sweep\]'"):
        farreach.sweep(programs=GUPS, machines="t94/single", cache=cache)
    assert not cache.exists()


def test_messages_go_where_logging_sends_them(monkeypatch, capsys):
    """pytest has set up logging itself; without handlers they are shown while a sweep runs."""
    with messages.shown():
        messages.log.warning("to the log")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(messages.log, "propagate", False)
    for quiet, lines in ((False, "farreach: one\nfarreach: warning: two\n"), (True, "farreach: warning: two\n")):
        with messages.shown(quiet):
            messages.log.info("one")
            messages.log.warning("two")
        assert capsys.readouterr().err == lines
    assert messages.log.handlers == [] and messages.log.level == logging.NOTSET


SCRIPT = """import sys, farreach
from farreach import Grid
table = farreach.sweep(
    programs={program!r},
    machines=["t94/single", Grid("t94/partial", {{"entries": [16, 32], "factor": [4, 16]}})],
    on="local:1", cache={cache!r})
print(len(table))
"""


def test_a_script_needs_no_guard(cache, tmp_path):
    pytest.importorskip("distributed")
    script = tmp_path / "study.py"
    script.write_text(SCRIPT.format(program=GUPS, cache=str(cache)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
    assert done.stderr == "farreach: 5 points\n"


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_sweep_keeps_what_is_under_way(cache, tmp_path, again):
    pytest.importorskip("distributed")
    script = tmp_path / "study.py"
    large = "workload:gups:size=64M,references=" + ("2G" if again else "60M")
    script.write_text(SCRIPT.format(program=large, cache=str(cache)))
    child = subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True)
    assert child.stderr.readline() == "farreach: 5 points\n"
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    line = child.stderr.readline()
    assert line == "farreach: interrupted; 5 points under way have 60 s, unless Ctrl-C again\n"
    if again:
        child.send_signal(signal.SIGINT)
    rest = child.communicate(timeout=120)[1]
    assert child.returncode in (130, -signal.SIGINT)
    kept = 0 if again else 5
    assert rest.splitlines()[-1].endswith(f"{kept} of 5 points are kept; the same sweep goes on from there"), rest
    # One traceback, that of the script: neither Dask's nor one of a cause.
    assert rest.count("Traceback") == 1 and "distributed" not in rest and "The above exception" not in rest
    assert len([file for file in cache.glob("*.json") if len(file.stem) == 64]) == kept


def test_who_reads_may_have_enough(cache, tmp_path):
    pytest.importorskip("distributed")
    file = tmp_path / "sizes.toml"
    file.write_text('[[program]]\nworkload = "gups:size=1M,references=20K"\n[[machine]]\nname = "t94/single"\n')
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "farreach", "sweep", str(file), "--dry-run", "--cache", str(cache)]
    done = subprocess.run(line, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_atlas_is_a_frame_and_a_parquet_file(tmp_path):
    pd, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    file = tmp_path / "atlas.csv"
    file.write_text("program,budget,design,walks,references,energy_pj\nkv,entries,base,5,9,\nkv,bits,single,7,,2.5\n")
    table = farreach.atlas(file)
    assert table["walks"].tolist() == [5, 7] and table["references"].isna().tolist() == [False, True]
    table.to_parquet(tmp_path / "atlas.parquet")
    assert pd.read_parquet(tmp_path / "atlas.parquet")["design"].tolist() == ["base", "single"]


def test_papers_as_a_frame_and_a_page(tmp_path):
    pytest.importorskip("pandas")
    result = farreach.papers(["t94-table9", "t94-fig2"], workloads=["join"], limit="20K", cache=tmp_path / "cache")
    assert result.keys() == ["t94-table9", "t94-fig2"] or set(result.keys()) == {"t94-table9", "t94-fig2"}
    assert "t94-table9" in result and "t94-table1" not in result and len(result) == 2
    frame = result.to_frame()
    cells = [
        cell
        for section in result
        for table in section.tables
        for row in table.rows
        for cell in row.cells
        if isinstance(cell, (int, float)) and not isinstance(cell, bool)
    ]
    assert list(frame["value"]) == [float(cell) for cell in cells] and len(cells) > 10
    assert set(frame["origin"]) >= {"measured"}
    assert result.to_html().startswith("<!") and "t94-table9" in result.to_html()
    result.save(tmp_path / "papers.json")
    loaded = farreach.PapersResult.load(tmp_path / "papers.json")
    assert loaded.to_dict() == json.loads(json.dumps(result.to_dict()))
    with pytest.raises(ValueError, match="has no page"):
        loaded.to_html()
    assert len(repr(result)) < 120 and result.verdicts


def test_an_experiment_of_one_grid(cache):
    pytest.importorskip("distributed")
    assert farreach.plan(programs=GUPS, machines=Grid("t94/single", {"entries": [8, 16]}), cache=cache).points == 2
