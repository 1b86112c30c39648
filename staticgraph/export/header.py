"""The C header of an export: valid C99 and C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..ir.aval import measured_in, upper_bound
from .cpu import NEEDS
from .entries import STATE_HEADER, parameters, size_names
from .names import mangled
from .plan import Entry, Field, Variable
from .sizes import spelled
from .state import state_bytes

C_TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "complex64": "float", "complex128": "double",
           **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)}}

COMMON = """\
#ifndef STATICGRAPH_ABI
#define STATICGRAPH_ABI 1

/* A status is kind | number << 8; NAME_error_message(status) gives its text. */
enum { SG_OK = 0, SG_ERROR = 1, SG_NEED_WORKSPACE = 2, SG_CANCELLED = 3, SG_BAD_ARGUMENT = 5, SG_UNSUPPORTED_CPU = 6 };
#define SG_KIND(status) ((status) & 255)

/* What failed, for SG_ERROR: the element and two values (NAME_error_values tells their type). For SG_NEED_WORKSPACE: the bytes needed. */
typedef struct sg_error { int64_t message, element, a, b, iteration, need, lock; } sg_error;

/* Calls task(arg, lo, hi) on ranges that together are [0, n), from as many threads as it likes, and returns when all are done. */
typedef void (*sg_parallel)(void *pool, int32_t (*task)(void *arg, int64_t lo, int64_t hi), void *arg, int64_t n);

/* What a call needs beside its arrays; zero what you do not use. One per call in flight. */
typedef struct sg_call {
  void *workspace;               /* aligned to 64 bytes; its contents do not matter */
  int64_t workspace_bytes;
  sg_parallel parallel;          /* NULL: everything on the caller's thread. The results are the same bits with any number of threads */
  void *pool;                    /* passed to parallel */
  const volatile int32_t *cancel;  /* NULL, or a flag: nonzero ends the call between two kernels, with no state changed */
  sg_error error;                /* written by the call */
} sg_call;

#if defined(_WIN32)
#define SG_IMPORT __declspec(dllimport)
#else
#define SG_IMPORT
#endif

#endif /* STATICGRAPH_ABI */
"""

DESCRIBE = """\
#ifndef STATICGRAPH_DESCRIBE
#define STATICGRAPH_DESCRIBE
/* Appends what the record tells of a failure (element, values) to a message. Returns buffer. */
static inline char *sg_describe(const char *message, int32_t values, const sg_error *e, char *buffer, size_t room) {
  double a, b;
  memcpy(&a, &e->a, 8);
  memcpy(&b, &e->b, 8);
  if (values == 'i') snprintf(buffer, room, "%s: element %lld, value %lld, limit %lld", message, (long long)e->element, (long long)e->a, (long long)e->b);
  else if (values == 'b') snprintf(buffer, room, "%s: element %lld", message, (long long)e->element);
  else if (values == 'f') snprintf(buffer, room, "%s: element %lld, value %.9g", message, (long long)e->element, a);
  else if (values == 's') snprintf(buffer, room, "%s: sizes %lld and %lld", message, (long long)e->a, (long long)e->b);
  else snprintf(buffer, room, "%s", message);
  return buffer;
}
#endif
"""

THREADS = """\
/* ---- threads: define SG_WITH_OPENMP or SG_WITH_PTHREADS before including this header ---- */
#if defined(SG_WITH_OPENMP) && !defined(STATICGRAPH_OPENMP)
#define STATICGRAPH_OPENMP
/* call.parallel = sg_parallel_openmp; compile with -fopenmp */
static inline void sg_parallel_openmp(void *pool, int32_t (*task)(void *, int64_t, int64_t), void *arg, int64_t n) {
  int64_t i;
  (void)pool;
#pragma omp parallel for schedule(static)
  for (i = 0; i < n; i++) task(arg, i, i + 1);
}
#endif

#if defined(SG_WITH_PTHREADS) && !defined(STATICGRAPH_PTHREADS)
#define STATICGRAPH_PTHREADS
#include <pthread.h>
/* A pool: sg_pool_start(&pool, 4); call.parallel = sg_parallel_pthreads; call.pool = &pool; ... sg_pool_stop(&pool).
   A call that finds the pool busy with another call runs on its own thread. */
typedef struct sg_pool {
  pthread_mutex_t lock, owner;
  pthread_cond_t work, done;
  pthread_t threads[64];
  int count, busy, stop;
  uint64_t round;
  int32_t (*task)(void *, int64_t, int64_t);
  void *arg;
  int64_t next, n, step;
} sg_pool;
static inline void sg_pool_share(sg_pool *p) {                 /* with the lock held */
  while (p->next < p->n) {
    int64_t lo = p->next, hi = lo + p->step < p->n ? lo + p->step : p->n;
    p->next = hi;
    pthread_mutex_unlock(&p->lock);
    p->task(p->arg, lo, hi);
    pthread_mutex_lock(&p->lock);
  }
}
static inline void *sg_pool_thread(void *given) {
  sg_pool *p = (sg_pool *)given;
  uint64_t seen = 0;
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (!p->stop && p->round == seen) pthread_cond_wait(&p->work, &p->lock);
    if (p->stop) break;
    seen = p->round;
    p->busy++;
    sg_pool_share(p);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}
