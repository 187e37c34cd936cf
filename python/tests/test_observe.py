"""Traps, watching, advice and the catalogue from Python: the results of the command, in the forms of all others."""

import os
import subprocess
import sys

import pytest

import farreach

BUSY = "x = bytearray(8 << 20)\nwhile True:\n    for i in range(0, len(x), 4096): x[i] = 1\n"


def test_traps_are_counted_as_by_the_command(tmp_path):
    program = ["sh", "-c", "echo 0"]
    mine = farreach.Machine.from_toml('kind = "single"\nentries = 16\n', "mine")
    try:
        result = farreach.trap(program, ["t94/single", mine], stdout=tmp_path / "out")
    except farreach.CommandError as error:
        pytest.skip(str(error))
    assert (tmp_path / "out").read_text() == "0\n" and result.status == 0
    assert result.keys() == ["t94/single", "mine"] and result["mine"].config.entries == 16
    assert result["mine"].counts.misses > result["t94/single"].counts.misses > 0
    assert result.workload.traps.microseconds > 0 and list(result.to_frame()["machine"]) == ["t94/single", "mine"]
    assert farreach.trap(["sh", "-c", "exit 3"], "t94/single").status == 3
    with pytest.raises(farreach.MachineError, match="'nothing'"):
        farreach.trap(program, "nothing")
    with pytest.raises(farreach.CommandError, match="no-such-program"):
        farreach.trap("no-such-program", "t94/single")


def test_designs_in_python_are_for_simulations():
    from designs import OnePage

    with pytest.raises(farreach.MachineError, match="run and simulate only"):
        farreach.trap("true", OnePage)


def test_a_process_is_watched():
    child = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        found = farreach.watch(child.pid, length="600ms", interval=0.2, method="resident")
    finally:
        child.kill()
        child.wait()
    assert f"process {child.pid}" in repr(found) and len(found.intervals) >= 2
    assert found.intervals[-1].present_bytes >= 8 << 20 and found.to_dict()["method"]["name"] == "resident"
    assert farreach.WatchResult.from_json(found.to_json()) == found and "<html" in found.to_html()
    if len(found.to_frame()):
        assert found.to_frame()["present_bytes"].iloc[-1] == found.intervals[-1].present_bytes
    for wrong in (0, -1, "4711", 1 << 40):
        with pytest.raises(ValueError, match="pid = "):
            farreach.watch(wrong)
    with pytest.raises(farreach.CommandError, match=r"process \d+"):
        farreach.watch(child.pid, length="10ms")


def test_advice_for_a_trace():
    found = farreach.advise(trace="workload:gups:size=16M,references=200K", machine="today/zen3")
    assert found.rows[0].name == "today" and found.recommendation.row in [row.name for row in found.rows]
    frame = found.to_frame()
    assert list(frame["name"]) == [row.name for row in found.rows]
    assert list(frame["saved_cycles.low"]) == [row.saved_cycles.low for row in found.rows]
    assert farreach.AdviceResult.from_json(found.to_json()) == found and found.table()
    with pytest.raises(ValueError, match="a trace or a command is needed"):
        farreach.advise()
    with pytest.raises(farreach.MachineError):
        farreach.advise(trace="workload:gups", machine="today/zen33")


def test_pictures_of_advice_and_of_a_process(tmp_path):
    pytest.importorskip("altair")
    found = farreach.advise(trace="workload:gups:size=16M,references=200K", machine="today/zen3")
    chart = found.plot.savings()
    rows = [row for data in chart.to_dict()["datasets"].values() for row in data]
    assert {row["row"]: (row["low"], row["high"]) for row in rows} == {
        row.name: (row.saved_cycles.low, row.saved_cycles.high) for row in found.rows
    }
    chart.save(tmp_path / "savings.svg")
    seen = farreach.watch(os.getpid(), length="300ms", interval="100ms", method="resident")
    data = [row for rows in seen.plot.memory().to_dict()["datasets"].values() for row in rows]
    present = [row["MiB"] * (1 << 20) for row in data if row["memory"] == "present"]
    assert present == [one.present_bytes for one in seen.intervals]


def test_the_catalogue(tmp_path):
    found = farreach.workloads()
    assert "gups" in found and "kernel/gups" in found and "redis" in found and "nothing" not in found
    assert found["gups"] == found["kernel/gups"] and found[0].name == found.keys()[0]
    assert found["gups"].type == "kernel" and found["redis"].type == "program"
    with pytest.raises(KeyError, match="no workload 'nothing'"):
        found["nothing"]
    trace = found["gups"].record(tmp_path / "gups.frt", size="1M", references="20K", seed=3)
    stored = farreach.simulate(trace, "t94/single")[0].counts
    assert stored == farreach.simulate("workload:gups:size=1M,references=20K,seed=3", "t94/single")[0].counts
    with pytest.raises(farreach.CommandError):
        found["gups"].record(tmp_path / "small.frt", size=1)
    with pytest.raises(ValueError, match="seed = -1"):
        found["gups"].record(tmp_path / "x.frt", seed=-1)
