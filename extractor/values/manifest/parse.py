"""Parse a manifest."""

from __future__ import annotations

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
from extractor.values.toml_table import Reader, Table

SCHEMA = 1
PARITIES = ("exact", "met")
EDIT_OPS = (
    "replace",
    "drop_argument",
    "set_argument",
    "rename_import",
    "drop_decorator",
    "drop_statement",
    "re_export",
)


def parse_manifest(data: Mapping[str, object], file: str) -> Manifest:
    """Read a manifest.

    Args:
        data: What it says in full, as TOML gives it.
        file: Its name, for error messages.

    Raises:
        UsageError: the manifest is malformed; the message names the file and the key.
    """
    reader = Reader(data, file)
    top = reader.top
    top.keys_are(
        "schema release follows source layout roles features replacements fixes requirements engines algorithms effects"
        " renamed_keys whole"
    )
    if top.integer("schema") != SCHEMA:
        raise reader.error("schema", f"this vextract reads schema {SCHEMA}", hint="upgrade vextract")
    release = top.string("release")
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.\w+)?", release):
        raise reader.error("release", f"{release!r} is no release number", hint="write it as in 0.6.1")
    source = top.table("source")
    source.keys_are("wheel wheel_sha256 sdist sdist_sha256")
    pin = SourcePin(
        release=release,
        wheel_filename=source.string("wheel"),
        wheel_sha256=source.digest("wheel_sha256"),
        sdist_filename=source.optional_string("sdist"),
        sdist_sha256=source.digest("sdist_sha256") if source.has("sdist_sha256") else None,
    )
    effects = top.table("effects", optional=True)
    effects.keys_are("keep drop")
    parts = [_feature(table) for table in top.tables("features", optional=True)]
    manifest = Manifest(
        release=release,
        pin=pin,
        layout=top.strings_by_name("layout"),
        roles=tuple(_role(table) for table in top.tables("roles")),
        features=tuple(part for part in parts if not part.withheld),
        withheld=tuple(part for part in parts if part.withheld),
        replacements=tuple(read_replacement(table) for table in top.array("replacements")),
        fixes=tuple(read_fix(table) for table in top.array("fixes")),
        requirements=_requirements(top.table("requirements")),
        engines=top.strings("engines"),
        algorithms=tuple(sorted(top.strings("algorithms"))),
        keep_effects=effects.strings("keep", optional=True),
        drop_effects=effects.strings("drop", optional=True),
        whole=top.symbols("whole", optional=True),
        renamed_keys=_renamed_keys(top.table("renamed_keys", optional=True)),
    )
    for key, names in (("engines", manifest.engines), ("algorithms", manifest.algorithms)):
        for name in names:
            if not re.fullmatch(r"\w+", name):
                raise reader.error(key, f"holds {name!r}", hint="name them as their templates are named")
    _check_references(manifest, reader)
    return manifest


def _role(table: Table) -> Role:
    table.keys_are("symbols engine feature modules")
    return Role(
        name=table.name,
        symbols=table.symbols("symbols"),
        engine=table.optional_string("engine"),
        feature=table.optional_string("feature"),
        modules=table.strings("modules", optional=True),
    )


def _feature(table: Table) -> Feature:
    table.keys_are("summary cut replaced requirements algorithms needs engines withheld by_name")
    return Feature(
        name=table.name,
        summary=table.string("summary"),
        cut=table.symbols("cut", optional=True),
        replaced=table.strings_by_name("replaced", optional=True),
        requirements=table.requirements("requirements", optional=True),
        algorithms=table.strings("algorithms", optional=True),
        needs=table.strings("needs", optional=True),
        engines=table.strings("engines", optional=True),
        withheld=table.optional_string("withheld") or "",
        by_name=table.optional_string("by_name") or "",
    )


def read_replacement(table: Table) -> Replacement:
    """Read an entry of `[[replacements]]`."""
    table.keys_are("symbol with why engine")
    return Replacement(
        symbol=table.string("symbol"),
        target=table.string("with"),
        why=table.string("why"),
        engine=table.optional_string("engine"),
    )


def read_fix(table: Table, *, own: bool = False) -> Fix:
    """Read an entry of `[[fixes]]`; one of the owner's needs no test."""
    table.keys_are("id why module edits replaced test parity engine")
    parity = table.optional_string("parity")
    if parity not in (None, *PARITIES):
        raise table.reader.error(table.key("parity"), f"{parity!r} is unknown", hint="one of " + ", ".join(PARITIES))
    return Fix(
        id=table.string("id"),
        why=table.string("why"),
        module=table.string("module"),
        edits=tuple(_edit(edit) for edit in table.array("edits")),
        test=(table.optional_string("test") or "") if own else table.string("test"),
        parity=parity,
        replaced=table.strings_by_name("replaced", optional=True),
        engine=table.optional_string("engine"),
    )


def _edit(table: Table) -> Edit:
    table.keys_are("op within match with count keyword imports")
    op = table.string("op")
    if op not in EDIT_OPS:
        raise table.reader.error(table.key("op"), f"{op!r} is unknown", hint="one of " + ", ".join(EDIT_OPS))
    return Edit(
        op=op,
        within=table.optional_string("within"),
        match=table.optional_string("match"),
        replacement=table.optional_string("with"),
        count=table.integer("count", 1),
        keyword=table.optional_string("keyword"),
        imports=table.strings("imports", optional=True),
    )


def _requirements(table: Table) -> Requirements:
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


def _renamed_keys(table: Table) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for old in table.data:
        new = table.string(old)
        for key in (old, new):
            if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
                raise table.reader.error(table.key(old), f"{key!r} is no config key", hint='write "a.b" = "a.c"')
        if new in table.data:
            raise table.reader.error(table.key(old), f"{new!r} is renamed itself", hint="name the final key")
        renamed[old] = new
    return renamed


def _check_references(manifest: Manifest, reader: Reader) -> None:
    features = [feature.name for feature in manifest.features]
    for feature in manifest.features:
        for needed in feature.needs:
            if needed not in features:
                raise reader.error(
                    f"features.{feature.name}.needs", f"no feature {needed!r}", hint="features: " + ", ".join(features)
                )
    for role in manifest.roles:
        if role.feature is not None and role.feature not in features:
            raise reader.error(
                f"roles.{role.name}.feature", f"no feature {role.feature!r}", hint="features: " + ", ".join(features)
            )
        if role.engine is not None and role.engine not in manifest.engines:
            raise reader.error(
                f"roles.{role.name}.engine",
                f"no engine {role.engine!r}",
                hint="engines: " + ", ".join(manifest.engines),
            )
    ids = [fix.id for fix in manifest.fixes]
    for index, fix_id in enumerate(ids):
        if fix_id in ids[:index]:
            raise reader.error(f"fixes[{index}].id", f"{fix_id!r} stands twice", hint="give each fix its own id")
