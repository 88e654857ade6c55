"""The names by which a project's own code may use the methods of upstream's classes."""

from __future__ import annotations

import re

from extractor.pipeline.index import Words
from extractor.pipeline.render.layers import behind, layers_of
from extractor.values.manifest import Manifest
from extractor.values.options import Options

_ATTRIBUTE = re.compile(r"\.(\w+)")
_STRING = re.compile(r"""["']([A-Za-z_]\w*(?:\.\w+)*)["']""")
_LAST_WORD = re.compile(r"\w{3,}\Z")
# What stands before and behind a value in a string: f"get_{x}", "get_%s", "get_" + x. Fewer than three letters say
# nothing.
_BEGIN = re.compile(r"""["'](\w{3,})(?:%|["'] \+)""")
_END = re.compile(r"""(?:\}|%s|\+ ["'])(\w{3,})""")


def words_of_templates(manifest: Manifest, options: Options) -> Words:
    """Return the names by which a project's own code, hooks and tests as they are shipped, may reach methods.

    They are read off the text, for speed: a name too many keeps a method that could go, and does no harm.
    """
    layers = (*layers_of(manifest, options), "shims")
    found = behind(layers, options.package)
    return words_of_text("\n".join(found[path][-1].text or "" for path in sorted(found) if path.endswith(".py")))


def words_of_text(code: str) -> Words:
    """Return the names by which formatted Python code, or what is nearly Python, may reach methods."""
    names = {*_ATTRIBUTE.findall(code), *map(_keyword, code.split("="))}
    for text in _STRING.findall(code):
        names.update(text.split("."))
    begun = {*_BEGIN.findall(code), *(word for text in code.split("{") if (word := _word_before(text)))}
    patterns = (*(f"{begin}*" for begin in begun), *(f"*{end}" for end in _END.findall(code)))
    return Words(frozenset(names), put_together=frozenset(patterns))


def _keyword(text: str) -> str:
    """Return the name of an argument that stands before an equals sign."""
    return text[-60:].rpartition("(")[2].rpartition(" ")[2]


def _word_before(text: str) -> str:
    """Return the letters of a string before a value, three or more."""
    found = _LAST_WORD.search(text[-60:])
    return found[0] if found is not None else ""
