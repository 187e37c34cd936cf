"""What is wrong with an experiment is said at once, all of it, before anything runs; what is kept is checked."""

import json
import os
import resource
import subprocess
import sys
import time

import pytest

import farreach
from farreach import Experiment, Grid, _command, _core

pytest.importorskip("simpleeval")

GUPS = "workload:gups:size=1M,references=20K"


@pytest.fixture
def nothing_runs(monkeypatch):
    """Passes and recordings are failures."""
    from farreach import study
    from farreach.sweeps import runner

    def runs(*_, **__):
        raise AssertionError("something was run")

    monkeypatch.setattr(runner.Runner, "run", runs)
    monkeypatch.setattr(study, "recorded", runs)


def faults(cache, **keys):
    """All faults of an experiment, of a sweep and of its plan."""
    found = []
    for how in (farreach.sweep, farreach.plan):
        with pytest.raises(farreach.ExperimentError) as raised:
            how(cache=cache, **keys)
        found.append(raised.value.faults)
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    "values, words",
    [
        ({"from": 16, "to": 64, "step": float("nan")}, "step must be a number"),
        ({"from": 16, "to": float("inf"), "step": 1}, "to must be a number"),
        ({"from": 16, "to": 64, "step": "1"}, "step must be a number"),
        ({"from": True, "to": 64, "step": 1}, "from must be a number"),
        ({"from": 1, "to": 10**400, "step": 1}, "to must be a number up to 10^308"),
        ({"from": 16, "to": 64, "step": 0}, "step must be above 0"),
        ({"from": 16, "to": 64, "step": -1}, "step must be above 0"),
        ({"from": 16, "to": 64, "times": 1}, "times above 1"),
        ({"from": 0, "to": 64, "times": 2}, "times above 1"),
        ({"from": 64, "to": 16, "step": 1}, "from is above to"),
        ({"from": 16, "to": 10**12, "step": 1}, "about 999,999,999,984 values; there may be 1,000,000"),
        ({"from": 1, "to": 10**12, "times": 1.0000001}, "values; there may be 1,000,000"),
        ({"from": 1, "to": 1e308, "step": 1e-308}, "values; there may be 1,000,000"),
        ([16, 32, 16], "16 is there twice"),
        ([], "there must be a value"),
    ],
)
def test_ranges_that_are_none(cache, nothing_runs, values, words):
    (fault,) = faults(cache, programs=[GUPS], machines=[Grid("t94/single", {"entries": values})])
    assert "machine 't94/single': grid.entries = " in fault and words in fault


