"""``tf.flags``: settings from the command line. ``FLAGS.name`` reads ``sys.argv`` at its first use; ``tf.app.run`` refuses unknown flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any


class UnrecognizedFlagError(Exception):
    """A flag that the program does not define."""


class _Flag:
    def __init__(self, default: Any, parse: Callable[[str], Any], help: str | None, is_bool: bool = False) -> None:
        self.value = self.default = default
        self.parse, self.help, self.is_bool = parse, help, is_bool


class FlagValues:
    """The values of flags as attributes. AttributeError for one that is not defined."""

    def __init__(self) -> None:
        self.__dict__["_flags"], self.__dict__["_parsed"] = {}, False

    def _define(self, name: str, flag: _Flag) -> None:
        self._flags[name] = flag

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._flags:
            raise AttributeError(name)
        if not self._parsed:
            self(sys.argv, known_only=True)
        return self._flags[name].value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._flags:
            raise AttributeError(f"flag {name!r} is not defined")
        self._flags[name].value = value

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __iter__(self) -> Any:
        return iter(self._flags)

    def flag_values_dict(self) -> dict[str, Any]:
        """All values by name."""
        return {k: getattr(self, k) for k in self._flags}

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Set values from ``--name=value``, ``--name value``, ``--switch`` and ``--noswitch``; returns what is left.

        UnrecognizedFlagError for an unknown one unless ``known_only``; ValueError for a value that does not parse.
        """
        self.__dict__["_parsed"] = True
        rest, items = list(argv[:1]), list(argv[1:])
        while items:
            item = items.pop(0)
            if item == "--":
                return rest + items
            if not item.startswith("-") or item in ("-", "--"):
                rest.append(item)
                continue
            name, has_value, text = item.lstrip("-").partition("=")
            name = name.replace("-", "_") if name not in self._flags else name
            if name in self._flags:
                flag = self._flags[name]
                if flag.is_bool:
                    flag.value = flag.parse(text) if has_value else True
                elif not has_value and not items:
                    raise ValueError(f"Missing value for flag --{name}")
                else:
                    flag.value = flag.parse(text if has_value else items.pop(0))
            elif name.startswith("no") and name[2:] in self._flags and self._flags[name[2:]].is_bool and not has_value:
                self._flags[name[2:]].value = False
            elif known_only:
                rest.append(item)
            else:
                raise UnrecognizedFlagError(f"Unknown command line flag '{name}'")
        return rest


FLAGS = FlagValues()


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "t", "1", "false", "f", "0"):
        raise ValueError(f"non-boolean argument to boolean flag: {text!r}")
    return text.lower() in ("true", "t", "1")


def _definer(parse: Callable[[str], Any], is_bool: bool = False) -> Callable[..., None]:
    def define(name: str, default: Any = None, help: str | None = None, **_: Any) -> None:
        FLAGS._define(name, _Flag(default, parse, help, is_bool))
    define.__doc__ = "Define a flag: its name, the value where the command line does not give one, and what it is for."
    return define


DEFINE_string, DEFINE_integer, DEFINE_float = _definer(str), _definer(lambda t: int(t, 0)), _definer(float)
DEFINE_boolean = DEFINE_bool = _definer(_truth, True)
DEFINE_list = _definer(lambda t: [p.strip() for p in t.split(",")] if t else [])


def DEFINE_enum(name: str, default: Any, enum_values: Sequence[str], help: str | None = None, **_: Any) -> None:
    """Define a flag of a few values."""
    def parse(text: str) -> str:
        if text not in enum_values:
            raise ValueError(f"value should be one of <{'|'.join(enum_values)}>, got {text!r}")
        return text
    FLAGS._define(name, _Flag(default, parse, help))
