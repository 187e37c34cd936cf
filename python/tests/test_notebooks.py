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
    saved = [outputs_of(cell) for cell in book.cells]
    # `make notebooks` saves them.
    assert any(saved), "notebooks are kept with what they print"
    client = nbclient.NotebookClient(
        book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert [outputs_of(cell) for cell in book.cells] == saved


def outputs_of(cell):
    """The kinds of what a cell prints, progress aside; of pictures it is enough that there is one."""
    outputs = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
    return [
        "picture"
        if "image/png" in (data := output.get("data", {})) or "text/html" in data and "vega" in data["text/html"]
        else output["output_type"]
        for output in outputs
    ]
