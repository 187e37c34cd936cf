"""Nobody else gets into a sweep, and nothing that lies in the working directory is run."""

import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import farreach
from farreach import _command, _core

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

GUPS = "workload:gups:size=1M,references=50K"


def descendants(pid):
    """A process and all below it."""
    found, parents = [], {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    todo = [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += [child for child, parent in parents.items() if parent == one]
    return found


def listening(pids):
    """Addresses on which these processes listen: (numbers as the kernel writes them, port)."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(link)))
            except OSError:
                continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                address, port = words[1].split(":")
                found.append((address, int(port, 16)))
    return found


#: What another user tries: to run code by the scheduler's and the worker's own protocol, without and with encryption.
#: It gets a port, and certificate and key or nothing.
INTRUDER = """
import sys, json, logging, ssl, socket
logging.disable(logging.CRITICAL)
given = json.load(sys.stdin)
sys.path[:] = given["path"]
import os
from distributed import Client, Security
from distributed.core import connect
import asyncio

def whoami():
    return os.getuid()

async def ask(scheme, security):
    comm = await asyncio.wait_for(connect(f"{scheme}://127.0.0.1:{given['port']}", timeout=5,
        **security.get_connection_args("client")), 10)
    await comm.write({"op": "identity", "reply": True})
    answer = await asyncio.wait_for(comm.read(), 5)
    return answer["type"]

for scheme in given["schemes"]:
    security = Security(require_encryption=scheme == "tls", **given["security"])
    try:
        print(scheme, "in:", asyncio.run(ask(scheme, security)))
    except BaseException as error:
        print(scheme, "out:", type(error).__name__)
"""


def intrude(port, schemes, security, uid):
    """What another user finds at a port."""
    given = {"path": sys.path, "port": port, "schemes": schemes, "security": security}
    words = [sys.executable, "-I", "-c", INTRUDER]
    if uid is not None:
        words = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *words]
    done = subprocess.run(words, input=json.dumps(given), capture_output=True, text=True, cwd="/", timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def of_process(pid, name):
    """A file of a process; nothing if that has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def other_user():
    """A user who can run this Python, or None: tests then try as the same user, without the certificate."""
    words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    try:
        code = f"import sys; sys.path[:] = {sys.path!r}; import __future__, asyncio, distributed"
        able = subprocess.run([*words, sys.executable, "-I", "-c", code], capture_output=True, cwd="/")
    except FileNotFoundError:
        return None
    return 65534 if able.returncode == 0 else None


def other_certificate():
    """A certificate of somebody else's."""
    from distributed import Security

    own = Security.temporary()
    return {
        "tls_ca_file": own.tls_ca_file,
        "tls_client_cert": own.tls_client_cert,
        "tls_client_key": own.tls_client_key,
    }


def test_others_do_not_get_in(capfd):
    from farreach.sweeps import host

    uid = other_user()
    if uid is None:
        print("tried as the same user: root, setpriv and a Python that others can run are needed for another one")
    with host.start(2, False) as started:
        mine = {key: value for key, value in started.security.items() if key != "require_encryption"}
        below = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
        ports = listening(below)
        # The scheduler, and two workers each with the process that watches it.
        assert len(ports) == 5 and {address for address, _ in ports} == {"0100007F"}
        kinds = []
        for _, port in ports:
            nobody = {"tls_ca_file": None, "tls_client_cert": None, "tls_client_key": None}
            assert intrude(port, ["tcp"], nobody, uid)["tcp"].startswith("out:")
            answers = intrude(port, ["tls"], other_certificate(), uid)
            assert answers["tls"].startswith("out:"), answers
            # TLS without a certificate, and a page.
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with pytest.raises(OSError):
                with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 5)) as stream:
                    stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    assert stream.recv(1000) == b""
                    raise ConnectionResetError
            # The same client with the certificate of this sweep.
            kinds.append(intrude(port, ["tls"], mine, None)["tls"])
        assert sorted(kinds) == ["in: Nanny"] * 2 + ["in: Scheduler"] + ["in: Worker"] * 2
        # The key is on no command line and in no variable; nor in a file, once all has begun.
        secret = mine["tls_client_key"].splitlines()[1]
        for pid in below:
            for name in ("cmdline", "environ"):
                assert secret.encode() not in of_process(pid, name)
        assert sum(bool(of_process(pid, "cmdline")) for pid in below) >= 3
        folders = set()
        for pid in below:
            folders.update(re.findall(rb"TMPDIR=([^\0]*farreach-sweep-[^\0]*)", of_process(pid, "environ")))
        assert len(folders) == 1
        folder = Path(folders.pop().decode())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not [file for file in folder.rglob("*") if file.is_file() and secret in file.read_text(errors="replace")]
    assert not folder.exists()
    # Children of a process that has just ended may take a moment to see it.
    until = time.monotonic() + 5
    while left := [pid for pid in below if os.path.exists(f"/proc/{pid}") and "Z" not in state(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.01)


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_workers_end_with_a_sweep_that_is_killed(tmp_path):
    code = "import time\nfrom farreach.sweeps import host\n"
    code += "with host.start(1, False): print('ready', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert child.stdout.readline() == "ready\n"
    below = [pid for pid in descendants(child.pid) if pid != child.pid]
    assert len(below) >= 3
    child.kill()
    child.wait()
    import time

    deadline = time.monotonic() + 30
    while any(state(pid) != "Z" for pid in below) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert all(state(pid) == "Z" for pid in below)


def test_the_dashboard_is_where_it_says(capfd):
    pytest.importorskip("bokeh")
    from urllib.request import urlopen

    from farreach.sweeps import host

    with host.start(1, True) as started:
        below = [pid for pid in descendants(os.getpid()) if pid != os.getpid()]
        ports = listening(below)
        assert {address for address, _ in ports} == {"0100007F"} and len(ports) == 4
        assert re.fullmatch(
            rf"http://127\.0\.0\.1:({'|'.join(str(port) for _, port in ports)})/status", started.dashboard
        )
        with urlopen(started.dashboard, timeout=30) as page:
            assert page.status == 200


def test_without_bokeh_a_dashboard_is_refused(tmp_path, monkeypatch):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *more: None if name == "bokeh" else find(name, *more))
    with pytest.raises(farreach.ExperimentError, match="needs bokeh"):
        farreach.sweep(programs=[GUPS], machines=["t94/single"], cache=tmp_path, dashboard=True)
    with pytest.raises(farreach.ExperimentError, match="--dashboard is for --on local"):
        farreach.sweep(programs=[GUPS], machines=["t94/single"], cache=tmp_path, dashboard=True, on="tcp://127.0.0.1:1")


