"""Compiled objects on disk, between processes.

A private folder (mode 0700) of files named by the hash of all that determines an object. A file holds a magic word, the length and the
hash of its content; whatever does not fit is ignored and compiled again. Writing goes to a temporary name that is then renamed.
``SG_CACHE=0`` switches the cache off, ``SG_CACHE_DIR`` moves it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

from ..codegen.target import Target
from ..config import log

_MAGIC = b"SGOBJ1\n"
_LIMIT = 512 << 20                           # bytes of all files together; the oldest go first
_hits = {"hit": 0, "miss": 0}


def folder() -> Path | None:
    """The cache's folder, made if there is none; None where the cache is off or the folder is not private."""
    if os.environ.get("SG_CACHE", "1") == "0":
        return None
    base = os.environ.get("SG_CACHE_DIR")
    path = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "staticgraph"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.stat()
        # objects are machine code: nobody else may be able to put one here
        if hasattr(os, "getuid") and (info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o022):
            return None
    except (OSError, RuntimeError):
        return None
    return path


@cache
def _sources() -> str:
    """The hash of the project's own code that decides what machine code comes out."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for part in ("codegen", "runtime", "schedule"):
        for file in sorted((root / part).rglob("*.py")):
            digest.update(file.name.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _llvm() -> str:
    import llvmlite
    return str(llvmlite.__version__)


def key(text: str, target: Target, optimize: bool) -> str:
    """The name of the object made of ``text``."""
    digest = hashlib.sha256()
    for part in (text, repr(target), _llvm(), _sources(), str(optimize)):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """The object, or None where there is none or any doubt."""
    path = folder()
    if path is None:
        return None
    try:
        data = (path / name).read_bytes()
    except OSError:
        _hits["miss"] += 1
        return None
    head = len(_MAGIC) + 8 + 32
    body = data[head:]
    fine = (data[:len(_MAGIC)] == _MAGIC and int.from_bytes(data[len(_MAGIC):len(_MAGIC) + 8], "little") == len(body)
            and hashlib.sha256(body).digest() == data[len(_MAGIC) + 8:head])
    _hits["hit" if fine else "miss"] += 1
    log("cache", f"{'hit' if fine else 'damaged'} {name[:16]} {len(body)} bytes")
    return body if fine else None


def store(name: str, image: bytes) -> None:
    """Keep an object; a full or read-only disk is no error."""
    path = folder()
    if path is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path, prefix=".new")
        with os.fdopen(handle, "wb") as f:
            f.write(_MAGIC + len(image).to_bytes(8, "little") + hashlib.sha256(image).digest() + image)
        os.replace(temporary, path / name)
        temporary = None
        if name.startswith("0"):             # one write in sixteen looks at the total
            _trim(path)
    except OSError as error:
        log("cache", f"not kept: {error}")
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _trim(path: Path) -> None:
    files = sorted((f for f in path.iterdir() if f.is_file()), key=lambda f: f.stat().st_mtime)
    total = sum(f.stat().st_size for f in files)
    for f in files:
        if total <= _LIMIT:
            break
        total -= f.stat().st_size
        with contextlib.suppress(OSError):
            f.unlink()


def statistics() -> dict[str, int]:
    """Hits and misses of this process."""
    return dict(_hits)
