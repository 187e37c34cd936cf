"""Sweeps: what is computed, what is not computed twice, what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import farreach
from farreach import Experiment, Grid, Machine, _command, _core

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")
import pandas as pd  # noqa: E402

GUPS = "workload:gups:size=1M,references=50K"
JOIN = "workload:join:references=50K"
GRID = Grid("t94/partial", {"entries": [16, 32], "factor": [4, 16]}, where=["entries * factor <= 256"])


@pytest.fixture
def counted(monkeypatch):
    """Points that are run, not taken from the cache."""
    from farreach.sweeps import runner

    seen = []
    run = runner.Runner.run

    def counting(self, passes):
        for text in passes:
            seen.extend(point["name"] for point in json.loads(text)["machines"])
        return run(self, passes)

    monkeypatch.setattr(runner.Runner, "run", counting)
    return seen


def test_the_table_equals_single_runs(kernel, shell, cache):
    """The oracle: point by point, one simulation each."""
    grids = [GRID, "t94/single", "rmm15/range", "sv97/softvm", Grid("today/zen5", {"walk_cost": ["fixed", "caches"]})]
    table = farreach.sweep(
        programs=[kernel, shell, JOIN],
        machines=grids,
        seeds=[0, 5],
        limits=["20K", None],
        cache=cache,
        on="local:2",
        quiet=True,
    )
    assert not table.failures and len(table.frame) == 3 * 2 * 2 * 8
    assert table.frame["machine"].nunique() == 8
    for row in table.frame.to_dict("records"):
        limit = None if pd.isna(row["limit"]) else int(row["limit"])
        alone = farreach.simulate(row["program"], row["machine"], limit=limit, seed=row["seed"], threads=1)
        expected = alone.to_frame().to_dict("records")[0]
        for name, value in expected.items():
            if name in ("name", "workload.source", "workload.stopped", "workload.seed"):
                continue
            mine = row[name]
            if pd.isna(value):
                assert pd.isna(mine), name
            else:
                assert mine == value or str(mine) == str(value), (row["machine"], name)


def test_what_was_run_is_not_run_again(kernel, cache, counted):
    def run(**more):
        return farreach.sweep(programs=[kernel], cache=cache, on="local:1", quiet=True, **more)

    first = run(machines=[GRID])
    assert len(counted) == len(first.frame) == 3
    counted.clear()
    assert run(machines=[GRID]).frame.equals(first.frame) and counted == []
    # Another spelling is the same machine.
    assert run(machines=["t94/partial:factor=4,entries=16"]).frame["misses"][0] == first.frame["misses"][0]
    assert counted == []
    run(machines=[Grid("t94/partial", {"entries": [16, 32, 64], "factor": [4]})])
    assert counted == ["t94/partial:entries=64,factor=4"]
    counted.clear()
    assert run(machines=[GRID], seeds=[1]) is not None and len(counted) == 3
    counted.clear()
    assert run(machines=[GRID], limits=["10K"]) is not None and len(counted) == 3
    counted.clear()
    assert run(machines=[GRID], sample=2) is not None and len(counted) == 3, "an estimate is another result"


def test_a_sample_estimates_and_says_how_sure_it_is(cache, tmp_path):
    program, machines = "workload:gups:size=64M,references=6M", ["t94/single", "today/zen5"]
    file = tmp_path / "long.toml"
    file.write_text(
        f'sample = 4\n[[program]]\nworkload = "{program[9:]}"\n'
        + "".join(f'[[machine]]\nname = "{name}"\n' for name in machines)
    )
    swept = [
        farreach.sweep(file, cache=cache, on="local:1", quiet=True).frame,
        farreach.sweep(programs=[program], machines=machines, sample=4, cache=cache, quiet=True).frame,
    ]
    for frame in swept:
        for row in frame.to_dict("records"):
            alone = farreach.simulate(program, row["machine"], sample=4).to_frame().to_dict("records")[0]
            assert (
                row["misses"] == alone["misses"]
                and row["workload.windows.counted_instructions"] == alone["workload.windows.counted_instructions"]
            )
            assert row["estimate.standard_error"] == alone["estimate.standard_error"] > 0
    with pytest.raises(farreach.ExperimentError, match="sv97/softvm"):
        farreach.sweep(programs=[program], machines=["sv97/softvm"], sample=4, cache=cache)


def test_traces_in_turn_and_phases_are_those_of_single_runs(kernel, shell, cache, tmp_path):
    pieces = {"skip": "1K", "warmup": "500", "every": "7K"}
    machines = ["t94/single", "today/zen5"]
    file = tmp_path / "turns.toml"
    file.write_text(
        'limits = ["60K"]\nskip = "1K"\nwarmup = 500\nevery = "7K"\n'
        f'[[program]]\ntrace = ["{kernel}", "{shell}", "{JOIN}"]\ninterleave = "5K"\n'
        f'[[program]]\ntrace = "{kernel}"\n' + "".join(f'[[machine]]\nname = "{name}"\n' for name in machines)
    )
    turns = [kernel, shell, JOIN]
    swept = [
        farreach.sweep(file, cache=cache, on="local:1", quiet=True),
        farreach.sweep(
            programs=[{"trace": turns, "interleave": "5K"}, kernel],
            machines=machines,
            limits="60K",
            cache=cache,
            on="local:1",
            quiet=True,
            **pieces,
        ),
    ]
    for table in swept:
        assert not table.failures and len(table.frame) == 4
        for row in table.frame.to_dict("records"):
            more = {"interleave": "5K"} if " + " in row["program"] else {}
            alone = farreach.simulate(turns if more else kernel, row["machine"], limit="60K", **pieces, **more)
            expected = alone.to_frame().to_dict("records")[0]
            assert (row["misses"], row["lookups"]) == (expected["misses"], expected["lookups"])
            assert row["workload.processes"] == expected["workload.processes"]
            mine = table.phases.query("program == @row['program'] and machine == @row['machine']")
            assert len(mine) == len(alone.phases) > 1 and mine["misses"].sum() == row["misses"]
            for column in alone.phases:
                assert list(mine[column]) == list(alone.phases[column]), column
    folder = swept[0].save(tmp_path / "turns.sweep")
    pd.testing.assert_frame_equal(farreach.Sweep.load(folder).phases, swept[0].phases, check_dtype=False)
    assert len((folder / "phases.csv").read_text().splitlines()) == len(swept[0].phases) + 1
    # A folder has no phases of another sweep.
    one = farreach.sweep(programs=[kernel], machines=machines, cache=cache, on="local:1", quiet=True)
    assert one.phases.empty and not (one.save(folder) / "phases.csv").exists()
    # What is not of a sweep stays.
    (tmp_path / "phases.csv").write_text("mine")
    assert (one.save(tmp_path) / "phases.csv").read_text() == "mine"


def test_a_changed_trace_is_noticed(tmp_path, cache, counted):
    import numpy as np

    file = tmp_path / "t.frt"

    def write(step):
        with farreach.TraceWriter(file) as writer:
            writer.write({"address": np.arange(0, 1 << 22, step, dtype=np.uint64)})

    def run():
        return farreach.sweep(programs=[file], machines=["t94/single"], cache=cache, on="local:1", quiet=True)

    write(4096)
    assert run().frame["misses"][0] == 1 << 10
    write(8192)
    assert run().frame["misses"][0] == 1 << 9
    assert len(counted) == 2
    os.utime(file)
    assert run().frame["misses"][0] == 1 << 9 and len(counted) == 2


def test_every_fault_is_named_before_anything_runs(tmp_path, cache, counted):
    with pytest.raises(farreach.ExperimentError) as raised:
        farreach.sweep(
            programs=[GUPS, {"trace": "a", "workload": "b"}, {"command": "ls", "limit": 3}],
            machines=[
                Grid("t94/single", {"entries": [0, 16], "entris": [1]}),
                Grid("t94/nobody"),
                Grid("t94/single", {"entries": [16]}, where=["entries > 16"]),
                Grid("t94/single", {"entries": [16]}, where=["ways >"]),
                {"name": "t94/single", "girds": {}},
            ],
            seeds=[-1],
            limits=["x"],
            sample=1,
            cache=cache,
        )
    text = str(raised.value)
    for words in [
        "one of trace, command, workload",
        "'limit'",
        "entris",
        "t94/nobody",
        "no combination meets",
        "ways >",
        "'girds'",
        "seeds = -1",
        "limits = 'x'",
        "sample = 1",
    ]:
        assert words in text, words
    assert counted == [] and len(raised.value.faults) >= 10
    # What only the parts of a machine can judge, before a program is recorded.
    grids = [Grid("t94/set-associative", {"ways": [3, 5]}), "t94/single"]
    with pytest.raises(farreach.ExperimentError) as raised:
        farreach.sweep(programs=[{"command": "true"}], machines=grids, cache=cache)
    assert len(raised.value.faults) == 2 and "ways = 5" in str(raised.value) and not (cache / "traces").exists()
    with pytest.raises(farreach.ExperimentError, match="no program"):
        farreach.sweep(programs=[], machines=[], cache=cache)
    with pytest.raises(farreach.ExperimentError, match="none.frt"):
        farreach.sweep(programs=["none.frt"], machines=["t94/single"], cache=cache)
    with pytest.raises(farreach.ExperimentError, match="gupz"):
        farreach.sweep(programs=["workload:gupz"], machines=["t94/single"], cache=cache)
    for on in ("nowhere", "local:0", "locally", "none.toml"):
        with pytest.raises(farreach.ExperimentError, match="on"):
            farreach.sweep(programs=[GUPS], machines=["t94/single"], cache=cache, on=on)


def test_grids():
    def names(*words, **keys):
        faults = []
        found = [machine.name for machine in Grid(*words, **keys).machines(faults)]
        assert not faults
        return found

    assert names("t94/single", {"entries": {"from": 16, "to": 64, "times": 2}}) == [
        f"t94/single:entries={n}" for n in (16, 32, 64)
    ]
    assert names("t94/single", {"entries": {"from": 16, "to": 30, "step": 8}}) == [
        "t94/single:entries=16",
        "t94/single:entries=24",
    ]
    assert names("single", {"entries": [1]}) == ["single:entries=1"]
    assert names("t94/single", list=[{"entries": 1}, {"entries": 2, "replacement": "lru"}]) == [
        "t94/single:entries=1",
        "t94/single:entries=2,replacement=lru",
    ]
    huge = {"entries": {"from": 1, "to": 65536, "step": 1}, "penalty": {"from": 1, "to": 100, "step": 1}}
    one, two, other = (names("t94/single", huge, sample=5, sample_seed=seed) for seed in (1, 1, 2))
    assert one == two != other and len(set(one)) == 5
    assert len(names("t94/single", {"entries": [1, 2, 3]}, sample=9)) == 3
    assert names("t94/single", {"entries": [2, 3, 4]}, sample=9, where=["entries % 2 == 0", "log2(entries) > 1"]) == [
        "t94/single:entries=4"
    ]


def test_a_plan_runs_nothing(kernel, cache):
    keys = dict(programs=[kernel, {"command": ["true"]}], machines=[GRID], cache=cache, on="local:2")
    plan = farreach.plan(**keys)
    assert (plan.points, plan.cached, plan.passes, plan.workers) == (6, 0, 1, 2)
    assert plan.recordings == ["true: its trace would be recorded"] and plan.seconds > 0
    assert not (cache / "traces").exists()
    assert "6, of which 0 are in the cache" in str(plan) and "to record" in str(plan)
    farreach.sweep(**{**keys, "programs": [kernel]}, quiet=True)
    assert farreach.plan(**keys).cached == 3 and farreach.plan(**keys).passes == 0


def test_programs_of_every_kind(kernel, cache):
    table = farreach.sweep(
        programs=[
            {"command": ["echo", "a b"], "name": "echo"},
            {"workload": "gups", "size": "1M", "references": "20K"},
            kernel,
        ],
        machines=["t94/single"],
        limits=["30K"],
        cache=cache,
        on="local:1",
        quiet=True,
    )
    assert list(table.frame["program"]) == ["echo", "workload:gups:size=1M,references=20K", kernel]
    assert list(table.frame["workload.instructions"]) == [30_000] * 3
    assert len(list((cache / "traces").glob("*.frt"))) == 1


def test_output_is_the_same_bytes(kernel, cache, tmp_path):
    tables = [
        farreach.sweep(programs=[kernel, GUPS], machines=[GRID, "rmm15/range"], cache=where, on=on, quiet=True).save(
            tmp_path / name
        )
        for where, on, name in [(cache, "local:1", "a"), (cache, "local:2", "b"), (tmp_path / "other", "local:2", "c")]
    ]
    for name in ("table.parquet", "table.csv", "table.jsonl", "sweep.json"):
        assert len({(table / name).read_bytes() for table in tables}) == 1, name
    loaded = farreach.Sweep.load(tables[0])
    assert len(loaded.frame) == 8 and loaded.about["name"] == "sweep"
    import pyarrow.parquet as pq

    assert pq.read_schema(tables[0] / "table.parquet").metadata[b"schema"] == b"farreach.sweep/1"
    lines = (tables[0] / "table.jsonl").read_text().splitlines()
    assert [json.loads(line)["misses"] for line in lines] == list(loaded.frame["misses"])


EXPERIMENT = """
name = "sizes"
limits = ["30K"]

