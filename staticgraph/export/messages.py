"""Status numbers and their texts. A status is ``kind | number << 8``; the number picks a text of the object's table."""

from __future__ import annotations

from typing import Any

from ..ir.graph import Node

OK, ERROR, NEED_WORKSPACE, CANCELLED, HOST, BAD_ARGUMENT, UNSUPPORTED_CPU = range(7)
KINDS = ("no error", "the computation failed", "the workspace is too small: NAME_workspace_bytes() tells how much is needed, the error record too",
         "the call was cancelled", "a host function failed", "an argument does not fit", "this processor lacks instructions that the object needs")
CALL, WORKSPACE, STATE, STATE_FOREIGN, STATE_NAME, STATE_BYTES, STATE_DAMAGED, UNKNOWN = range(7, 15)
FIXED = {CALL: "the sg_call structure is NULL or not aligned", WORKSPACE: "the workspace is NULL or not aligned to 64 bytes",
         STATE: "the state is NULL or not aligned to 64 bytes",
         STATE_FOREIGN: "the state was not made by NAME_state_init of this export, or is of another version",
         STATE_NAME: "the state has no variable of that name", STATE_BYTES: "the number of bytes does not fit",
         STATE_DAMAGED: "the saved state is damaged: its checksum is wrong", UNKNOWN: "unknown status"}
FIRST = 16                                   # number of the first text of an export's own


class Messages:
    """The texts of one export, in order of their numbers; ``types`` tells what the error record's a and b are."""

    def __init__(self, name: str, needs: str = "") -> None:
        kinds = [*KINDS[:UNSUPPORTED_CPU], KINDS[UNSUPPORTED_CPU] + (f": {needs}" if needs else "")]
        own = [*kinds, *(FIXED.get(k, FIXED[UNKNOWN]) for k in range(len(KINDS), FIRST))]
        self.texts = [t.replace("NAME_", f"{name}_") for t in own]
        self.types = ["-"] * FIRST
        self.sites: list[dict[str, Any] | None] = [None] * FIRST

    def add(self, text: str, type_: str = "-", site: dict[str, Any] | None = None) -> int:
        """The number of a new text."""
        self.texts.append(text)
        self.types.append(type_)
        self.sites.append(site)
        return len(self.texts) - 1

    def check(self, node: Node) -> int:
        """The number of the text of a guard: the operation and the user's own line."""
        site = node.site
        sizes = "sizes" in node.op.traits
        template = str(node.attr("message", "{a}"))
        known = all(isinstance(d, int) for d in node.aval.shape)
        plain = template.replace("{i}", "i").replace("{a}", "value").replace("{limit}", "limit").replace("{{", "{").replace("}}", "}")
        where = f"{site.describe()}" + (f" [{node.role}]" if node.role else "") + (f" [in {site.scope}]" if site.scope else "")
        kind = "s" if sizes else {"f": "f", "b": "b"}.get(node.aval.dtype.kind, "i")
        return self.add(f"{plain} (at {where})", kind, {
            "message": template, "where": where, "file": site.filename.rpartition("/")[2], "line": site.line, "role": node.role, "scope": site.scope,
            "shape": [int(d) for d in node.aval.shape] if known else None})
