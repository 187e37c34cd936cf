"""The wheel by itself: in a root without the source tree, in an empty virtual environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs

HERE = Path(__file__).resolve().parent
#: Run in that root. What it prints last is what the tests printed.
INSIDE = """set -eu
test ! -e {clone}
cd /tmp
{python} -m venv /tmp/empty
/tmp/empty/bin/pip install --quiet --no-index --find-links /house/wheels 'farreach[all]' pytest
export PATH=/tmp/empty/bin:$PATH
farreach run -- ls / > /tmp/table
grep -q t94/single /tmp/table
cd /house
python -m pytest -q -p no:cacheprovider -m "not long" tests
"""


@pytest.mark.long
@needs("unshare", "chroot", "cargo", "make")
def test_the_wheel_needs_no_source_tree(tmp_path):
    clone = HERE.parents[1]
    if not (clone / "capture").is_dir():
        pytest.skip("the wheel is built in a clone")
    house, wheels = tmp_path / "house", tmp_path / "house" / "wheels"
    shutil.copytree(HERE, house / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-deps", "-w", wheels, clone / "python"], check=True)
    (wheel,) = wheels.glob("farreach-*.whl")
    subprocess.run([*pip, "download", "--quiet", "-d", wheels, f"{wheel}[all]", "pytest"], check=True)
    inside = INSIDE.format(clone=clone, python=os.path.realpath(sys.executable))
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "bash", HERE / "root.sh", house, sys.executable]
        + ["bash", "-c", inside],
        capture_output=True,
        text=True,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "failed" not in done.stdout
