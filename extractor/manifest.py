"""What a release of verl offers, by role: roots, layout, features, replacements, named fixes and requirements.

One TOML file per supported release lies in `manifests/`. Symbols are written `dotted.module:name`; `dotted.module:*` stands
for every name that the module defines, `dotted.module.*` for every module below it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from extractor.errors import UsageError
from extractor.options import Options

SCHEMA = 1
EDIT_OPS = ("replace", "drop_argument", "positional_argument", "rename_import", "drop_decorator", "drop_statement")


@dataclass(frozen=True)
class SourcePin:
    """The release's files on the package index, and their digests."""

    release: str
    wheel_filename: str
    wheel_sha256: str
    sdist_filename: str | None = None
    sdist_sha256: str | None = None


@dataclass(frozen=True)
class Role:
    """A part that a project is built from, and the symbols that are its roots.

    Attributes:
        name: "algorithms", "actor", "critic", "rollout", ...
        symbols: Roots.
        engine: The engine that needs it; None: every engine.
        feature: The feature that switches it on; None: always on.
        modules: Modules whose registrants are kept although nothing else touches the module.
    """

    name: str
    symbols: tuple[str, ...]
    engine: str | None = None
    feature: str | None = None
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Feature:
    """An optional part of upstream that costs nothing where it is not asked for.

    Attributes:
        name: As in `--with NAME`.
        summary: One line for `vextract versions`.
        cut: Symbols (patterns) that become stubs while the feature is off; a stub raises and names the feature.
        replaced: Symbols that give way to ours while the feature is off.
        requirements: What the generated project needs in addition while it is on.
        algorithms: Presets that switch it on by themselves.
        engines: Engines that have it; empty: all.
    """

    name: str
    summary: str
    cut: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replacement:
    """An upstream symbol that every project takes from ours instead.

    Attributes:
        symbol: "verl.utils.fs:copy_to_local".
        target: Module and name below the package: "shims.filesystem:copy_to_local".
        why: Reason, shown by `explain` and NOTICE.
        engine: The engine it is for; None: every engine.
    """

    symbol: str
    target: str
    why: str
    engine: str | None = None


@dataclass(frozen=True)
class Edit:
    """One step of a named fix; see `extractor.rewrite` for what each `op` does."""

    op: str
    within: str | None = None
    match: str | None = None
    replacement: str | None = None
    count: int = 1
    keyword: str | None = None
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fix:
    """A named repair of upstream code that is wrong or does not run.

    Attributes:
        id: Its name, as in the file header, `explain` and NOTICE.
        why: What is wrong upstream, in one sentence.
        module: Dotted upstream module.
        edits: What changes.
        replaced: Symbols that give way to ours: {"verl.utils.device:get_torch_device": "shims.device:get_torch_device"}.
        test: The test that fails without it ("tests/...::name").
        engine: The engine it is for; None: every engine.
    """

    id: str
    why: str
    module: str
    edits: tuple[Edit, ...]
    test: str
    replaced: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None


@dataclass(frozen=True)
class Requirements:
    """Third-party ranges of the generated project."""

    base: tuple[str, ...]
    engines: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Manifest:
    """Everything vextract knows about one release of verl."""

    release: str
    pin: SourcePin
    layout: Mapping[str, str]
    roles: tuple[Role, ...]
    features: tuple[Feature, ...]
    replacements: tuple[Replacement, ...]
    fixes: tuple[Fix, ...]
    requirements: Requirements
    engines: tuple[str, ...]
    algorithms: tuple[str, ...]
    keep_effects: tuple[str, ...] = ()
    drop_effects: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    def target_path(self, upstream_path: str) -> str:
        """Where an upstream file goes in the package: "verl/protocol.py" -> "protocol.py"."""
        path = upstream_path.removeprefix("verl/")
        for prefix in sorted(self.layout, key=len, reverse=True):
            if path == prefix or (prefix.endswith("/") and path.startswith(prefix)):
                return self.layout[prefix] + path.removeprefix(prefix)
        return path

    def active_roles(self, options: Options) -> tuple[Role, ...]:
        """The roles that a project with these options has."""
        return tuple(
            role
            for role in self.roles
            if role.engine in (None, options.engine) and (role.feature is None or role.feature in options.features)
        )

    def requirements_for(self, options: Options) -> tuple[str, ...]:
        """PEP 508 requirements of a project with these options, sorted."""
        chosen = {*self.requirements.base, *self.requirements.engines.get(options.engine, ())}
        for feature in self.features:
            if feature.name in options.features:
                chosen.update(feature.requirements)
        return tuple(sorted(chosen, key=str.lower))