[[program]]
workload = "gups"
size = "1M"

[[machine]]
name = "t94/single"
grid.entries = [16, 32]

[[machine]]
name = "t94/partial"
grid = { entries = { from = 16, to = 32, times = 2 }, factor = [4, 16] }
where = ["entries * factor <= 256"]
"""


def command(*words, **how):
    env = {**os.environ, "FARREACH_PYTHON": sys.executable}
    return subprocess.run([_command.command(), "sweep", *words], capture_output=True, text=True, env=env, **how)


def test_all_files_have_the_mode_of_the_umask(kernel, cache, tmp_path):
    table = farreach.sweep(programs=[kernel], machines=["t94/single"], cache=cache, on="local:1", quiet=True)
    names = ("sweep.json", "table.csv", "table.jsonl", "table.parquet")
    for umask in (0o022, 0o077, 0o002):
        before = os.umask(umask)
        try:
            folder = table.save(tmp_path / f"{umask}")
        finally:
            os.umask(before)
        assert sorted(file.name for file in folder.iterdir()) == sorted(names)
        assert {(folder / name).stat().st_mode & 0o777 for name in names} == {0o666 & ~umask}


def test_names_stand_in_the_csv_as_they_are(kernel, cache, tmp_path):
    import csv

    name = '=1+1,"x"'
    program = {"trace": kernel, "name": name}
    folder = farreach.sweep(programs=[program], machines=["t94/single"], cache=cache, on="local:1", quiet=True).save(
        tmp_path
    )
    with open(folder / "table.csv", newline="") as file:
        assert [row["program"] for row in csv.DictReader(file)] == [name]


def test_the_command_hands_over(tmp_path, cache):
    (tmp_path / "sizes.toml").write_text(EXPERIMENT)
    dry = command("sizes.toml", "--dry-run", "--cache", str(cache), cwd=tmp_path)
    assert dry.returncode == 0 and "points        5, of which 0" in dry.stdout, dry.stderr
    done = command("sizes.toml", "--on", "local:1", "--cache", str(cache), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(farreach.Sweep.load(tmp_path / "sizes.sweep").frame) == 5
    report = command("report", "sizes.sweep", "--html", "sizes.html", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    page = (tmp_path / "sizes.html").read_text()
    assert "Misses against area" in page and "vegaEmbed" in page and "https://cdn" not in page
    (tmp_path / "bad.toml").write_text(EXPERIMENT.replace("entries = [16", "entries = [0"))
    bad = command("bad.toml", cwd=tmp_path)
    assert bad.returncode == 2 and "entries = 0 is not allowed" in bad.stderr
    assert command("none.toml", cwd=tmp_path).returncode == 1
    # Its help is that of the package: all options are in it.
    for words, option in ((["--help"], "--dashboard"), (["-h"], "--dashboard"), (["report", "--help"], "--html")):
        asked = command(*words, cwd=tmp_path)
        assert asked.returncode == 0 and option in asked.stdout, asked.stderr
    (tmp_path / "bad.toml").write_text("x = = 1")
    assert "bad.toml" in command("bad.toml", cwd=tmp_path).stderr


def test_files_of_the_user_are_not_imported(tmp_path, cache):
    for name in ("random.py", "six.py", "json.py", "farreach.py", "pickle.py", "struct.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')\n", encoding="utf-8")
    (tmp_path / "x.toml").write_text(EXPERIMENT, encoding="utf-8")
    done = command("x.toml", "--on", "local:1", "--cache", str(cache), "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_without_the_package_the_command_says_what_is_missing():
    env = {**os.environ, "FARREACH_PYTHON": "/bin/false"}
    done = subprocess.run([_command.command(), "sweep", "x.toml"], capture_output=True, text=True, env=env)
    assert done.returncode == 1 and "pip install './python[sweep]'" in done.stderr and "/bin/false" in done.stderr


def test_papers_run_through_it(tmp_path):
    env = {**os.environ, "FARREACH_PYTHON": sys.executable}
    tables = []
    for name, options in (("a", ["--threads", "2"]), ("b", ["--on", "local:2"])):
        words = ["papers", "t94-table9", "ps-dtlb", "--workload", "join", "--limit", "100K", "--csv"]
        done = subprocess.run(
            [_command.command(), *words, *options, "--cache", str(tmp_path / name)],
            capture_output=True,
            text=True,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        tables.append(done.stdout)
    assert tables[0] == tables[1] and len(tables[0]) > 500
    assert len(list((tmp_path / "a").iterdir())) == len([f for f in (tmp_path / "b").iterdir()])


def test_a_search_finds_what_a_grid_finds(kernel, cache):
    pytest.importorskip("optuna")
    grid = Grid("t94/partial", {"entries": [8, 16, 32, 64], "factor": [2, 4, 8]})
    keys = dict(programs=[kernel], machines=[grid], cache=cache, on="local:2", quiet=True)
    frame = farreach.sweep(**keys).frame
    allowed = frame[frame["area_rbe"] < 6000]
    best = allowed["misses"].min()
    found = farreach.sweep(**keys, search={"objective": "misses", "subject_to": "area_rbe < 6000", "trials": 60})
    assert found.about["best"][0]["misses"] == best
    again = farreach.sweep(**keys, search={"objective": "misses", "subject_to": "area_rbe < 6000", "trials": 60})
    assert again.about == found.about and again.frame.equals(found.frame)
    front = farreach.sweep(
        **keys, search={"objective": ["misses", "area_rbe"], "trials": 80, "sampler": "nsga2"}
    ).about["best"]
    truth = {tuple(row) for row in farreach.sweep(**keys).pareto()[["misses", "area_rbe"]].itertuples(index=False)}
    assert {(one["misses"], one["area_rbe"]) for one in front} <= truth and len(front) >= len(truth) / 2
    with pytest.raises(farreach.ExperimentError) as raised:
        farreach.sweep(**keys, search={"objective": [], "trials": 0, "sampler": "luck", "subject_to": "area", "x": 1})
    assert len(raised.value.faults) == 5


def test_batch_systems_get_their_jobs(tmp_path):
    pytest.importorskip("dask_jobqueue")
    file = tmp_path / "condor.toml"
    file.write_text(
        'kind = "htcondor"\njobs = 3\n[options]\ncores = 2\nmemory = "4GB"\ndisk = "10GB"\npython = "python3"\n'
    )
    plan = farreach.plan(programs=[GUPS], machines=["t94/single"], cache=tmp_path / "c", on=str(file))
    script = plan.job_script
    lines = dict(line.split(" = ", 1) for line in script.splitlines() if " = " in line)
    assert lines["RequestCpus"] == "MY.DaskWorkerCores" and lines["MY.DaskWorkerCores"] == "2"
    assert (
        lines["RequestMemory"] == "floor(MY.DaskWorkerMemory / 1048576)"
        and lines["MY.DaskWorkerMemory"] == "4000000000"
    )
    assert "--nworkers 2" in script and "--nthreads 1" in script and plan.workers == 6
    for text, words in [
        ('kind = "cray"\njobs = 1\n', "kind = 'cray'"),
        ('kind = "slurm"\n', "jobs = N"),
        ('kind = "slurm"\njobs = 1\nqueue = "x"\n', "'queue'"),
        ('kind = "slurm"\njobs = 1\n[options]\nno_such = 1\n', "options"),
    ]:
        file.write_text(text)
        with pytest.raises(farreach.ExperimentError, match=words):
            farreach.plan(programs=[GUPS], machines=["t94/single"], cache=tmp_path / "c", on=str(file))


def test_the_version_of_the_model_is_part_of_the_key(kernel):
    from farreach.sweeps.worker import run_pass

    with pytest.raises(RuntimeError, match="same wheel"):
        run_pass("{}", "0" * 64, 1, {}, None, "topic")
    assert len(_core.model()) == 64
    assert isinstance(Experiment([kernel], ["t94/single"]).expand()[1][0], Machine)


@pytest.mark.long
def test_papers_find_the_same_on_a_cluster(tmp_path):
    """Tables of a paper, with the bytes that the command finds by itself."""
    golden = Path(__file__).resolve().parents[2] / "fixtures" / "papers" / "small.csv"
    if not golden.exists():
        pytest.skip("the tests are not in a clone")
    head, *rows = golden.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [row for row in rows if row.startswith(("ds13-", "DS13,"))]
    names = list(dict.fromkeys(row.partition(",")[0] for row in rows if row.startswith("ds13-")))
    env = {**os.environ, "FARREACH_PYTHON": sys.executable}
    words = ["papers", *names, "--small", "--csv", "--cache", str(tmp_path / "cache"), "--on", "local:2"]
    done = subprocess.run([_command.command(), *words], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert len(names) > 8 and done.stdout == head + "".join(rows)
