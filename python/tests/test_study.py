"""Running, recording, simulating: results, errors, interrupts."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
from conftest import interrupted

import farreach
from farreach import _command


def printed(*words):
    """What the command prints as JSON."""
    return json.loads(subprocess.run([_command.command(), *words, "--json"], capture_output=True, check=True).stdout)


def until(done, seconds=30):
    """Waits for something that has to happen."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def test_simulate_is_sim(kernel):
    names = ["t94/single:entries=32", "rmm15/range", "sv97/softvm", "today/zen5"]
    mine = farreach.simulate(kernel, names, limit="150K", seed=3)
    words = [word for name in names for word in ("--machine", name)]
    theirs = printed("sim", kernel, "--limit", "150K", "--seed", "3", *words)
    assert mine.to_dict() == theirs
    assert json.loads(mine.to_json()) == theirs


def test_defaults_are_those_of_the_command(kernel):
    assert farreach.simulate(kernel).to_dict() == printed("sim", kernel)
    assert [m.name for m in farreach.simulate(kernel, ["ds13:penalty=5"], limit=1000)][0] == "ds13/4k:penalty=5"


def test_the_page_size_study_is_that_of_the_command(kernel):
    mine = farreach.pagesize(kernel, sizes=["4K", "64K"], entries=32)
    theirs = printed("pagesize", kernel, "--sizes", "4K,64K", "--entries", "32")
    assert mine.to_dict() == theirs
    assert list(mine.to_frame()["page_size"]) == [4096, 65536]
    with pytest.raises(ValueError, match="sizes"):
        farreach.pagesize(kernel, sizes=["4K", "5K"])
    with pytest.raises(ValueError, match="only one"):
        farreach.pagesize(kernel, command="ls")


def test_run_and_record_see_the_same_program(tmp_path):
    out = tmp_path / "out"
    result = farreach.run(["echo", "hello world"], "t94/single", stdout=out)
    assert result.status == 0 and out.read_text() == "hello world\n"
    trace = farreach.record("echo 'hello world'", tmp_path / "echo.frt", stdout=subprocess.DEVNULL)
    stored = farreach.simulate(trace, "t94/single")
    assert abs(stored.workload.instructions - result.workload.instructions) < 5000
    assert farreach.run(["sh", "-c", "exit 7"], "t94/single").status == 7
    assert farreach.run("true", "t94/single", limit=50_000).workload.stopped == "--limit 50000"
    assert farreach.pagesize(command="true", sizes=["4K"], machines=()).status == 0


def test_programs_that_cannot_be_recorded(tmp_path):
    with pytest.raises(farreach.TraceError, match="no-such-program"):
        farreach.run("no-such-program", "t94/single")
    with pytest.raises(farreach.CommandError, match="no-such-program"):
        farreach.record("no-such-program", tmp_path / "t.frt")
    with pytest.raises(ValueError, match="empty"):
        farreach.run("", "t94/single")


def test_a_design_in_python_watches_a_program():
    from designs import SingleInPython

    result = farreach.run("true", ["t94/single", SingleInPython])
    assert result[0].counts == result[1].counts


def test_results_have_attributes(kernel):
    result = farreach.simulate(kernel, ["t94/single", "rmm15/4k"])
    machine = result["t94/single"]
    assert machine.counts.misses == result[0].counts["misses"] == result.to_dict()["machines"][0]["counts"]["misses"]
    assert machine.memory.resident_bytes > 0 and machine.cost.area_rbe > 0
    assert result["rmm15/4k"].counts.walk.walks == result["rmm15/4k"].counts.misses
    assert 0 < machine.misses_per_1000 < 1000
    assert "misses" in machine.counts and "misses" in dir(machine.counts)
    with pytest.raises(AttributeError, match="mises"):
        machine.counts.mises
    with pytest.raises(AttributeError, match="changed"):
        machine.counts.misses = 3
    with pytest.raises(KeyError, match="t94/single"):
        result["t94/double"]
    assert len(result) == 2 and "t94/single" in str(result) and "<pre" in result._repr_html_()