def matches(symbol: str, patterns: Iterable[str]) -> bool:
    """True where `symbol` ("module:name") is named by one of the patterns."""
    return any(fnmatchcase(symbol, pattern) for pattern in patterns)


def parse_manifest(text: str, file: str) -> Manifest:
    """Read a manifest.

    Args:
        text: The TOML text.
        file: Its name, for error messages.

    Raises:
        UsageError: the manifest is malformed; the message names the file and the key.
    """
    reader = _Reader(text, file)
    top = reader.top
    top.keys_are(
        "schema release source layout roles features replacements fixes requirements engines algorithms effects layers"
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
    manifest = Manifest(
        release=release,
        pin=pin,
        layout=top.strings_by_name("layout"),
        roles=tuple(_role(table) for table in top.tables("roles")),
        features=tuple(_feature(table) for table in top.tables("features", optional=True)),
        replacements=tuple(_replacement(table) for table in top.array("replacements")),
        fixes=tuple(_fix(table) for table in top.array("fixes")),
        requirements=_requirements(top.table("requirements")),
        engines=top.strings("engines"),
        algorithms=top.strings("algorithms"),
        keep_effects=effects.strings("keep", optional=True),
        drop_effects=effects.strings("drop", optional=True),
        layers=top.strings("layers", optional=True),
    )
    _check_references(manifest, reader)
    return manifest


class _Reader:
    """A parsed TOML file that remembers where it came from."""

    def __init__(self, text: str, file: str) -> None:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        self.file = file
        try:
            data = tomlkit.parse(text).unwrap()
        except TOMLKitError as error:
            raise UsageError(
                f"{file}: not valid TOML: {error}", hint="reinstall vextract, or correct the file at the place named"
            ) from None
        self.top = _Table(self, "", data)

    def error(self, key: str, problem: str, *, hint: str) -> UsageError:
        return UsageError(f"{self.file}: key `{key}`: {problem}", hint=hint)


class _Table:
    """One table of a manifest: typed access, with errors that name the key."""

    def __init__(self, reader: _Reader, path: str, data: Mapping[str, object]) -> None:
        self.reader = reader
        self.path = path
        self.data = data

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return name in self.data

    def keys_are(self, known: str) -> None:
        """Refuse keys outside `known` (names separated by spaces)."""
        from difflib import get_close_matches

        names = known.split()
        for name in self.data:
            if name not in names:
                near = get_close_matches(name, names, 1)
                hint = f"did you mean `{near[0]}`?" if near else "known keys here: " + ", ".join(names)
                raise self.reader.error(self.key(name), "unknown key", hint=hint)

    def get(self, name: str, kind: type, wanted: str) -> object:
        if name not in self.data:
            raise self.reader.error(self.key(name), "is missing", hint=f"add it: {wanted}")
        value = self.data[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.reader.error(self.key(name), f"is {value!r}", hint=f"it must be {wanted}")
        return value

    def string(self, name: str) -> str:
        value = self.get(name, str, "a string")
        assert isinstance(value, str)
        if not value.strip():
            raise self.reader.error(self.key(name), "is empty", hint="it must be a non-empty string")
        return value

    def optional_string(self, name: str) -> str | None:
        return self.string(name) if self.has(name) else None

    def integer(self, name: str, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        value = self.get(name, int, "an integer")
        assert isinstance(value, int)
        return value

    def digest(self, name: str) -> str:
        value = self.string(name)
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            raise self.reader.error(self.key(name), f"{value!r} is no sha256", hint="64 lower-case hex digits")
        return value

    def strings(self, name: str, optional: bool = False) -> tuple[str, ...]:
        if optional and not self.has(name):
            return ()
        value = self.get(name, list, "an array of strings")
        assert isinstance(value, list)
        for item in value:
            if not isinstance(item, str):
                raise self.reader.error(self.key(name), f"holds {item!r}", hint="it must be an array of strings")
        return tuple(value)

    def symbols(self, name: str, optional: bool = False) -> tuple[str, ...]:
        """Strings of the form module:name."""
        found = self.strings(name, optional)
        for item in found:
            if not re.fullmatch(r"verl(\.[\w*]+)*:[\w*]+", item):
                raise self.reader.error(
                    self.key(name), f"{item!r} is no symbol", hint="write verl.package.module:name (or :* for all)"
                )
        return found

    def table(self, name: str, optional: bool = False) -> _Table:
        if optional and not self.has(name):
            return _Table(self.reader, self.key(name), {})
        value = self.get(name, dict, "a table")
        assert isinstance(value, dict)
        return _Table(self.reader, self.key(name), value)

    def tables(self, name: str, optional: bool = False) -> list[_Table]:
        parent = self.table(name, optional)
        return [parent.table(child) for child in parent.data]

    def array(self, name: str) -> list[_Table]:
        if not self.has(name):
            return []
        value = self.get(name, list, "an array of tables")
        assert isinstance(value, list)
        for item in value:
            if not isinstance(item, dict):
                raise self.reader.error(self.key(name), f"holds {item!r}", hint="it must be an array of tables")
        return [_Table(self.reader, f"{self.key(name)}[{index}]", item) for index, item in enumerate(value)]

    def strings_by_name(self, name: str, optional: bool = False) -> dict[str, str]:
        table = self.table(name, optional)
        return {key: table.string(key) for key in table.data}


def _role(table: _Table) -> Role:
    table.keys_are("symbols engine feature modules")
    return Role(
        name=table.name,
        symbols=table.symbols("symbols"),
        engine=table.optional_string("engine"),
        feature=table.optional_string("feature"),
        modules=table.strings("modules", optional=True),
    )


def _feature(table: _Table) -> Feature:
    table.keys_are("summary cut replaced requirements algorithms engines")
    return Feature(
        name=table.name,
        summary=table.string("summary"),
        cut=table.symbols("cut", optional=True),
        replaced=table.strings_by_name("replaced", optional=True),
        requirements=_pep508(table, "requirements", optional=True),
        algorithms=table.strings("algorithms", optional=True),
        engines=table.strings("engines", optional=True),
    )


def _replacement(table: _Table) -> Replacement:
    table.keys_are("symbol with why engine")
    return Replacement(
        symbol=table.string("symbol"),
        target=table.string("with"),
        why=table.string("why"),
        engine=table.optional_string("engine"),
    )


def _fix(table: _Table) -> Fix:
    table.keys_are("id why module edits replaced test engine")
    return Fix(
        id=table.string("id"),
        why=table.string("why"),
        module=table.string("module"),
        edits=tuple(_edit(edit) for edit in table.array("edits")),
        test=table.string("test"),
        replaced=table.strings_by_name("replaced", optional=True),
        engine=table.optional_string("engine"),
    )


def _edit(table: _Table) -> Edit:
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


def _requirements(table: _Table) -> Requirements:
    table.keys_are("base engines")
    engines = table.table("engines", optional=True)
    return Requirements(
        base=_pep508(table, "base"), engines={name: _pep508(engines, name) for name in engines.data}
    )


def _pep508(table: _Table, name: str, optional: bool = False) -> tuple[str, ...]:
    found = table.strings(name, optional)
    for item in found:
        try:
            Requirement(item)
        except InvalidRequirement as error:
            raise table.reader.error(
                table.key(name), f"{item!r} is no requirement: {error}", hint="write it as in `torch>=2.6,<3`"
            ) from None
    return found


def _check_references(manifest: Manifest, reader: _Reader) -> None:
    features = [feature.name for feature in manifest.features]
    for role in manifest.roles:
        if role.feature is not None and role.feature not in features:
            raise reader.error(
                f"roles.{role.name}.feature", f"no feature {role.feature!r}", hint="features: " + ", ".join(features)
            )
        if role.engine is not None and role.engine not in manifest.engines:
            raise reader.error(
                f"roles.{role.name}.engine", f"no engine {role.engine!r}", hint="engines: " + ", ".join(manifest.engines)
            )
    ids = [fix.id for fix in manifest.fixes]
    for index, fix_id in enumerate(ids):
        if fix_id in ids[:index]:
            raise reader.error(f"fixes[{index}].id", f"{fix_id!r} stands twice", hint="give each fix its own id")


def newest(releases: Iterable[str]) -> str:
    """The highest release number."""
    return max(releases, key=Version)
