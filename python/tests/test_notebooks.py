"""Every notebook runs from beginning to end, in under a minute."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("altair")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


@pytest.mark.long
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")) or [None])
def test_it_runs(file, tmp_path):
    if file is None:
        pytest.skip("the notebooks are in the clone")
    book = nbformat.read(file, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "notebooks are kept without output"
    client = nbclient.NotebookClient(
        book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert any(cell.get("outputs") for cell in book.cells)
