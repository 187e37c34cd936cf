"""Runs the notebooks and saves what they print: `make notebooks`. Pictures are PNG, which every viewer shows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
#: What runs first and is not in the notebook.
_PNG = "import altair; altair.renderers.enable('png'); del altair"


def executed(book: Any, folder: str, png: bool) -> Any:
    """A notebook with its outputs."""
    if png:
        book.cells.insert(0, nbformat.v4.new_code_cell(_PNG))
    resources = {"metadata": {"path": folder}}
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3", resources=resources).execute()
    if png:
        book.cells.pop(0)
    for cell in book.cells:
        # When a cell ran is no output.
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            # Progress and warnings are of this run and this machine.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return book


def main() -> None:
    for file in sorted(FOLDER.glob("*.ipynb")):
        print(file.name, file=sys.stderr)
        book = nbformat.read(file, as_version=4)
        nbformat.write(executed(book, "/tmp", True), file)


if __name__ == "__main__":
    main()