/* Starts threads - 1 threads (the caller's is the first); returns how many there are. */
static inline int sg_pool_start(sg_pool *p, int threads) {
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->lock, NULL);
  pthread_mutex_init(&p->owner, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
  while (p->count < threads - 1 && p->count < 64 && pthread_create(&p->threads[p->count], NULL, sg_pool_thread, p) == 0) p->count++;
  return p->count + 1;
}
static inline void sg_pool_stop(sg_pool *p) {
  int k;
  pthread_mutex_lock(&p->lock);
  p->stop = 1;
  pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  for (k = 0; k < p->count; k++) pthread_join(p->threads[k], NULL);
  pthread_cond_destroy(&p->work);
  pthread_cond_destroy(&p->done);
  pthread_mutex_destroy(&p->lock);
  pthread_mutex_destroy(&p->owner);
}
static inline void sg_parallel_pthreads(void *pool, int32_t (*task)(void *, int64_t, int64_t), void *arg, int64_t n) {
  sg_pool *p = (sg_pool *)pool;
  if (p->count == 0 || pthread_mutex_trylock(&p->owner) != 0) {
    task(arg, 0, n);
    return;
  }
  pthread_mutex_lock(&p->lock);
  p->task = task;
  p->arg = arg;
  p->next = 0;
  p->n = n;
  p->step = n / (4 * (p->count + 1)) + 1;
  p->round++;
  pthread_cond_broadcast(&p->work);
  sg_pool_share(p);
  while (p->busy) pthread_cond_wait(&p->done, &p->lock);
  pthread_mutex_unlock(&p->lock);
  pthread_mutex_unlock(&p->owner);
}
#endif
"""


def header_text(name: str, entries: Sequence[Entry], variables: Sequence[Variable], owned: bool, manifest: dict[str, Any]) -> str:
    """The whole header of an export called ``name``."""
    guard = f"STATICGRAPH_EXPORT_{name.upper()}_H"
    targets = ", ".join(manifest["targets"])
    least = NEEDS.get(manifest["targets"][0])
    out = [f"/* {name}: exported by staticgraph {manifest['versions']['staticgraph']}; code for {targets}" + (f" (at least {least})" if least else "") + ".\n",
           ("   Arrays are contiguous, row-major and aligned to their element; outputs must not overlap inputs. Nothing here allocates or locks:\n"
           "   a function may be called from several threads at once, each with its own sg_call, workspace and outputs. */\n"),
           f"#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n\n", COMMON, "\n",
           '#ifdef __cplusplus\nextern "C" {\n#endif\n\n']
    if owned:
        out.append(_state(name, variables))
    for e in entries:
        out.append(_entry(name, e, owned))
    main = entries[0]
    if main.symbols:
        out.append(f"/* Workspace of {name}_{main.name} for these sizes. */\nSG_IMPORT int64_t {name}_workspace_bytes(const {name}_{main.name}_sizes *sizes);\n\n")
    else:
        most = max(int(w) for e in entries if not e.symbols for w in (p.workspace for p in e.programs))
        out.append(f"/* Enough workspace for every function whose sizes are fixed. */\n#define {name.upper()}_WORKSPACE_BYTES {most}\n"
                   f"SG_IMPORT int64_t {name}_workspace_bytes(void);\n\n")
    out.append(f"""/* What a status means: the operation and the line of the Python program. Never NULL, never freed. */
SG_IMPORT const char *{name}_error_message(int32_t status);
/* What error.a and error.b are after SG_ERROR: 'i' value and limit, 'f' the bits of a double, 'b' a bool, 's' two sizes, '-' nothing. */
SG_IMPORT int32_t {name}_error_values(int32_t status);
/* The STATICGRAPH_ABI of the object: compare it with the header's. */
SG_IMPORT int32_t {name}_abi_version(void);
/* All of this as JSON. */
SG_IMPORT const char *{name}_manifest(void);

#ifdef __cplusplus
}}
#endif

