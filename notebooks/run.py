"""Run the notebooks and keep their outputs: ``python notebooks/run.py [NAME …]``, two minutes for each.

Each runs in an empty folder. What differs between runs without a meaning, such as times of execution, is left out.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def execute(notebook: nbformat.NotebookNode) -> list[str]:
    """Execute a notebook from top to bottom, in place; return the names of the files that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
        files = sorted(path.name for path in Path(folder).rglob("*"))
    for cell in notebook.cells:  # what a cell prints may come in several parts
        outputs = []
        for output in cell.get("outputs", []):
            name = output.get("name")
            if name and outputs and outputs[-1].get("name") == name:
                outputs[-1].text += output.text
            else:
                outputs.append(output)
        if outputs:
            cell.outputs = outputs
    return files


def run(path: Path) -> None:
    """Execute one notebook, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    execute(notebook)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": python, "language_info": {"name": "python"}}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb")):
        run(HERE / f"{name}.ipynb")
