"""What goes wrong: the table is the same in the end, or lacks named points."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import needs

import farreach
from farreach import Grid

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

SINGLE = Grid("t94/single", {"entries": [8, 16, 32, 64]})
PROGRAMS = [f"workload:gups:size=1M,references=400K,seed={seed}" for seed in range(4)]


def files(folder):
    return [(folder / name).read_bytes() for name in ("table.parquet", "table.csv", "table.jsonl")]


def undisturbed(tmp_path, programs=PROGRAMS):
    table = farreach.sweep(programs=programs, machines=[SINGLE], cache=tmp_path / "plain", on="local:2", quiet=True)
    return files(table.save(tmp_path / "undisturbed"))


def start(tmp_path, name, on, programs=PROGRAMS):
    """A sweep in a process of its own."""
    code = f"""
import farreach, sys
if __name__ == "__main__":
    table = farreach.sweep(programs={programs!r}, 
        machines=[farreach.Grid("t94/single", {{"entries": [8, 16, 32, 64]}})],
        cache={str(tmp_path / name)!r}, on={on!r})
    table.save({str(tmp_path / (name + ".sweep"))!r})
"""
    script = tmp_path / f"{name}.py"
    script.write_text(code)
    return subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, text=True)


def descendants(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry), *descendants(int(entry))]
    return found


def workers(pid):
    """Processes below this one that are workers of Dask."""
    found = []
    for child in descendants(pid):
        try:
            with open(f"/proc/{child}/cmdline") as line:
                if "spawn_main" in line.read():
                    found.append(child)
        except OSError:
            pass
    return found


@pytest.mark.long
@pytest.mark.parametrize("run", range(20))
def test_killed_workers_cost_nothing(tmp_path_factory, run):
    base = tmp_path_factory.getbasetemp() / "killed"
    if not base.exists():
        base.mkdir()
        undisturbed(base)
    dice = random.Random(run)
    child = start(base, f"run{run}", "local:2")
    killed = 0
    time.sleep(1.5)
    while child.poll() is None and killed < 2:
        victims = workers(child.pid)
        if victims:
            try:
                os.kill(dice.choice(victims), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        time.sleep(dice.uniform(0.2, 1.0))
    assert child.wait(timeout=120) == 0, child.stderr.read()
    assert files(base / f"run{run}.sweep") == files(base / "undisturbed")


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def dask(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]], stderr=subprocess.DEVNULL
    )


def cluster(where, count=1):
    address = f"tcp://127.0.0.1:{where}"
    scheduler = dask("dask_scheduler", "--host", "127.0.0.1", "--port", str(where), "--no-dashboard")
    time.sleep(1)
    return scheduler, [dask("dask_worker", address, "--nthreads", "1", "--no-dashboard") for _ in range(count)]


def stop(processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(timeout=30)


@pytest.mark.long
def test_a_scheduler_may_go_and_come_back(tmp_path):
    programs = [f"workload:gups:size=1M,references=20M,seed={seed}" for seed in range(8)]
    plain = undisturbed(tmp_path, programs)
    where = port()
    scheduler, some = cluster(where)
    child = start(tmp_path, "again", f"tcp://127.0.0.1:{where}", programs)
    try:
        while not list((tmp_path / "again").glob("*.json")):
            assert child.poll() is None
            time.sleep(0.05)
        scheduler.kill()
        scheduler.wait()
        stop(some)
        scheduler, some = cluster(where)
        _, err = child.communicate(timeout=300)
        assert child.returncode == 0, err
        assert "the scheduler is gone" in err
    finally:
        child.kill()
        stop([*some, scheduler])
    assert files(tmp_path / "again.sweep") == plain


@pytest.mark.long
@needs("mount")
def test_a_full_disk_loses_nothing_that_was_kept(tmp_path):
    plain = undisturbed(tmp_path)
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no mount: {mounted.stderr.decode()}")
    try:
        keys = dict(programs=PROGRAMS, machines=[SINGLE], cache=small, on="local:1", quiet=True)
        with pytest.raises(OSError, match="No space left"):
            farreach.sweep(**keys)
        kept = list(small.glob("*.json"))
        assert 0 < len(kept) < 16
        assert all(json.loads(file.read_text()) for file in kept)
        assert not list(small.glob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=10m", small], check=True)
        assert files(farreach.sweep(**keys).save(tmp_path / "after")) == plain
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_interrupted_sweep_goes_on(tmp_path):
    plain = undisturbed(tmp_path)
    child = start(tmp_path, "again", "local:1")
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "again").glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    child = start(tmp_path, "again", "local:1")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert files(tmp_path / "again.sweep") == plain


def test_a_point_that_cannot_go_on_is_named(cache):
    table = farreach.sweep(
        programs=PROGRAMS[:1],
        machines=[SINGLE, Grid("t94/single", {"memory": ["64K", "1G"]})],
        cache=cache,
        on="local:2",
        quiet=True,
    )
    assert len(table.frame) == 5
    (failure,) = table.failures
    assert failure["machine"] == "t94/single:memory=64K" and failure["program"] == PROGRAMS[0]
    assert "memory" in failure["message"]


def threads(monkeypatch, run_pass):
    """A cluster whose workers are threads of this process, where `run_pass` takes the place of the library's."""
    from distributed import LocalCluster

    from farreach.sweeps import worker

    class Core:
        def __getattr__(self, name):
            return run_pass if name == "run_pass" else getattr(farreach._core, name)

    monkeypatch.setattr(worker, "_core", Core())
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None)


