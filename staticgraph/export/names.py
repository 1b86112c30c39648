"""Names in C: how a name that is not an identifier becomes one, and which names clash.

The rule: every character other than an ASCII letter, a digit or ``_`` becomes ``_``; a name that starts with a digit, or is empty, gets a ``_``
in front; a keyword of C99 or C++ gets a ``_`` behind. Two names of one list that become equal are refused, not numbered: a number would
depend on their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import GraphError

_KEYWORDS = frozenset(["auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "_Bool", "_Complex", "_Imaginary", "alignas", "alignof", "and", "and_eq", "asm", "atomic_cancel", "atomic_commit", "atomic_noexcept", "bitand", "bitor", "bool", "catch", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const_cast", "consteval", "constexpr", "constinit", "decltype", "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "reflexpr", "reinterpret_cast", "requires", "static_assert", "static_cast", "synchronized", "template", "this", "thread_local", "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t", "xor", "xor_eq"])


def mangled(name: str) -> str:
    """The C identifier of a name."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not made or made[0].isdigit():
        made = "_" + made
    return made + "_" if made in _KEYWORDS else made


def distinct(names: Iterable[str], what: str) -> dict[str, str]:
    """Each name with its C identifier. GraphError where two of them become the same one."""
    taken: dict[str, str] = {}
    out: dict[str, str] = {}
    for name in names:
        c = mangled(name)
        if c in taken:
            raise GraphError(f"export: the {what} {taken[c]!r} and {name!r} are both {c!r} in C; rename one of them")
        taken[c], out[name] = name, c
    return out