def test_a_scheduler_without_tls_is_warned_of(tmp_path, said):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=None) as cluster:
        table = farreach.sweep(
            programs=[GUPS], machines=["t94/single"], cache=tmp_path, on=cluster.scheduler_address, quiet=True
        )
    assert len(table.frame) == 1
    told = said()
    assert told.count("warning") == 1 and f"{cluster.scheduler_address}: no TLS: whoever can reach its ports" in told


def test_a_scheduler_with_tls_takes_the_certificate_of_the_configuration(tmp_path, said):
    import dask
    from distributed import LocalCluster, Security

    own = Security.temporary()
    files = {}
    for name, text in (("ca", own.tls_ca_file), ("cert", own.tls_client_cert), ("key", own.tls_client_key)):
        files[name] = str(tmp_path / f"{name}.pem")
        Path(files[name]).write_text(text)
    with LocalCluster(n_workers=1, processes=False, security=own, dashboard_address=None) as cluster:
        keys = dict(programs=[GUPS], machines=["t94/single"], on=cluster.scheduler_address, quiet=True)
        settings = {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": files["ca"],
            "distributed.comm.tls.client.cert": files["cert"],
            "distributed.comm.tls.client.key": files["key"],
        }
        with dask.config.set(settings):
            table = farreach.sweep(cache=tmp_path / "cache", **keys)
        assert len(table.frame) == 1 and cluster.scheduler_address.startswith("tls://")
    assert "warning" not in said()


MODULES = [
    "pickle",
    "sitecustomize",
    "usercustomize",
    "struct",
    "dask",
    "distributed",
    "numpy",
    "farreach",
    "encodings",
]
MODULES += ["multiprocessing", "json", "site", "os", "random", "pandas", "tornado", "ssl"]
PROGRAMS = [
    "sh",
    "bash",
    "gcc",
    "cc",
    "python3",
    "python",
    "lscpu",
    "env",
    "uname",
    "valgrind",
    "dpkg-query",
    "ldconfig",
]
PROGRAMS += [
    "farreach",
    "farreach-amd64-linux",
    "cat",
    "perl",
    "make",
    "g++",
    "verilator",
    "yosys",
    "sta",
    "as",
    "ld",
    "tar",
]