def test_a_point_that_panics_is_named(cache, monkeypatch):
    calls = []

    class PanicException(BaseException):
        pass

    def run_pass(text, count, progress):
        names = [point["name"] for point in json.loads(text)["machines"]]
        calls.append(names)
        if "t94/single:entries=16" in names:
            raise PanicException("index out of bounds")
        return farreach._core.run_pass(text, count, progress)

    with threads(monkeypatch, run_pass) as cluster:
        table = farreach.sweep(
            programs=PROGRAMS[:2], machines=[SINGLE], cache=cache, on=cluster.scheduler_address, quiet=True
        )
    assert len(table.frame) == 6
    assert [(f["program"], f["machine"]) for f in table.failures] == [
        (p, "t94/single:entries=16") for p in PROGRAMS[:2]
    ]
    assert all("index out of bounds" in failure["message"] for failure in table.failures)
    # By itself it was tried three times for each program.
    assert calls.count(["t94/single:entries=16"]) == 6


def test_a_pass_over_its_memory_is_cut(cache, monkeypatch):
    from farreach.sweeps.worker import OverBudget

    widths = []

    def run_pass(text, count, progress):
        width = len(json.loads(text)["machines"])
        widths.append(width)
        if width > 1:
            raise OverBudget("too much")
        return farreach._core.run_pass(text, count, progress)

    with threads(monkeypatch, run_pass) as cluster:
        table = farreach.sweep(
            programs=PROGRAMS[:1], machines=[SINGLE], cache=cache, on=cluster.scheduler_address, memory="1G", quiet=True
        )
    assert len(table.frame) == 4 and not table.failures and widths.count(1) == 4


def test_a_trace_that_changes_under_way_is_noticed(tmp_path, cache, monkeypatch, kernel):
    import shutil

    from farreach.sweeps import worker

    copy = tmp_path / "copy.frt"
    shutil.copy(kernel, copy)
    first = worker._local

    def changed(file, expected, storage):
        with open(file, "ab") as trace:
            trace.write(b"x")
        return first(file, expected, storage)

    monkeypatch.setattr(worker, "_local", changed)
    with threads(monkeypatch, farreach._core.run_pass) as cluster:
        table = farreach.sweep(
            programs=[copy], machines=["t94/single"], cache=cache, on=cluster.scheduler_address, quiet=True
        )
    assert len(table.frame) == 0 and "has changed" in table.failures[0]["message"]


@pytest.mark.long
def test_traces_come_from_object_stores(tmp_path, kernel, monkeypatch):
    """A store that speaks S3, on this machine."""
    moto = pytest.importorskip("moto.server", reason="pip install 'moto[server]' s3fs")
    s3fs = pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("FARREACH_OBJECTS", str(tmp_path / "objects"))
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=port())
    server.start()
    try:
        options = {"endpoint_url": f"http://127.0.0.1:{server._port}"}
        store = s3fs.S3FileSystem(**options)
        store.mkdir("traces")
        store.put(kernel, "traces/gups.frt")
        keys = dict(machines=[SINGLE], cache=tmp_path / "cache", on="local:2", quiet=True)
        remote = farreach.sweep(programs=[{"trace": "s3://traces/gups.frt", "storage": options}], **keys)
        local = farreach.sweep(programs=[{"trace": kernel, "name": "s3://traces/gups.frt"}], **keys)
        assert not remote.failures and remote.frame.equals(local.frame)
        # The content was the same, so nothing was run for the second.
        assert len(list((tmp_path / "cache").glob("*.json"))) == 4 + 1
    finally:
        server.stop()


def test_traces_come_from_any_file_system(tmp_path, kernel, cache, monkeypatch):
    monkeypatch.setenv("FARREACH_OBJECTS", str(tmp_path / "objects"))
    table = farreach.sweep(programs=[f"file://{kernel}"], machines=[SINGLE], cache=cache, on="local:1", quiet=True)
    assert not table.failures and len(list((tmp_path / "objects").iterdir())) == 1
    assert table.frame["misses"][3] == farreach.simulate(kernel, "t94/single")[0].counts.misses


SLURM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slurm.sh")


@pytest.mark.long
@needs("slurmctld", "slurmd", "munged", "unshare")
def test_slurm_runs_a_sweep(tmp_path):
    """A cluster of one node, in namespaces of its own."""
    pytest.importorskip("dask_jobqueue")
    plain = undisturbed(tmp_path)
    place = tmp_path / "slurm.toml"
    place.write_text(
        'kind = "slurm"\njobs = 2\n[options]\ncores = 1\nmemory = "1GB"\nwalltime = "00:10:00"\n'
        f'python = "{sys.executable}"\ninterface = "lo"\n'
        f'job_script_prologue = ["export PYTHONPATH={os.environ.get("PYTHONPATH", "")}"]\n'
    )
    child = tmp_path / "sweep.py"
    child.write_text(
        f"""
import farreach
if __name__ == "__main__":
    table = farreach.sweep(programs={PROGRAMS!r}, 
        machines=[farreach.Grid("t94/single", {{"entries": [8, 16, 32, 64]}})],
        cache={str(tmp_path / "cache")!r}, on={str(place)!r})
    table.save({str(tmp_path / "slurm.sweep")!r})
"""
    )
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "bash", SLURM, sys.executable, str(child)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(tmp_path / "slurm.sweep") == plain
