"""Find where upstream defines a name, through re-exports and replacements."""

from dataclasses import dataclass

from extractor.pipeline.index import Index
from extractor.pipeline.slicer.types import Target
from extractor.values.manifest import Manifest, matches
from extractor.values.options import Options

STUBS = "shims.not_vendored"


@dataclass(frozen=True)
class Definition:
    """Where a name leads: a definition, a module, ours, outside, nowhere."""

    kind: str
    module: str = ""
    name: str = ""
    target: Target | None = None


MISSING = Definition("missing")


class Definitions:
    """Looks up names in the source for given options."""

    def __init__(self, index: Index, manifest: Manifest, options: Options) -> None:
        self.index = index
        off = [feature for feature in manifest.features if feature.name not in options.features]
        off += manifest.withheld
        self._known: dict[tuple[str, str], Definition] = {}
        self._cut = [(feature.name, feature.cut) for feature in off if feature.cut]
        self._swaps = {
            item.symbol: item.target for item in manifest.replacements if item.engine in (None, options.engine)
        }
        for fix in manifest.fixes:
            if fix.engine in (None, options.engine):
                self._swaps.update(fix.replaced)
        self._asked = (*manifest.own, *options.roots)
        for feature in off:
            self._swaps.update(
                {symbol: ours for symbol, ours in feature.replaced.items() if not self._is_asked(symbol)}
            )

    def find_feature(self, symbol: str) -> str | None:
        """Return the missing feature that a symbol belongs to, or None."""
        if self._is_asked(symbol):
            return None
        return next((name for name, patterns in self._cut if matches(symbol, patterns)), None)

    def _is_asked(self, symbol: str) -> bool:
        """Tell whether the owner's manifest or code asks for a symbol."""
        return matches(symbol, self._asked)

    def define(self, module: str, name: str) -> Definition:
        """Return where `name`, looked up in `module`, is really defined."""
        key = (module, name)
        if key not in self._known:
            self._known[key] = MISSING
            self._known[key] = self._define(module, name)
        return self._known[key]

    def _find_ours(self, module: str, name: str, feature: str | None) -> Definition | None:
        """Return the stub or replacement that a name gives way to."""
        if feature is not None:
            return Definition("ours", module, name, Target(STUBS, name))
        if f"{module}:{name}" in self._swaps:
            target_module, _, target_name = self._swaps[f"{module}:{name}"].partition(":")
            return Definition("ours", module, name, Target(target_module, target_name))
        return None

    def _define(self, module: str, name: str) -> Definition:
        symbol = f"{module}:{name}"
        if module not in self.index:
            return MISSING
        found = self.index[module]
        if name in found.bindings:
            return self._find_ours(module, name, self.find_feature(symbol)) or Definition("local", module, name)
        if name in found.imports and not found.imports[name].dotted:
            item = found.imports[name]
            if item.module.partition(".")[0] != "verl":
                named = next((feature for feature, patterns in self._cut if symbol in patterns), None)
                return self._find_ours(module, name, named) or Definition("external", module, name)
            if item.name is None:
                return Definition("module", item.module) if item.module in self.index else MISSING
            inner = self.define(item.module, item.name)
            if inner.kind == "missing" and f"{item.module}.{item.name}" in self.index:
                return Definition("module", f"{item.module}.{item.name}")
            return inner
        for star in found.stars:
            inner = self.define(star, name) if star in self.index else MISSING
            if inner.kind != "missing":
                return inner
        if f"{module}.{name}" in self.index:
            return Definition("module", f"{module}.{name}")
        return MISSING
