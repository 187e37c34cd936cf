"""Builds the wheel: maturin's backend, and beside the module the command and the recorder.

The wheel puts them where `make install` would, into `bin` and `lib/farreach` of the environment. So the command finds
the recorder, and Python finds both. The sources are those of the clone around this folder.
"""

import os
import shutil
import subprocess
from pathlib import Path

import maturin

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = HERE / "farreach.data"
TOOL = "farreach-amd64-linux"
TEXT = "farreach-text.so"
GUARD = "farreach-guard"

get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable


def _run(*words: str) -> None:
    try:
        subprocess.run(words, cwd=ROOT, check=True)
    except FileNotFoundError:
        raise SystemExit(
            f"farreach: {words[0]} is needed to build the wheel; see docs/book/src/getting-started/install.md"
        )
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"farreach: {' '.join(words)} failed with status {error.returncode}")


def _stage() -> None:
    """Builds command and recorder and lays them where maturin takes them from."""
    if not (ROOT / "capture" / "valgrind").is_dir():
        raise SystemExit("farreach: the wheel is built from a clone: pip install ./python in its root")
    # `make wheel` builds for an older C library than that of this machine.
    other = os.environ.get("FARREACH_WHEEL_TARGET", "")
    build = ["zigbuild", "--target", other] if other else ["build"]
    _run("cargo", *build, "--release", "--quiet", "--locked", "-p", "farreach-cli")
    tool = ROOT / "target" / "valgrind"
    for part in ("valgrind", "text", "guard"):
        _run("make", "--no-print-directory", "-C", f"capture/{part}", f"OUT={tool}")
    shutil.rmtree(DATA, ignore_errors=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for source, place in [
        (target / other.partition(".")[0] / "release" / "farreach", DATA / "scripts" / "farreach"),
        (tool / TOOL, DATA / "data" / "lib" / "farreach" / TOOL),
        (tool / TEXT, DATA / "data" / "lib" / "farreach" / TEXT),
        (tool / GUARD, DATA / "data" / "lib" / "farreach" / GUARD),
        (ROOT / "capture" / "LICENSE-GPL-2", DATA / "data" / "share" / "doc" / "farreach" / "LICENSE-GPL-2"),
    ]:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)
        place.chmod(0o755 if place.parent.name != "farreach" or place.name in (TOOL, GUARD) else 0o644)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    # Maturin looks for the folder, whatever is in it.
    DATA.mkdir(exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _stage()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("farreach: there is no source distribution of this folder alone; build the wheel in a clone")