def test_results_go_out_and_come_back(kernel, tmp_path):
    result = farreach.simulate(kernel, ["t94/single", "ds13/segment"])
    result.save(tmp_path / "r.json")
    assert farreach.Result.load(tmp_path / "r.json") == result == pickle.loads(pickle.dumps(result))
    assert result.to_csv().startswith("name,lookups,misses") and "<html" in result.to_html()
    assert max(map(len, result.table(60).splitlines())) < 100
    with pytest.raises(ValueError, match="schema"):
        farreach.PageSizeResult.load(tmp_path / "r.json")
    with pytest.raises(ValueError, match="schema = null"):
        farreach.Result.from_json("{}")


def test_the_frame_has_the_columns_of_the_csv(kernel):
    pytest.importorskip("pandas")
    import csv
    import io

    result = farreach.simulate(kernel, ["t94/single", "rmm15/range", "sv97/softvm"])
    frame = result.to_frame()
    for row, theirs in zip(frame.to_dict("records"), csv.DictReader(io.StringIO(result.to_csv()))):
        for name, value in theirs.items():
            if name in row and value not in ("", "-"):
                mine = row[name]
                if isinstance(mine, bool):
                    assert str(mine).lower() == value, name
                    continue
                assert str(mine) == value or abs(float(mine) - float(value)) < 1e-9 * abs(float(value)) + 1e-12, name


def test_any_number_of_threads(kernel):
    machines = [f"t94/single:entries={n}" for n in range(1, 40)]
    one, two = (farreach.simulate(kernel, machines, threads=n).to_dict() for n in (1, 2))
    assert one == two


def test_numbers_as_people_write_them(kernel):
    assert farreach.simulate(kernel, "t94/single", limit="0.01M").workload.instructions == 10_000
    for limit in ("x", 0, -1, "1.5", "K"):
        with pytest.raises(ValueError, match="limit = "):
            farreach.simulate(kernel, "t94/single", limit=limit)
    with pytest.raises(ValueError, match="align"):
        farreach.simulate(kernel, "t94/single", align=5000)


def test_mappings_where_linux_puts_them(kernel):
    plain, linux = (farreach.simulate(kernel, "t94/single", align=align).machines[0] for align in (None, "linux"))
    assert plain.counts.misses == linux.counts.misses > 0
    with pytest.raises(ValueError, match="align"):
        farreach.simulate(kernel, "t94/single", align="windows")


def test_progress_is_told_and_may_stop():
    seen = []
    farreach.simulate("workload:gups:size=1M,references=3M", "t94/single", progress=lambda *at: seen.append(at))
    assert seen == sorted(seen) and seen[-1][0] > 3_000_000

    def enough(instructions, references):
        raise InterruptedError(f"at {instructions}")

    with pytest.raises(InterruptedError, match="at "):
        farreach.simulate("workload:gups:size=1M,references=1000M", "t94/single", progress=enough)


def test_other_threads_go_on():
    """The interpreter's lock is released."""
    ticks, over = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    farreach.simulate("workload:gups:size=16M,references=10M", "t94/single", threads=1)
    took = time.monotonic() - began
    over.set()
    thread.join()
    assert ticks > 20 * took


SLOW = {
    "simulate": "farreach.simulate('workload:gups:size=64M,references=100000M', 't94/single')",
    "in a loop of its own": "farreach.simulate(iter(lambda: {'address': [1]}, 0), 't94/single')",
    "python": "farreach.simulate('workload:gups:size=64M,references=100000M', SingleInPython)",
    "run": "farreach.run(['sh', '-c', 'while :; do :; done'], 't94/single')",
    "run deaf": "farreach.run(['sh', '-c', 'trap \"\" INT; while :; do :; done'], 't94/single')",
    "read": "[0 for batch in farreach.Trace('workload:gups:size=64M,references=100000M')]",
    "pipe": "farreach.simulate('PIPE', 't94/single')",
}


