"""Read and edit `vextract.toml`, the manifest that a project's owner writes.

It is in the words of the releases' manifests: roots beside those of the features, where upstream's files go, what is
replaced or cut, and named fixes.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import tomlkit
from tomlkit.items import Array

from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.manifest.entries import VENDORED, Feature, Manifest
from extractor.values.manifest.parse import read_fix, read_replacement
from extractor.values.toml_table import Table, read_toml

OWN_MANIFEST = "vextract.toml"
_HEAD = "What of verl this project has beyond its features. Yours: see docs/own-manifest.md of vextract."
_SYMBOL = re.compile(r"verl(\.\w+)*(:(\w+|\*))?")


def read_own_manifest(path: Path, *, missing: bool = True) -> str:
    """Return the text of a `vextract.toml`.

    Args:
        path: Of the file.
        missing: Return an empty text where it is not there.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return readers.read_text(path)
    except OSError as error:
        if missing and isinstance(error, FileNotFoundError):
            return ""
        raise UsageError(f"{path}: {error.strerror}", hint=f"give a {OWN_MANIFEST}, a text in UTF-8") from None


def name_symbols(name: str) -> str:
    """Return the symbols that a name stands for: "verl/utils/x.py" -> "verl.utils.x:*".

    Raises:
        UsageError: it is no name of a symbol, a module or a file of verl's.
    """
    dotted = name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    if not _SYMBOL.fullmatch(dotted):
        raise UsageError(
            f"{name!r} is no symbol or file of verl", hint="write `verl.utils.x:f`, `verl.utils.x` or `verl/utils/x.py`"
        )
    return dotted if ":" in dotted else f"{dotted}:*"


def add_own(manifest: Manifest, text: str) -> Manifest:
    """Return a release's manifest with what the owner's adds to it.

    Args:
        manifest: The release's.
        text: Of `vextract.toml`; may be empty.

    Raises:
        UsageError: it is malformed; the message names the key.
    """
    top = Table(read_toml(text, OWN_MANIFEST), OWN_MANIFEST)
    top.keys_are("roots layout replacements cuts fixes")
    fixes = tuple(read_fix(table, own=True) for table in top.array("fixes"))
    for fix in fixes:
        if any(fix.id == item.id for item in manifest.fixes):
            raise top.error("fixes", f"{fix.id!r} is a fix of vextract's", hint="give yours another id")
    layout = top.strings_by_name("layout", optional=True)
    for source, target in layout.items():
        below = re.fullmatch(rf"{VENDORED}(/[\w-]+)*(/|\.py)", target)
        if not below or source.endswith("/") != target.endswith("/"):
            raise top.error(
                f"layout.{source}",
                f"is {target!r}",
                hint=f"a file goes to {VENDORED}/x.py, a folder with / at its end to {VENDORED}/x/",
            )
    cut = Feature("cut", "", cut=top.symbols("cuts", optional=True), withheld=f"{OWN_MANIFEST} cuts it")
    return replace(
        manifest,
        own=tuple(sorted({*manifest.own, *list_own_roots(text)})),
        layout={**manifest.layout, **layout},
        replacements=(*manifest.replacements, *map(read_replacement, top.array("replacements"))),
        fixes=(*manifest.fixes, *fixes),
        withheld=(*manifest.withheld, *([cut] if cut.cut else [])),
    )


def list_own_roots(text: str) -> set[str]:
    """Return the roots in the text of a `vextract.toml`, as symbols."""
    return {*map(name_symbols, Table(read_toml(text, OWN_MANIFEST), OWN_MANIFEST).strings("roots", optional=True))}


def edit_roots(text: str, added: Iterable[str], dropped: Iterable[str]) -> str:
    """Add and drop roots in `vextract.toml`, keeping everything else.

    Raises:
        UsageError: one that is to be dropped is not there.
    """
    added, dropped = tuple(added), tuple(dropped)
    if not added and not dropped:
        return text
    document = tomlkit.parse(text)
    if not text:
        document.add(tomlkit.comment(_HEAD))
    roots = document.get("roots", tomlkit.array())
    assert isinstance(roots, Array)
    known = {name_symbols(str(item)): item for item in roots}
    for name in dropped:
        if name_symbols(name) not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UsageError(f"{OWN_MANIFEST} has no root {name_symbols(name)}", hint=f"its roots: {there}")
        roots.remove(known.pop(name_symbols(name)))
    for name in added:
        if name_symbols(name) not in known:
            roots.append(known.setdefault(name_symbols(name), name_symbols(name)))
    document["roots"] = roots.multiline(len(roots) > 1) if roots else tomlkit.array()
    return tomlkit.dumps(document)
