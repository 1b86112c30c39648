"""A comparison as one HTML page: light, large type, tables and inline SVG, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape

from .charts import svg
from .compare_charts import charts
from .compare_report import AGREEMENT, PASSES, WORK, Report

_STYLE = """
.sg { font: 18px/1.5 Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; color: #1a1a1a; background: #fff; max-width: 1240px; margin: 0 auto; padding: 0 16px; }
.sg h1 { font-size: 32px; margin: 24px 0 4px; } .sg h2 { font-size: 24px; margin: 40px 0 8px; } .sg code, .sg pre { font-family: 'DejaVu Sans Mono', Consolas, monospace; font-size: 16px; }
.sg .equal { border-left: 8px solid #1f7a4d; padding-left: 12px; } .sg .different { border-left: 8px solid #b00020; padding-left: 12px; font-weight: bold; }
.sg .wide { overflow-x: auto; margin-bottom: 20px; } .sg table { border-collapse: collapse; font-size: 17px; } .sg th, .sg td { padding: 6px 10px; text-align: right; border-bottom: 1px solid #ccc; white-space: nowrap; }
.sg th { white-space: normal; vertical-align: bottom; border-bottom: 2px solid #1a1a1a; } .sg th:first-child, .sg td:first-child { text-align: left; }
.sg tr.wrong td { background: #fde8ea; font-weight: bold; } .sg figure { margin: 28px 0; } .sg svg { max-width: 100%; height: auto; } .sg pre { background: #f5f5f3; padding: 12px; overflow-x: auto; }
.sg summary { cursor: pointer; } .sg .small { font-size: 16px; color: #333; }
"""


def page(r: Report) -> str:
    """The whole document."""
    return ("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            f"<title>{escape(r.name)}: a comparison</title>\n</head>\n<body>\n{body(r)}\n</body>\n</html>\n")


def body(r: Report) -> str:
    """What notebooks show: the page without its frame."""
    rows = ["<div class=\"sg\">", f"<style>{_STYLE}</style>", f"<h1>{escape(r.name)}</h1>", f"<p><code>({escape(r.shapes)})</code></p>",
            f"<p class=\"{'equal' if r.equal else 'different'}\">{escape(r.verdict())}</p>"]
    ran = [x for x in r.rows if x.ran]
    wrong = [not x.equal for x in ran]
    rows += [_table([list(head), *cells], wrong) for head, cells in ((AGREEMENT, r.agreement()), (WORK, r.work()))]      # two: a projector is 1024 wide
    rows.append(f"<p class=\"small\">Distances are units in the last place of each array's largest element, from {escape(r.reference)}. Times are medians of rounds "
                f"taken in turns, with {r.threads} thread{'s' if r.threads > 1 else ''} where a mode lets itself be told. A mode pays off after so many calls that it has taken less "
                f"time than {escape(r.reference)}, its first call included. Bytes of static modes are those of the memory plan; of the dynamic mode, arrays and the "
                "records that Python keeps of them.</p>")
    rows += [f"<p>{escape(note)}</p>" for note in r.notes()]
    rows += [f"<figure>{svg(c)}</figure>" for c in charts(r)]
    if r.drawing:
        rows.append(f"<h2>The graph as written</h2><figure class=\"wide\">{r.drawing}</figure>")
    if r.passes:
        rows += ["<h2>Passes</h2>", _table([list(PASSES), *r.pass_cells()])]
    rows.append("<h2>Modes</h2><ul>" + "".join(f"<li><b>{escape(x.name)}</b>: {escape(x.note)}</li>" for x in ran) + "</ul>")
    rows += [f"<details><summary>What ran in {escape(name)}</summary><pre>{escape(code)}</pre></details>" for name, code in r.sources.items()]
    return "\n".join([*rows, "</div>"])


def _table(rows: list[list[str]], wrong: list[bool] | None = None) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in rows[0])
    lines = [f"<tr{' class=' + chr(34) + 'wrong' + chr(34) if wrong and wrong[k] else ''}>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>"
             for k, row in enumerate(rows[1:])]
    return "<div class=\"wide\"><table><thead><tr>" + head + "</tr></thead><tbody>" + "".join(lines) + "</tbody></table></div>"
