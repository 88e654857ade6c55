"""The types of a manifest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from extractor.values.options import Options

# The folder of a project's package that upstream's files are in, as the layout of every manifest says.
VENDORED = "vendored"


@dataclass(frozen=True)
class SourcePin:
    """The release's files on the package index, and their digests.

    Both are empty for a release that nothing is known of in advance.
    """

    release: str
    wheel_filename: str
    wheel_sha256: str


@dataclass(frozen=True)
class Role:
    """Names a part of a project and its root symbols.

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
    """An optional part of upstream.

    Attributes:
        name: As in `--with NAME`.
        summary: One line for `vextract versions`.
        cut: Symbols (patterns) that become stubs while the feature is off; a stub raises and names the feature.
        replaced: Symbols that a shim replaces while the feature is off.
        requirements: What the generated project needs in addition while it is on.
        algorithms: Presets that switch it on by themselves.
        needs: Features that it switches on as well.
        engines: Engines that have it; empty: all.
        withheld: Why no project can have it; empty: any can.
        by_name: Why `--with all` leaves it out; empty: it does not.
    """

    name: str
    summary: str
    cut: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    withheld: str = ""
    by_name: str = ""


@dataclass(frozen=True)
class Replacement:
    """An upstream symbol that a shim replaces in every project.

    Attributes:
        symbol: "verl.utils.fs:copy_to_local".
        target: Module and name below the package: "shims.stand_ins:copy_to_local".
        why: Reason, shown by `explain` and NOTICE.
        engine: The engine it is for; None: every engine.
    """

    symbol: str
    target: str
    why: str
    engine: str | None = None


@dataclass(frozen=True)
class Edit:
    """One step of a named fix; docs/manifests.md explains each `op`."""

    op: str
    within: str | None = None
    match: str | None = None
    replacement: str | None = None
    count: int = 1
    keyword: str | None = None
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fix:
    """A named repair of broken upstream code.

    Attributes:
        id: Its name, as in the lock, `explain` and NOTICE.
        why: What is wrong upstream, in one sentence.
        module: Dotted upstream module.
        edits: What changes.
        replaced: Symbols that a shim replaces: {"verl.utils.fs:copy": "shims.stand_ins:copy"}.
        test: The test that fails without it ("tests/...::name").
        engine: The engine it is for; None: every engine.
        parity: "exact": it must not change a bit. "met" or None: upstream's side gets the same in `verify`; where it
            cannot, it explains the differences of the cases about its module.
    """

    id: str
    why: str
    module: str
    edits: tuple[Edit, ...]
    test: str
    replaced: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None
    parity: str | None = None


@dataclass(frozen=True)
class Requirements:
    """Holds what the generated project needs of others.

    Attributes:
        base: Ranges, for every project.
        engines: Ranges in addition, by engine.
        dev: Ranges of the tools that check a project.
        recipes: Ranges in addition, by recipe.
    """

    base: tuple[str, ...]
    engines: Mapping[str, tuple[str, ...]]
    dev: tuple[str, ...] = ()
    recipes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """Everything vextract knows about one release of verl.

    `renamed_keys` has the config keys that the release before called otherwise, old name to new; a section's name
    stands for all that is in it. `former_keys` has those of all releases before, with the name in this one.
    `withheld` are the parts that no project can have, so that they are cut in each.
    `whole` names the classes (patterns) of which every method stays. `borrowed_from` is the release whose manifest this
    was inferred from, where the release has none of its own. `own` are the roots of the project's owner.
    """

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
    whole: tuple[str, ...] = ()
    renamed_keys: Mapping[str, str] = field(default_factory=dict)
    former_keys: Mapping[str, str] = field(default_factory=dict)
    borrowed_from: str | None = None
    withheld: tuple[Feature, ...] = ()
    own: tuple[str, ...] = ()

    def target_path(self, upstream_path: str) -> str:
        """Return an upstream file's path in the package: "vendored/protocol.py"."""
        path = upstream_path.removeprefix("verl/")
        for prefix in sorted(self.layout, key=len, reverse=True):
            if path == prefix or (prefix.endswith("/") and path.startswith(prefix)):
                return self.layout[prefix] + path.removeprefix(prefix)
        return self.layout.get("", "") + path

    def list_active_roles(self, options: Options) -> tuple[Role, ...]:
        """Return the roles that a project with these options has."""
        return tuple(
            role
            for role in self.roles
            if role.engine in (None, options.engine) and (role.feature is None or role.feature in options.features)
        )

    def list_requirements(self, options: Options) -> tuple[str, ...]:
        """Return a project's PEP 508 requirements for these options, sorted."""
        needs = self.requirements
        chosen = {*needs.base, *needs.engines.get(options.engine, ()), *needs.recipes.get(options.recipe, ())}
        for feature in self.features:
            if feature.name in options.features:
                chosen.update(feature.requirements)
        return tuple(sorted(chosen, key=str.lower))


def matches(symbol: str, patterns: Iterable[str]) -> bool:
    """Tell whether a pattern matches a symbol ("module:name")."""
    return any(fnmatchcase(symbol, pattern) for pattern in patterns)