def test_points_are_counted_before_they_are_made(cache, nothing_runs):
    big = {"entries": {"from": 1, "to": 65536, "step": 1}, "penalty": {"from": 1, "to": 1000, "step": 1}}
    keys = dict(programs=[GUPS], seeds=[0, 1], limits=["1M", "2M", "3M"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (fault,) = faults(cache, machines=["t94/partial", Grid("t94/single", big)], **keys)
    assert fault.startswith("393,216,006 points, before conditions, are not allowed: there may be 100,000; most_points")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    plan = farreach.plan(
        programs=[GUPS], machines=[Grid("t94/single", {"entries": [1, 2]})], cache=cache, most_points=2
    )
    assert plan.points == 2
    (fault,) = faults(cache, programs=[GUPS], machines=[Grid("t94/single", {"entries": [1, 2]})], most_points=1)
    assert fault.startswith("2 points")
    # A sample is counted as what it is.
    grid = Grid("t94/single", {**big}, sample=3)
    assert len(Experiment([GUPS], [grid]).expand()[1]) == 3


def test_points_are_there_once(cache, kernel, nothing_runs):
    single = "t94/single:entries=64"
    found = faults(
        cache,
        programs=[GUPS, GUPS, "workload:gups:references=20K,size=1M", kernel, {"trace": kernel, "name": "again"}],
        machines=["t94/partial", single, Grid("t94/single", {"entries": [32, 64]})],
        seeds=[0, 0],
        limits=["1M", "1000K"],
    )
    for words in [
        f"program {GUPS!r} is there twice",
        f"program 'workload:gups:references=20K,size=1M' is program {GUPS!r} by another name",
        f"program 'again' is program {kernel!r} by another name",
        f"machine {single!r} is there twice",
        "seeds: 0 is there twice",
        "limits: 1000000 is there twice",
    ]:
        assert any(words in fault for fault in found), (words, found)
    # In other words, and of a machine with a seed of its own.
    found = faults(
        cache, programs=[GUPS], machines=["t94/partial:entries=16,factor=4", "t94/partial:factor=4,entries=16"]
    )
    assert found == [
        f"machine 't94/partial:factor=4,entries=16' on {GUPS!r} with seed 0 is the same point as "
        f"machine 't94/partial:entries=16,factor=4' on {GUPS!r} with seed 0"
    ]
    found = faults(cache, programs=[GUPS], machines=["t94/single:seed=3"], seeds=[0, 1])
    assert len(found) == 1 and "is the same point as" in found[0]


def test_all_faults_are_said_at_once(cache, nothing_runs, tmp_path):
    """What one is told of: the experiment, programs, machines, the place, memory, the search, the folder."""
    os.mkfifo(tmp_path / "pipe.frt")
    programs = [
        {"command": ["/no/such/program"]},
        {"command": ["no-such-program"]},
        {"command": []},
        {"command": ["ls"], "cwd": "/no/such/folder"},
        {"command": ["ls"], "status": 256, "sise": 1},
        {"workload": "gupz"},
        {"workload": "gups", "size": "1"},
        str(tmp_path / "pipe.frt"),
        "none.frt",
        3,
    ]
    machines = [
        Grid("t94/single", {"entries": [0]}),
        Grid("t94/set-associative", {"ways": [5]}),
        {"name": "t94/single", "where": "entries > 1", "sample": 0, "list": [1]},
        {"name": "t94/single", "grid": {"entries": {"from": 1}}},
        {"name": 3},
        7,
    ]
    began = time.monotonic()
    found = faults(
        cache,
        programs=programs,
        machines=machines,
        seeds=[1.5, -1],
        limits=["x", "inf", 1.5, True],
        name="a/b",
        on="nowhere",
    )
    for words in [
        "there is no program '/no/such/program'",
        "there is no program 'no-such-program'",
        "command = []",
        "cwd = '/no/such/folder'",
        "status = 256",
        "unknown key 'sise'",
        "gupz",
        "size",
        "pipe.frt: is not a regular file",
        "none.frt",
        "program 3",
        "entries = 0",
        "ways = 5",
        "where = 'entries > 1'",
        "sample = 0",
        "list = [1]",
        "a range has from, to, and step or times",
        "name = 3",
        "machine 7",
        "seeds = 1.5",
        "seeds = -1",
        "limits = 'x'",
        "limits = 'inf'",
        "limits = 1.5",
        "limits = True",
        "name = 'a/b'",
        "--on nowhere",
    ]:
        assert any(words in fault for fault in found), (words, found)
    assert time.monotonic() - began < 60 and not (cache / "traces").exists()
    with pytest.raises(farreach.ExperimentError) as raised:
        farreach.sweep(programs="ls.frt", machines=3, seeds=[], limits=[], most_points=0, memory="0", cache=cache)
    assert len(raised.value.faults) == 6


def test_a_program_that_fails_is_no_result(cache, tmp_path):
    keys = dict(machines=["t94/single"], cache=cache, on="local:1", quiet=True)
    no = [{"command": ["/bin/false"]}, {"command": ["sh", "-c", "exit 3"], "name": "three"}, {"command": ["/bin/true"]}]
    with pytest.raises(farreach.ExperimentError) as raised:
        farreach.sweep(programs=no, **keys)
    assert [fault.partition(";")[0] for fault in raised.value.faults] == [
        "program '/bin/false' failed: its exit status is 1, not 0",
        "program 'three' failed: its exit status is 3, not 0",
    ]
    # What went well is kept, what failed is not.
    assert len(list((cache / "traces").glob("*.frt"))) == 1
    pytest.importorskip("distributed")
    table = farreach.sweep(programs=[{**no[1], "status": 3}, no[2]], **keys)
    assert list(table.frame["program"]) == ["three", "/bin/true"]


def test_a_search_is_checked_before_it_runs(cache, nothing_runs):
    pytest.importorskip("optuna")
    keys = dict(programs=[GUPS, "none.frt"], machines=[Grid("t94/single", {"entries": [16, 32]})])
    search = {
        "objective": ["misses", "mises", "misses +"],
        "subject_to": ["area_rbe < 12000", "entris < 3", "kind < 3", "kind"],
        "trials": 2.5,
        "seed": "x",
    }
    found = faults(cache, search=search, **keys)
    for words in [
        "search.objective, machine 't94/single': 'mises': there is no 'mises'",
        "search.objective, machine 't94/single': 'misses +'",
        "search.subject_to, machine 't94/single': 'entris': there is no 'entris'",
        "'kind' is ",
        "search.subject_to: 'kind' is not allowed",
        "search.trials = 2.5",
        "search.seed = 'x'",
        "none.frt",
    ]:
        assert any(words in fault for fault in found), (words, found)
    assert len(found) == 8
    # A machine without an area, and one that is none.
    grids = [
        Grid("t94/set-associative", {"entries": [64, 128]}),
        Grid("t94/single", {"entries": [16]}, where=["entries > 16"]),
    ]
    found = faults(cache, programs=[GUPS], machines=grids, search={"objective": "misses", "subject_to": "area_rbe < 3"})
    assert len(found) == 2 and "machine 't94/set-associative': 'area_rbe'" in found[0]
    assert "machine 't94/single': no combination is a machine that meets the conditions" in found[1]
    for search in (3, {}, {"objective": 3}):
        assert faults(cache, programs=[GUPS], machines=[Grid("t94/single", {"entries": [16, 32]})], search=search)


def test_turns_and_phases_are_checked_before_they_run(cache, nothing_runs):
    together = "several traces and interleave, the instructions of a time slice, go together"
    for program, said in [
        ({"trace": ["a.frt", "b.frt"]}, together),
        ({"trace": "a.frt", "interleave": "2M"}, together),
        ({"trace": ["a.frt"], "interleave": "2M"}, "a path or an address, or a list of two or more is"),
        ({"trace": ["a.frt", 3], "interleave": "2M"}, "a path or an address, or a list of two or more is"),
        ({"trace": ["a.frt", "b.frt"], "interleave": 0}, "interleave = 0 is not allowed: a number of instructions"),
        ({"trace": ["a.frt", "b.frt"], "interleave": "fast"}, "interleave = 'fast' is not allowed"),
        ({"trace": [GUPS, "none.frt"], "interleave": "2M"}, "none.frt"),
        ({"workload": "gups", "interleave": "2M"}, "unknown key 'interleave'"),
    ]:
        (fault,) = faults(cache, programs=[program], machines=["t94/single"])
        assert said in fault, (said, fault)
    for every, said in (("0", "every"), ("x", "every = 'x'")):
        (fault,) = faults(cache, programs=[GUPS], machines=["t94/single"], every=every)
        assert said in fault
    (fault,) = faults(cache, programs=[GUPS], machines=["t94/single"], every="1M", sample=4)
    assert "every is not allowed with sample" in fault


def test_a_table_that_cannot_be_written_is_refused_first(tmp_path, cache, nothing_runs):
    (tmp_path / "x.toml").write_text(
        'limits = [""]\n[[program]]\ntrace = "none.frt"\n[[machine]]\nname = "t94/nobody"\n'
    )
    (tmp_path / "file").write_text("")
    env = {**os.environ, "FARREACH_PYTHON": sys.executable}
    words = [_command.command(), "sweep", "x.toml", "--on", "local:1", "--cache", str(cache), "-o", "file/x.sweep"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    for said in ("--output file/x.sweep: ", "/file is no folder", "none.frt", "t94/nobody", "limits = ''"):
        assert said in done.stderr


def damaged(file):
    """Ways to damage a kept file, each of which is undone by the next."""
    text = file.read_text()
    digit = next(i for i, letter in enumerate(text) if letter.isdigit() and i > text.index('"checksum"') + 90)
    file.write_text(text[:digit] + ("1" if text[digit] != "1" else "2") + text[digit + 1 :])
    yield "its checksum is another"
    file.write_text("null")
    yield "it is no file that farreach kept so"
    file.write_text(text[: len(text) // 2])
    yield ""
    file.unlink()
    os.mkfifo(file)
    yield "is not a regular file"
    assert file.is_file() and file.read_text() == text


def test_kept_results_are_checked(kernel, cache, said):
    pytest.importorskip("distributed")

    def run():
        keys = dict(programs=[kernel], machines=[Grid("t94/single", {"entries": [8, 16]})], cache=cache, on="local:1")
        frame = farreach.sweep(quiet=True, **keys).frame
        return list(frame["misses"]), said()

    right, told = run()
    assert told == "" and run() == (right, "")
    one, other = sorted(file for file in cache.glob("*.json") if len(file.stem) == 64)
    for why in damaged(one):
        found, told = run()
        assert found == right and told.count(f"warning: {one}: not used, because ") == 1 and why in told
        assert run() == (right, "")
    swapped = one.read_text()
    one.write_text(other.read_text())
    other.write_text(swapped)
    found, told = run()
    assert found == right and told.count("it was kept under another key") == 2
    # The hashes of traces.
    for why in damaged(cache / "hashes.json"):
        found, told = run()
        assert found == right and f"{cache / 'hashes.json'}: not used, because " in told and why in told


def test_kept_recordings_are_checked(cache, said):
    pytest.importorskip("distributed")
    programs = [{"command": ["true"]}, {"command": ["echo", "a"]}]

    def run():
        frame = farreach.sweep(programs=programs, machines=["t94/single"], cache=cache, on="local:1", quiet=True).frame
        return [round(n, -4) for n in frame["workload.instructions"]], said()

    right, told = run()
    assert told.count("recording ") == 2
    assert run() == (right, "")
    one, other = sorted((cache / "traces").glob("*.frt"))
    # Two that are swapped, with all that is beside them or without.
    for names in (["frt"], ["frt", "json"]):
        for name in names:
            a, b = one.with_suffix(f".{name}"), other.with_suffix(f".{name}")
            kept = a.read_bytes()
            a.write_bytes(b.read_bytes())
            b.write_bytes(kept)
        found, told = run()
        assert found == right and told.count("not used, because") == 2 and told.count("recording ") == 2, told
        assert run() == (right, "")
    one.unlink()
    os.mkfifo(one)
    found, told = run()
    assert found == right and f"{one}: not used, because" in told and "not a regular file" in told


@pytest.mark.parametrize(
    "text, words",
    [
        ("a = " + "[" * 3000 + "]" * 3000, "recursion"),
        ("seeds = [1" + "0" * 5000 + "]", "4300 digits"),
    ],
    ids=["deep", "digits"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, cache, nothing_runs, text, words):
    file = tmp_path / "odd.toml"
    file.write_text(text)
    for given in ({"experiment": str(file)}, {"programs": [GUPS], "machines": ["t94/single"], "on": str(file)}):
        with pytest.raises(farreach.ExperimentError) as error:
            farreach.sweep(**given, cache=cache)
        assert f"{file}: " in str(error.value) and words in str(error.value)


def test_neither_a_pipe_nor_a_device_is_waited_for(tmp_path):
    """As an experiment, as a place, as a machine; but what a shell hands over is read."""
    pipe, device, large = (tmp_path / name for name in ("pipe.toml", "device.toml", "large.toml"))
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    with open(large, "wb") as file:
        file.truncate(1 << 40)
    kinds = {pipe: "is not a regular file", device: "is not a regular file", large: "is larger than 16 MB"}
    for file, words in kinds.items():
        for call in (farreach.Machine, farreach.sweeps.load):
            with pytest.raises((OSError, ValueError, farreach.ExperimentError), match=words) as error:
                call(str(file))
            assert str(file) in str(error.value)
    read, write = os.pipe()
    os.write(write, b'name = "given"\n')
    os.close(write)
    assert farreach.sweeps.load(f"/dev/fd/{read}").name == "given"
    os.close(read)


def test_names_of_folders_have_no_control_characters(cache, nothing_runs):
    for name in ("a\x1b[31mb", "a\nb", "../a"):
        (fault,) = faults(cache, programs=[GUPS], machines=["t94/single"], name=name)
        assert f"name = {name!r} is not allowed" in fault


def test_counts_are_whole():
    from farreach.quantities import count_of, size_of

    assert [count_of("n", value) for value in ("1.5G", "300M", 7, 1e6)] == [1_500_000_000, 300_000_000, 7, 1_000_000]
    wrong = ("inf", "nan", "1e999", "0.5", 1.5, float("nan"), float("inf"), True, [], 0, -1, "", "99999999T", 1 << 64)
    for value in wrong:
        with pytest.raises(ValueError, match="n = "):
            count_of("n", value)
    assert [size_of("n", value) for value in ("64K", 5, "1G")] == [65536, 5, 1 << 30]
    assert count_of("n", (1 << 64) - 1) == (1 << 64) - 1
    for value in ("K", "-1", -1, True, 1.5, "1.5K", "²", 1 << 64, "16777216T", "9" * 5000):
        with pytest.raises(ValueError, match="n = "):
            size_of("n", value)


def test_what_is_kept_is_json(cache):
    cache.mkdir()
    _core.keep(cache / "x.json", "answer", "k", '{"a": 1}')
    assert json.loads((cache / "x.json").read_text())["answer"] == {"a": 1}
    assert _core.kept(cache / "x.json", "answer", "k") == ('{"a": 1}', None)
    assert _core.kept(cache / "x.json", "answer", "other")[0] is None
    assert _core.kept(cache / "none.json", "answer", "k") == (None, None)
