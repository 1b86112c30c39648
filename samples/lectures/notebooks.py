"""The lectures as notebooks: cells are what stands between ``# %%`` lines of a script; the text of such a line is a text cell.

::

    python samples/lectures/notebooks.py --out notebooks              # writes notebooks/01_....ipynb and so on, and what they import beside them
    python samples/lectures/notebooks.py --out notebooks --execute 01 # also runs the first, so that its results are in the file
"""

from __future__ import annotations

import argparse
import ast
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def cells_of(script: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) of each cell of a script. The docstring is the first cell, comments right after a marker its text."""
    doc = ast.get_docstring(ast.parse(script)) or ""
    title, _, rest = doc.partition("\n")
    cells = [("markdown", f"# {title}\n{rest}")]
    for part in script.split("\n# %%")[1:]:
        lines = part.split("\n")
        count = 1
        while count < len(lines) and lines[0].strip() and lines[count].startswith("# "):
            count += 1
        words = "\n".join(line.lstrip("# ") if k else line for k, line in enumerate(lines[:count])).strip()
        code = "\n".join(lines[count:]).strip("\n")
        if words:
            cells.append(("markdown", words))
        if code:
            cells.append(("code", code))
    return cells


def notebook_of(script: str) -> Any:
    """A notebook (nbformat 4.5) of a script. ImportError names the extra."""
    try:
        from nbformat import v4
    except ImportError as error:
        raise ImportError("notebooks need nbformat: pip install 'staticgraph[notebook]'") from error
    made = []
    for k, (kind, text) in enumerate(cells_of(script)):
        cell = v4.new_markdown_cell(text) if kind == "markdown" else v4.new_code_cell(text)
        cell["id"] = f"cell-{k}"                 # the default is random: the same script is to give the same file
        made.append(cell)
    return v4.new_notebook(cells=made, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})


def execute(notebook: Any, folder: Path) -> Any:
    """Run all cells in a fresh kernel, in ``folder``. ImportError names the extra; an error in a cell is raised with its traceback."""
    try:
        from nbclient import NotebookClient
    except ImportError as error:
        raise ImportError("running notebooks needs nbclient and ipykernel: pip install 'staticgraph[notebook]'") from error
    return NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()


def write(script: Path, out: Path, run: bool = False) -> Path:
    """Write the notebook of a script to the folder ``out``."""
    notebook = notebook_of(script.read_text())
    import nbformat
    out.mkdir(parents=True, exist_ok=True)
    for used in (HERE / "stage.py", HERE.parent / "scalar_engine.py"):
        beside = out / used.name
        if not beside.exists() or not beside.samefile(used):
            shutil.copy(used, beside)
    if run:
        notebook = execute(notebook, out)
    path = out / f"{script.stem}.ipynb"
    nbformat.write(notebook, path)
    return path


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lectures", nargs="*", help="numbers of lectures, such as 01 (default: all)")
    parser.add_argument("--out", default="notebooks", metavar="DIR", help="folder for the notebooks (default: notebooks)")
    parser.add_argument("--execute", action="store_true", help="run them, so that results are in the files")
    options = parser.parse_args()
    scripts = [p for p in sorted(HERE.glob("[0-9][0-9]_*.py")) if not options.lectures or p.name[:2] in options.lectures]
    unknown = set(options.lectures) - {p.name[:2] for p in scripts}
    if unknown:
        parser.error(f"no lecture {', '.join(sorted(unknown))}")
    try:
        for script in scripts:
            print(write(script, Path(options.out), options.execute))
    except ImportError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