""")
    out += [DESCRIBE, (f"/* The message with the numbers of this failure: char text[512]; puts({name}_describe(status, &call, text, sizeof text)); */\n"
            f"static inline char *{name}_describe(int32_t status, const sg_call *call, char *buffer, size_t room) {{\n"
            f"  return sg_describe({name}_error_message(status), {name}_error_values(status), &call->error, buffer, room);\n}}\n\n"), THREADS,
            f"\n#endif /* {guard} */\n"]
    return "".join(out)


def _shape(f: Field, names: dict[str, str]) -> str:
    return f"{f.aval.dtype.name}[{', '.join(spelled(d, names) for d in f.aval.shape)}]"


def _note(dtype: DType) -> str:
    return {"c": ", pairs of real and imaginary part", "b": ", 0 or 1"}.get(dtype.kind, ", IEEE half precision bits" if dtype.name == "float16" else "")


def _room(e: Entry, f: Field, names: dict[str, str]) -> str:
    """What to say of an output whose size the run finds."""
    if f in e.outputs[len(e.outputs) - len(e.found):]:
        return ", written by the call"
    return f", room for {spelled(upper_bound(f.aval.size, e.bounds), names)} elements" if measured_in(f.aval) else ""


def _entry(name: str, e: Entry, owned: bool) -> str:
    full = f"{name}_{e.name}"
    names = size_names(e)
    out = []
    for what, fields, const in (("inputs", e.inputs, "const "), ("outputs", e.outputs, "")):
        if not fields:
            continue
        rows = "".join(f"  {const}{C_TYPES[f.aval.dtype.name]} *{f.c};  /* {_text(f.name)}: {_shape(f, names)}{_note(f.aval.dtype)}{_room(e, f, names)} */\n"
                       for f in fields)
        out.append(f"typedef struct {full}_{what} {{\n{rows}}} {full}_{what};\n")
    if e.symbols:
        rows = "".join(f"  int64_t {names[s]};\n" for s in e.symbols)
        out.append(f"typedef struct {full}_sizes {{\n{rows}}} {full}_sizes;\n")
        agree = "".join(f" * {_text(spelled(p, names))} must equal {_text(spelled(q, names))}\n" for p, q in e.equal)
        if agree:
            out.append(f"/* Checked at entry:\n{agree} */\n")
        out.append(f"SG_IMPORT int64_t {full}_workspace_bytes(const {full}_sizes *sizes);\n")
    else:
        out.append(f"SG_IMPORT int64_t {full}_workspace_bytes(void);\n")
    kinds = {"state": f"{'' if e.writes else 'const '}{name}_state *state", "inputs": f"const {full}_inputs *inputs", "outputs": f"const {full}_outputs *outputs",
             "sizes": f"const {full}_sizes *sizes", "call": "sg_call *call"}
    out.append(f"SG_IMPORT int32_t {full}({', '.join(kinds[p] for p in parameters(e, owned))});\n\n")
    return "".join(out)


def _text(name: str) -> str:
    return name.replace("*/", "* /").replace("\n", " ").replace("\\", "/")


def _state(name: str, variables: Sequence[Variable]) -> str:
    rows = [f"  int64_t header[{STATE_HEADER // 8}];\n"]
    for k, v in enumerate(variables):
        kind = C_TYPES[_dtype_name(v)]
        size = max(1, v.value.nbytes // _c_size(kind))
        if v.value.nbytes == 0:
            continue
        rows.append(f"  {kind} {v.c}[{size}];  /* {_text(v.name)}: {_dtype_name(v)}{list(v.value.shape)} */\n")
        pad = v.room - v.value.nbytes
        if pad:
            rows.append(f"  unsigned char pad_{k}_[{pad}];\n")
    return f"""/* The variables and random streams. The caller gives memory of {name}_state_bytes() bytes, aligned to 64; {name}_state_init fills it with the values
   at the time of the export. A call that fails leaves the state as it was. */
typedef struct {name}_state {{
{''.join(rows)}}} {name}_state;
#define {name.upper()}_STATE_BYTES {state_bytes(variables)}
SG_IMPORT int64_t {name}_state_bytes(void);
SG_IMPORT int32_t {name}_state_init({name}_state *state);
/* Copy a variable by its Python name; bytes must be its size. */
SG_IMPORT int32_t {name}_state_get(const {name}_state *state, const char *name, void *value, int64_t bytes);
SG_IMPORT int32_t {name}_state_set({name}_state *state, const char *name, const void *value, int64_t bytes);
/* The state as {name}_state_bytes() bytes for a file, and back: a load checks version and checksum, and changes nothing where they are wrong. */
SG_IMPORT int32_t {name}_state_save(const {name}_state *state, void *bytes, int64_t room);
SG_IMPORT int32_t {name}_state_load({name}_state *state, const void *bytes, int64_t room);

"""


def _dtype_name(v: Variable) -> str:
    return v.value.dtype.name


def _c_size(kind: str) -> int:
    return {"float": 4, "double": 8, "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4}.get(kind, 8)


__all__ = ["C_TYPES", "header_text", "mangled"]
