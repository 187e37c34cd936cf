"""What tests share. They run against the installed package, wherever it is."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import farreach
from farreach import _command

# A shell makes programs in the background ignore interrupts, and their children with them.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: The environment of commands that tests start.
BIN = os.path.dirname(_command.command())


def pytest_configure(config):
    """Here and not beside the package: tests of an installed package know it as well."""
    config.addinivalue_line(
        "markers", "long: takes more than a few seconds; `make python-test` runs it, continuous integration does not"
    )


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """The trace of a small real program with processes, mappings and threads of execution: the shell and ls."""
    file = tmp_path_factory.mktemp("traces") / "ls.frt"
    farreach.record(["sh", "-c", "ls /usr/lib >/dev/null; ls /bin >/dev/null"], file)
    return str(file)


@pytest.fixture(scope="session")
def kernel(tmp_path_factory):
    """The trace of a kernel."""
    file = tmp_path_factory.mktemp("traces") / "gups.frt"
    subprocess.run(
        [_command.command(), "workloads", "gups", "--trace", "-o", file, "--size", "1M", "--references", "300K"],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return str(file)


@pytest.fixture
def said(caplog):
    """A function that returns what was logged since it was called last, a line each; warnings begin so."""
    caplog.set_level(logging.INFO, "farreach")

    def lines():
        records = [record for record in caplog.records if record.name == "farreach"]
        caplog.clear()
        return "".join(("warning: " if r.levelname == "WARNING" else "") + r.getMessage() + "\n" for r in records)

    return lines


@pytest.fixture
def cache(tmp_path):
    """A cache of results."""
    return tmp_path / "cache"


def interrupted(code, after=0.5, timeout=30):
    """Runs code in a Python of its own, interrupts it, and returns what it printed and how long it took to end."""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(after)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=timeout)
    return out, err, time.monotonic() - began


def needs(*commands):
    """Skips a test where a command is not to be had."""
    missing = [command for command in commands if shutil.which(command) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