@pytest.mark.parametrize("what", SLOW)
def test_an_interrupt_ends_it_soon(what, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keep = os.open(pipe, os.O_RDWR)
    path = os.path.dirname(os.path.abspath(__file__))
    code = f"""
import sys; sys.path.insert(0, {path!r})
import farreach
from designs import SingleInPython
print("ready", flush=True)
try:
    {SLOW[what].replace("PIPE", str(pipe))}
except KeyboardInterrupt:
    print("interrupted")
"""
    out, err, took = interrupted(code)
    os.close(keep)
    assert out == "interrupted\n", err
    # The promise is a second; a machine that runs other tests too gets more.
    assert took < 5


def test_no_program_outlives_python(tmp_path):
    mark = str(tmp_path / "pid")
    code = f"""
import farreach
farreach.record(["sh", "-c", "echo $$ > {mark}; exec sleep 1000"], {str(tmp_path / "it.frt")!r})
"""
    python = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(mark) and os.path.getsize(mark))
    with open(mark) as file:
        program = int(file.read())
    assert os.path.exists(f"/proc/{program}")
    python.kill()
    python.wait()
    until(lambda: not os.path.exists(f"/proc/{program}"))
    # The command ended by a signal that lets it finish its file.
    until(lambda: os.listdir(tmp_path) == ["pid"] or sorted(os.listdir(tmp_path)) == ["it.frt", "pid"])
    # Its environment is that of a shell's.
    with open(tmp_path / "out", "w") as out:
        farreach.record("env", tmp_path / "env.frt", stdout=out)
    printed = (tmp_path / "out").read_text()
    assert "PATH=" in printed and "FARREACH_PARENT" not in printed


def test_contiguity_of_a_program():
    result = farreach.contiguity("sleep 1")
    assert result.peak.pages > 0 and len(result.samples) >= 1
    with pytest.raises(farreach.CommandError):
        farreach.contiguity(pid=2**22 + 1)


def test_kernels_are_checked():
    with pytest.raises(farreach.WorkloadError, match="gupz.*gups"):
        farreach.simulate("workload:gupz", "t94/single")
    with pytest.raises(farreach.WorkloadError) as raised:
        farreach.simulate("workload:gups:size=1", "t94/single")
    assert "64K to 16G" in raised.value.what


def test_the_memory_of_a_machine_may_be_full():
    with pytest.raises(farreach.SimulationError) as raised:
        farreach.simulate("workload:gups:size=1M", "t94/single:memory=64K")
    assert raised.value.machine == "t94/single:memory=64K"


def test_the_command_is_the_packages_own():
    version = subprocess.run([_command.command(), "--version"], capture_output=True, text=True).stdout.split()[1]
    assert version == farreach.__version__
    words = [sys.executable, "-m", "farreach", "nothing"]
    assert subprocess.run(words, capture_output=True).returncode == 2


def test_a_sample_says_how_sure_it_is():
    whole = farreach.simulate("workload:gups", ["t94/single", "today/zen3"], limit="20M")
    part = farreach.simulate("workload:gups", ["t94/single", "today/zen3"], limit="20M", sample=4)
    for one, all_of_it in zip(part.to_dict()["machines"], whole.to_dict()["machines"]):
        assert one["estimate"]["standard_error"] > 0
        assert abs(one["counts"]["misses"] - all_of_it["counts"]["misses"]) < 0.2 * all_of_it["counts"]["misses"]
        assert one["memory"] == all_of_it["memory"]
    assert part.to_dict()["workload"]["windows"]["one_in"] == 4 and "windows" not in whole.to_dict()["workload"]
    for bad in [1, 1001, 2.5, "8"]:
        with pytest.raises(ValueError, match="a whole number from 2 to 1000"):
            farreach.simulate("workload:gups", limit="1M", sample=bad)
