"""Collect names by which project code may use upstream's methods.

They are read off the text, for speed: a name too many keeps a method that could go, and does no harm.
"""

import builtins
import re
from collections import Counter
from collections.abc import Mapping

from extractor.pipeline.index import MemberNames
from extractor.pipeline.render.layers import list_layers, map_files
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.reachable import find_reachable

_ATTRIBUTE = re.compile(r"\.(\w+)")
# The dot comes first, which a search leaps to: ten times as fast as looking for what stands before it.
_OWN = re.compile(r"\.(?:(?<=\bself\.)|(?<=\bcls\.)|(?<=\bsuper\(\)\.))(\w+)")
_STRING = re.compile(r"""["']([A-Za-z_]\w*(?:\.\w+)*)["']""")
# A string that something takes for the name of an attribute.
_NAMED = re.compile(
    r"""\b(?:(?:get|set|has|del)attr|methodcaller|attrgetter|patch|object)"""
    r"""\([^()"']*["']([A-Za-z_]\w*(?:\.\w+)*)["']"""
)
_LAST_WORD = re.compile(r"\w{3,}\Z")
# What stands before and behind a value in a string: f"get_{x}", "get_%s", "get_" + x. Fewer than three letters say
# nothing.
_BEGIN = re.compile(r"""["'](\w{3,})(?:%|["'] \+)""")
_END = re.compile(r"""(?:\}|%s|\+ ["'])(\w{3,})""")
_CLASS = re.compile(r"^ *class (\w+)(?:\(([^)]*)\))?:", re.MULTILINE)
# Imports from other packages: not relative, and not from the project's own, whose name is filled in.
_OUTSIDE = re.compile(r"^from \w[\w.]* import (\([^)]*\)|.*)|^import (\w+)", re.MULTILINE)


def is_set_up(path: str) -> bool:
    """Tell whether a file only sets a project up."""
    return path == "setup.py" or path.startswith("launch/")


def collect_method_names(manifest: Manifest, options: Options) -> MemberNames:
    """Return names by which a project's shipped code may reach methods.

    What a class of ours uses of itself counts where the class has one of verl's above it, or a class of ours has both.
    """
    found = map_files((*list_layers(manifest, options), "shims"), options.package)
    texts = {
        path: templates[-1].text or ""
        for path, templates in found.items()
        if path.endswith(".py") and not is_set_up(path)
    }
    tests = {path for path in texts if path.startswith("tests/")}
    words = find_method_names("\n".join(texts[path] for path in sorted(texts.keys() - tests)))
    tested = find_tested_names("\n".join(texts[path] for path in sorted(tests)))
    kin = [text for path, text in texts.items() if f"{options.package}/shims/" in path]
    kin += _add_kin(texts)
    own = {name for text in kin for name in _OWN.findall(text)}
    return MemberNames(words.any | tested.any | own, put_together=words.put_together | tested.put_together)


def find_tested_names(text: str) -> MemberNames:
    """Return names by which tests may reach methods; most strings there are values."""
    return find_method_names(text, strings=_NAMED)


def find_method_names(code: str, *, strings: re.Pattern[str] = _STRING) -> MemberNames:
    """Return names by which Python text may reach methods.

    Args:
        code: the text.
        strings: finds those that may be names; its one group is the name, which may be a dotted one.
    """
    own = Counter(_OWN.findall(code))
    names = {*(Counter(_ATTRIBUTE.findall(code)) - own), *map(_find_keyword, code.split("="))}
    for text in strings.findall(code):
        names.update(text.split("."))
    begun = {*_BEGIN.findall(code), *(word for text in code.split("{") if (word := _find_word_before(text)))}
    patterns = (*(f"{begin}*" for begin in begun), *(f"*{end}" for end in _END.findall(code)))
    return MemberNames(frozenset(names), frozenset(own), frozenset(patterns))


def _add_kin(texts: Mapping[str, str]) -> list[str]:
    """Return the texts with a class related to one of verl's."""
    bases: dict[str, set[str]] = {}
    theirs: set[str] = set()
    classes = {path: found for path, text in texts.items() if (found := _CLASS.findall(text))}
    for path, found in classes.items():
        outside = {name for names in _OUTSIDE.findall(texts[path]) for name in re.findall(r"\w+", " ".join(names))}
        for name, above in found:
            chains = [base.partition("[")[0].strip() for base in above.split(",") if "=" not in base and base.strip()]
            bases.setdefault(name, set()).update(chain.rpartition(".")[2] for chain in chains)
            theirs |= {chain.rpartition(".")[2] for chain in chains if chain.partition(".")[0] not in outside}
    theirs -= {*bases, *dir(builtins)}
    kin: set[str] = set()
    for name in bases:
        family = find_reachable([name], lambda one: bases.get(one, ()))
        if family & theirs:
            kin |= family
    return [texts[path] for path, found in classes.items() if any(name in kin for name, _ in found)]


def _find_keyword(text: str) -> str:
    """Return the argument name before an equals sign."""
    return text[-60:].rpartition("(")[2].rpartition(" ")[2]


def _find_word_before(text: str) -> str:
    """Return three or more string letters before a value, or ""."""
    found = _LAST_WORD.search(text[-60:])
    return found[0] if found is not None else ""
