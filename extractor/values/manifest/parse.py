"""Parse a manifest."""

import re
from collections.abc import Mapping

from extractor.values.manifest.entries import (
    Edit,
    Feature,
    Fix,
    Manifest,
    Replacement,
    Requirements,
    Role,
    SourcePin,
)
from extractor.values.options import RECIPES
from extractor.values.toml_table import Table

SCHEMA = 1
PARITIES = ("exact", "met")
EDIT_OPS = ("replace", "drop_argument", "set_argument", "drop_statement", "re_export")


def parse_manifest(data: Mapping[str, object], file: str) -> Manifest:
    """Read a manifest.

    Args:
        data: What it says in full, as TOML gives it.
        file: Its name, for error messages.

    Raises:
        UsageError: the manifest is malformed; the message names the file and the key.
    """
    top = Table(data, file)
    top.keys_are(
        "schema release follows source layout roles features replacements fixes requirements engines algorithms effects"
        " renamed_keys whole"
    )
    if top.integer("schema") != SCHEMA:
        raise top.error("schema", f"this vextract reads schema {SCHEMA}", hint="upgrade vextract")
    release = top.string("release")
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.\w+)?", release):
        raise top.error("release", f"{release!r} is no release number", hint="write it as in 0.6.1")
    pin = top.table("source").read(
        SourcePin,
        {"wheel_sha256": Table.digest},
        {"wheel_filename": "wheel"},
        release=release,
    )
    effects = top.table("effects", optional=True)
    effects.keys_are("keep drop")
    checked = {"symbols": Table.symbols, "cut": Table.symbols, "requirements": Table.requirements}
    parts = [table.read(Feature, checked, name=table.name) for table in top.tables("features", optional=True)]
    manifest = Manifest(
        release=release,
        pin=pin,
        layout=top.strings_by_name("layout"),
        roles=tuple(table.read(Role, checked, name=table.name) for table in top.tables("roles")),
        features=tuple(part for part in parts if not part.withheld),
        withheld=tuple(part for part in parts if part.withheld),
        replacements=tuple(read_replacement(table) for table in top.array("replacements")),
        fixes=tuple(read_fix(table) for table in top.array("fixes")),
        requirements=_read_requirements(top.table("requirements")),
        engines=top.strings("engines"),
        algorithms=tuple(sorted(top.strings("algorithms"))),
        keep_effects=effects.strings("keep", optional=True),
        drop_effects=effects.strings("drop", optional=True),
        whole=top.symbols("whole", optional=True),
        renamed_keys=_read_renamed_keys(top.table("renamed_keys", optional=True)),
    )
    tables = {key: [item.name for item in found] for key, found in (("roles", manifest.roles), ("features", parts))}
    for key, names in {"engines": manifest.engines, "algorithms": manifest.algorithms, **tables}.items():
        for name in names:
            if not re.fullmatch(r"\w+", name):
                raise top.error(key, f"holds {name!r}", hint="name them as their templates are named")
    _check_references(manifest, top)
    return manifest


def read_replacement(table: Table) -> Replacement:
    """Read an entry of `[[replacements]]`."""
    return table.read(Replacement, keys={"target": "with"})


def read_fix(table: Table, *, own: bool = False) -> Fix:
    """Read a `[[fixes]]` entry; the owner's fixes need no test."""
    without = {"test": lambda table, key: table.optional_string(key) or ""} if own else {}
    edits = {"edits": lambda table, key: tuple(map(_read_edit, table.array(key)))}
    fix = table.read(Fix, {**edits, **without})
    if fix.parity not in (None, *PARITIES):
        raise table.error("parity", f"{fix.parity!r} is unknown", hint="one of " + ", ".join(PARITIES))
    return fix


def _read_edit(table: Table) -> Edit:
    edit = table.read(Edit, keys={"replacement": "with"})
    if edit.op not in EDIT_OPS:
        raise table.error("op", f"{edit.op!r} is unknown", hint="one of " + ", ".join(EDIT_OPS))
    return edit


def _read_requirements(table: Table) -> Requirements:
    table.keys_are("base dev engines recipes")
    engines = table.table("engines", optional=True)
    recipes = table.table("recipes", optional=True)
    recipes.keys_are(" ".join(RECIPES))
    return Requirements(
        base=table.requirements("base"),
        engines={name: engines.requirements(name) for name in engines.data},
        dev=table.requirements("dev", optional=True),
        recipes={name: recipes.requirements(name) for name in recipes.data},
    )


def _read_renamed_keys(table: Table) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for old in table.data:
        new = table.string(old)
        for key in (old, new):
            if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
                raise table.error(old, f"{key!r} is no config key", hint='write "a.b" = "a.c"')
        if new in table.data:
            raise table.error(old, f"{new!r} is renamed itself", hint="name the final key")
        renamed[old] = new
    return renamed


def _check_references(manifest: Manifest, top: Table) -> None:
    known = {"feature": [feature.name for feature in manifest.features], "engine": list(manifest.engines)}
    named = [(f"features.{item.name}.needs", "feature", name) for item in manifest.features for name in item.needs]
    for role in manifest.roles:
        named += [(f"roles.{role.name}.{what}", what, getattr(role, what)) for what in known if getattr(role, what)]
    for where, what, name in named:
        if name not in known[what]:
            raise top.error(where, f"no {what} {name!r}", hint=f"{what}s: {', '.join(known[what])}")
    ids = [fix.id for fix in manifest.fixes]
    for index, fix_id in enumerate(ids):
        if fix_id in ids[:index]:
            raise top.error(f"fixes[{index}].id", f"{fix_id!r} stands twice", hint="give each fix its own id")