EXPERIMENT = """
[[program]]
workload = "gups"
size = "1M"
references = "50K"

[[program]]
command = ["/bin/true"]

[[machine]]
name = "t94/single"
grid.entries = [16, 32]
"""


@pytest.fixture
def hostile(tmp_path):
    """A folder of files with the names of modules and programs, each of which leaves a mark when it runs."""
    folder, mark = tmp_path / "hostile", tmp_path / "mark"
    folder.mkdir()
    for name in MODULES:
        text = f"import posix\nposix.close(posix.open({str(mark / name)!r}, posix.O_CREAT | posix.O_WRONLY))\n"
        (folder / f"{name}.py").write_text(f"{text}raise SystemExit('{name}.py was imported')\n")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\n: > '{mark}/{name}-program'\nexit 3\n")
        (folder / name).chmod(0o755)
    mark.mkdir()
    (folder / "x.toml").write_text(EXPERIMENT)
    return folder, mark


def test_nothing_of_the_working_directory_runs(hostile, tmp_path, kernel):
    folder, mark = hostile
    plain = {key: value for key, value in os.environ.items() if not key.startswith("FARREACH_")}
    # As a shell has it that was told `PATH=.:$PATH` and `PYTHONPATH=$PYTHONPATH:/somewhere`.
    env = {**plain, "PATH": ".::" + os.environ["PATH"], "FARREACH_PYTHON": sys.executable}
    env["PYTHONPATH"] = f":{os.environ.get('PYTHONPATH', '')}:."

    def run(*words, statuses=(0,)):
        done = subprocess.run(
            [_command.command(), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode in statuses, (words, done.stderr)
        assert not list(mark.iterdir()), (words, sorted(mark.iterdir()), done.stderr)
        return done

    cache = str(tmp_path / "cache")
    run("sweep", "x.toml", "--on", "local:2", "--cache", cache, "--quiet")
    assert len(farreach.Sweep.load(folder / "x.sweep").frame) == 4
    run("sweep", "x.toml", "--dry-run", "--cache", cache)
    run(
        "papers",
        "t94-table9",
        "--workload",
        "join",
        "--limit",
        "20K",
        "--csv",
        "--on",
        "local:1",
        "--cache",
        cache + "-p",
    )
    run("papers", "t94-table1", "--workload", kernel, "--limit", "20K", "--csv", "--cache", cache + "-p")
    run("run", "--limit", "100K", "--", "/bin/true")
    run("doctor", statuses=(0, 1))
    run("area", "single")
    run("workloads", "gups", "--run")
    run("workloads", "gzip", "--prepare", statuses=(0, 1))
    run("rtl", "check", "--help")
    # That the marks work: what the user names is found as the shell finds it.
    done = subprocess.run([_command.command(), "contiguity", "--", "lscpu"], cwd=folder, env=env, capture_output=True)
    assert [file.name for file in mark.iterdir()] == ["lscpu-program"], done.stderr


def test_nor_in_a_program_of_the_users(hostile, tmp_path):
    """The script of a user lies in its folder, and imports from there itself; workers do not."""
    folder, mark = hostile
    (folder / "pandas.py").unlink()
    script = folder / "mine.py"
    script.write_text(
        f"""
import sys
sys.path = [place for place in sys.path if place != {str(folder)!r}]
import farreach
if __name__ == "__main__":
    table = farreach.sweep(programs=[{GUPS!r}], machines=["t94/single"], cache={str(tmp_path / "c")!r}, on="local:1")
    print(len(table.frame))
"""
    )
    env = {**os.environ, "PATH": ".::" + os.environ["PATH"]}
    for name in ("site", "sitecustomize", "usercustomize", "encodings"):
        (folder / f"{name}.py").unlink(missing_ok=True)
    done = subprocess.run([sys.executable, script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "1\n", done.stderr
    assert not list(mark.iterdir())


def test_tools_are_found_in_safe_folders_alone(tmp_path):
    code = "from farreach import _core; print(_core.find_tool('lscpu')); print(_core.tool_path())"
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "lscpu").write_text("#!/bin/sh\n")
    (open_folder / "lscpu").chmod(0o755)
    open_folder.chmod(0o777)
    env = {**os.environ, "PATH": f".:{open_folder}:/usr/bin"}
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, env=env, check=True)
    tool, path = done.stdout.splitlines()
    assert tool == "/usr/bin/lscpu" and path.split(":")[0] == "/usr/bin" and str(open_folder) not in path
    with pytest.raises(FileNotFoundError, match="no-such-tool is not in /"):
        _core.find_tool("no-such-tool")
