"""Which of an object's instruction sets to use: asked of the processor once, kept in the object's only written word."""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.target import Target

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
NEEDS = {"x86-64": "SSE2", "x86-64-v2": "SSE4.2 and POPCNT", "x86-64-v3": "AVX2, FMA, BMI2, F16C and MOVBE", "x86-64-v4": "AVX-512 F, BW, CD, DQ and VL"}

# (leaf, register index in eax ebx ecx edx, bits) of each level above the baseline
_V2 = ((1, 2, (0, 9, 13, 19, 20, 23)), (0x80000001, 2, (0,)))
_V3 = ((1, 2, (12, 22, 27, 28, 29)), (7, 1, (3, 5, 8)), (0x80000001, 2, (5,)))
_V4 = ((7, 1, (16, 17, 28, 30, 31)),)
_CPUID = 'call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"'
_XGETBV = 'call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)'


def level_of(target: Target) -> int:
    """The position of an x86-64 target in LEVELS; -1 for other processors, which are not asked."""
    if not target.triple.startswith("x86_64"):
        return -1
    return 3 if target.has("avx512vl") else 2 if target.has("avx2") and target.has("fma") else 1 if target.has("sse4.2") else 0


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.n = 0

    def value(self, text: str) -> str:
        self.n += 1
        self.lines.append(f"  %c{self.n} = {text}")
        return f"%c{self.n}"

    def leaf(self, number: int) -> str:
        """cpuid of a leaf (subleaf 0)."""
        signed = number - (1 << 32) if number >> 31 else number
        return self.value(f"{_CPUID}(i32 {signed}, i32 0)")

    def all_set(self, word: str, mask: int) -> str:
        """Whether all bits of a mask are set."""
        signed = mask - (1 << 32) if mask >> 31 else mask
        return self.value(f"icmp eq i32 {self.value(f'and i32 {word}, {signed}')}, {signed}")

    def both(self, *conditions: str) -> str:
        """All of them."""
        found = conditions[0]
        for c in conditions[1:]:
            found = self.value(f"and i1 {found}, {c}")
        return found


def detect_text() -> str:
    """``i32 sg_detect()``: the position in LEVELS of the best level that processor and system support."""
    t = _Text()
    top = t.value(f"extractvalue {{ i32, i32, i32, i32 }} {t.leaf(0)}, 0")
    enough = t.value(f"icmp uge i32 {top}, 7")
    extended = t.value(f"extractvalue {{ i32, i32, i32, i32 }} {t.leaf(0x80000000)}, 0")
    high = t.value(f"icmp uge i32 {extended}, {0x80000001 - (1 << 32)}")
    t.lines += [f"  br i1 {t.both(enough, high)}, label %ask, label %old", "old:", "  ret i32 0", "ask:"]
    leaves = {k: t.leaf(k) for k in (1, 7, 0x80000001)}

    def level(parts: Sequence[tuple[int, int, tuple[int, ...]]]) -> str:
        tests = []
        for leaf, register, bits in parts:
            word = t.value(f"extractvalue {{ i32, i32, i32, i32 }} {leaves[leaf]}, {register}")
            tests.append(t.all_set(word, sum(1 << b for b in bits)))
        return t.both(*tests)
    second, third, fourth = level(_V2), level(_V3), level(_V4)
    t.lines += [f"  br i1 {t.both(second, third)}, label %wide, label %narrow", "narrow:"]
    narrow = t.value(f"zext i1 {second} to i32")
    t.lines += [f"  ret i32 {narrow}", "wide:"]
    # the system must save the wide registers: XCR0 says so (readable, as OSXSAVE is part of the third level)
    saved = t.value(f"extractvalue {{ i32, i32 }} {t.value(_XGETBV)}, 0")
    ymm, zmm = t.all_set(saved, 6), t.all_set(saved, 0xE6)
    best = t.both(fourth, zmm)
    three = t.value(f"select i1 {best}, i32 3, i32 2")
    t.lines.append(f"  ret i32 {t.value(f'select i1 {ymm}, i32 {three}, i32 1')}")
    return "define internal i32 @sg_detect() nounwind noinline {\nentry:\n" + "\n".join(t.lines) + "\n}\n"


def choose_text(targets: Sequence[Target]) -> str:
    """``i32 sg_choose()``: the index of the target to use, or -1 where the processor has none of them. Several threads may find it at once: they
    find the same."""
    levels = [level_of(t) for t in targets]
    if levels == [-1] or (0 in levels and len(levels) == 1):
        return "define internal i32 @sg_choose() nounwind alwaysinline {\n  ret i32 0\n}\n"
    order = sorted(range(len(levels)), key=lambda k: levels[k])
    lines = ["  %r0 = add i32 -1, 0"]
    for n, k in enumerate(order):
        lines += [f"  %e{n} = icmp sge i32 %level, {levels[k]}", f"  %r{n + 1} = select i1 %e{n}, i32 {k}, i32 %r{n}"]
    chosen = f"%r{len(order)}"
    return detect_text() + f"""
@sg_chosen = internal global i32 -2

define internal i32 @sg_choose() nounwind {{
entry:
  %known = load atomic i32, ptr @sg_chosen monotonic, align 4
  %asked = icmp ne i32 %known, -2
  br i1 %asked, label %yes, label %no
yes:
  ret i32 %known
no:
  %level = call i32 @sg_detect()
{chr(10).join(lines)}
  store atomic i32 {chosen}, ptr @sg_chosen monotonic, align 4
  ret i32 {chosen}
}}
"""
