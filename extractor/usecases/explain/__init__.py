"""Explain a file or symbol: owner, origin, import chain and changes."""

import ast
import re
from collections.abc import Iterable
from dataclasses import replace

from extractor.pipeline.generate import Generated, generate
from extractor.pipeline.index.syntax import find_first_line, list_bound_names
from extractor.pipeline.render import list_applied_fixes
from extractor.pipeline.rewrite.apply_fixes import changes_definition
from extractor.pipeline.rewrite.changes import describe_dropped_methods
from extractor.pipeline.slicer import STUBS, Edge, KeptModule
from extractor.pipeline.source import Source
from extractor.usecases.explain.template_files import (
    AS_EMITTED,
    MISSING,
    TEMPLATE,
    VENDORED,
    Explanation,
    TemplateFiles,
    is_called,
)
from extractor.values import readers
from extractor.values.errors import UsageError, VextractError
from extractor.values.manifest import matches
from extractor.values.modules import name_module
from extractor.values.nearest import find_nearest

__all__ = ["Explanation", "TemplateFiles", "explain"]


def explain(again: Generated, templates: TemplateFiles, name: str) -> tuple[Explanation, ...]:
    """Explain a file or a symbol.

    Args:
        again: The project as its lock would make it again.
        templates: The files that verl has no part in.
        name: A path in the project or in verl, a module, "module:symbol", or just a symbol's name. A method that a
            class inherits is explanations where it is defined.

    Returns:
        One explanation for each thing of that name.

    Raises:
        UsageError: nothing here is called that; the message says whether verl has it, the hint names what is near.
    """
    vendored = Vendored(again, templates)
    holder, _, method = name.replace(":", ".").rpartition(".")
    for subject in (name, *(f"{base}.{method}" for base in templates.bases(holder))):
        if explanations := (*vendored.named(subject), *templates.named(subject)):
            return explanations
    source = again.source
    symbol, where = _find_in_verl(source, name)
    if where:
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        said = f"{name} is not part of this project: verl {source.release} has it in {where[0]}{more}"
        hint = _find_command(again, f"{name_module(where[0])}:{symbol}")
        raise UsageError(f"{said}, and nothing that the project needs leads to it", hint=hint)
    near = find_nearest(name, vendored.names() | templates.names(), 3)
    hint = f"did you mean {', '.join(near)}?" if near else "name a file of the project, `module:symbol`, or a symbol"
    said = f"nothing here is called {name!r}, neither in the project nor in verl {source.release}"
    raise UsageError(said, hint=hint)


def _find_in_verl(source: Source, name: str) -> tuple[str, list[str]]:
    """Return the symbol that a name means, "*" for a file or module, and the files of verl that have it."""
    place = name.replace(".", "/")
    if files := [path for path in (name, f"{place}.py", f"{place}/__init__.py") if path in source.files]:
        return "*", files
    module, _, symbol = name.partition(":") if ":" in name else name.rpartition(".")
    symbol = symbol.partition(".")[0]
    if not symbol.isidentifier():
        return symbol, []
    defined = re.compile(rf"^(?:(?:async )?def|class) {re.escape(symbol)}\b", re.MULTILINE)
    files = [path for path in source.files if path.endswith(".py") and defined.search(source.read(path))]
    return symbol, [path for path in files if name_module(path) == module] or files


def _find_command(again: Generated, symbol: str) -> str:
    """Name the command that adds a symbol, and count its lines."""
    options = again.options
    patterns = [(item.name, item.cut) for item in again.manifest.features]
    patterns += [(role.feature, role.symbols) for role in again.manifest.roles if role.feature is not None]
    module, _, name = symbol.partition(":")
    having = (
        feature
        for feature, symbols in patterns
        if feature not in options.features
        and (matches(symbol, symbols) or (name == "*" and any(item.startswith(f"{module}:") for item in symbols)))
    )
    also = next((f"; so does `vextract add {feature}`" for feature in having), "")
    asked = symbol.removesuffix(":*")
    try:
        # The manifest has the owner's part already.
        more = generate(replace(options, manifest="", roots=(*options.roots, symbol)), again.source, again.manifest)
    except VextractError:  # such as what needs Ray
        return f"`vextract add {asked}` tells why it cannot be had{also}"
    now, then = (sum(item.text.count("\n") for item in made.emitted) for made in (more, again))
    if now == then:  # a package that only imports
        return f"`vextract add {asked}` tells which of its modules to name"
    return f"`vextract add {asked}` brings it, {now - then:,} lines{also}"


class Vendored:
    """The vendored files of a project and their symbols.

    Args:
        again: The project as its lock would make it again.
        templates: Knows which files were edited.
    """

    def __init__(self, again: Generated, templates: TemplateFiles) -> None:
        self._ours = templates
        self._manifest, self._options = again.manifest, again.options
        self._found = again.sliced
        self._modules = {module.module: module for module in self._found.modules}
        self._emitted = {item.path: item for item in again.emitted}
        self._dropped = [f"{holder}.{name}" for holder, names in self._found.dropped.items() for name in names]

    def named(self, name: str) -> tuple[Explanation, ...]:
        """Explain files with this name, else symbols, else dropped methods.

        Args:
            name: A path in the project or in verl, a module, "module:symbol", or just a symbol's name.
        """
        places = ((module, self._list_places(module.module)) for module in self._modules.values())
        if files := [module for module, dotted in places if any(is_called(name, place) for place in dotted)]:
            return tuple(map(self._explain_file, files))
        if symbols := self._find_called(name, self._found.edges):
            return tuple(map(self._explain_symbol, symbols))
        note = "left out of its class: no code of the project uses its name\n"
        note += "use it in your own code and run `vextract upgrade`: it comes"
        dropped = (
            (symbol, self._modules[symbol.partition(":")[0]]) for symbol in self._find_called(name, self._dropped)
        )
        return tuple(replace(self._of(symbol, module), note=note) for symbol, module in dropped)

    def names(self) -> set[str]:
        """Return the names of vendored symbols and paths of files."""
        known = {symbol.partition(":")[2] for symbol in (*self._found.edges, *self._dropped)}
        return known | {f"{self._options.package}/{module.target_path}" for module in self._modules.values()}

    def _find_called(self, name: str, symbols: Iterable[str]) -> list[str]:
        """Return symbols of this name; methods where no function or class has it."""
        parted = ((symbol, *symbol.split(":")) for symbol in symbols)
        called = [
            (symbol, "." in item and "." not in name)
            for symbol, module, item in parted
            if any(is_called(name, f"{place}.{item}") for place in self._list_places(module))
        ]
        return [symbol for symbol, _ in called if (symbol, False) in called or all(inside for _, inside in called)]

    def _list_places(self, module: str) -> list[str]:
        """Return the names of a module in verl and in the project."""
        known = self._modules.get(module)
        return [module, *([name_module(f"{self._options.package}/{known.target_path}")] if known is not None else [])]

    def _of(self, subject: str, module: KeptModule) -> Explanation:
        """Return what holds for all that is in a file."""
        return Explanation(
            subject=subject,
            path=f"{self._options.package}/{module.target_path}",
            whose=VENDORED,
            upstream_path=module.upstream_path,
            release=self._options.verl,
            upstream_sha256=module.upstream_sha256,
        )

    def _explain_symbol(self, symbol: str) -> Explanation:
        upstream, _, name = symbol.partition(":")
        chain = self._find_chain(symbol)
        if symbol in self._found.replaced:
            return Explanation(
                subject=symbol,
                path=f"{self._options.package}/{self._found.replaced[symbol].module.replace('.', '/')}.py",
                whose=TEMPLATE,
                upstream_path=upstream.replace(".", "/") + ".py",
                release=self._options.verl,
                chain=chain,
                note=self._describe_replacement(symbol),
            )
        module = self._modules[upstream]
        text, emitted = _read_text_of(module.source, name), self._emitted.get(module.target_path)
        here = text if emitted is None else _read_text_of(emitted.text, name)
        path = f"{self._options.package}/{module.target_path}"
        state = self._ours.describe_state(path)
        owners = self._ours.read_text(path) if state not in (AS_EMITTED, MISSING) else ""
        edited = "" if state == AS_EMITTED or _read_text_of(owners, name) == here else state
        methods = [f"{name}.{method}" for method in self._found.dropped.get(symbol, ())]
        done = [change for change in self._list_changes(module) if not change.startswith("dropped ")]
        unchanged = () if edited else ("nothing: its text is upstream's",)
        changes = unchanged if text == here else (*describe_dropped_methods(methods), *done)
        fixes = self._list_fixes(module, text)
        return replace(self._of(symbol, module), chain=chain, changes=changes, fixes=fixes, note=edited)

    def _explain_file(self, module: KeptModule) -> Explanation:
        symbols = [symbol for symbol in self._found.edges if symbol.startswith(f"{module.module}:")]
        names = [symbol.partition(":")[2] for symbol in symbols]
        effects = [place for place in self._found.effects if place.startswith(f"{module.upstream_path}:")]
        path = f"{self._options.package}/{module.target_path}"
        edited = [state for state in [self._ours.describe_state(path)] if state != AS_EMITTED]
        return replace(
            self._of(path, module),
            chain=min(map(self._find_chain, symbols), key=len, default=()),
            symbols=tuple(name for name in names if "." not in name),
            changes=tuple(self._list_changes(module)),
            fixes=self._list_fixes(module),
            note="\n".join([*edited, *(f"module-level effect kept: {place}" for place in effects)]),
        )

    def _find_chain(self, symbol: str) -> tuple[Edge, ...]:
        chain: dict[str, Edge] = {}
        while symbol in self._found.edges and symbol not in chain:
            chain[symbol] = self._found.edges[symbol]
            symbol = chain[symbol].origin
        return tuple(chain.values())

    def _list_changes(self, module: KeptModule) -> list[str]:
        """Return a file's changes other than named fixes."""
        emitted = self._emitted.get(module.target_path)
        return [change for change in (emitted.changes if emitted else ()) if not change.startswith("fix ")]

    def _list_fixes(self, module: KeptModule, text: str | None = None) -> tuple[str, ...]:
        """Describe the named fixes of a file or one symbol's text."""
        applied = [fix for fix in list_applied_fixes(self._manifest, self._found) if fix.module == module.module]
        return tuple(f"{fix.id}: {fix.why}" for fix in applied if text is None or changes_definition(fix, text))

    def _describe_replacement(self, symbol: str) -> str:
        if self._found.replaced[symbol].module == STUBS:
            feature = next(item.feature for item in self._found.stubs if item.name == symbol.partition(":")[2])
            if why := next((item.withheld for item in self._manifest.withheld if item.name == feature), None):
                return f"a stub: no project has the feature `{feature}`: {why}"
            return f"a stub: the feature `{feature}` is not in this project (`vextract add {feature}`)"
        manifest = self._manifest
        reasons = [f": {item.why}" for item in manifest.replacements if item.symbol == symbol]
        reasons += [f", fix {fix.id}: {fix.why}" for fix in manifest.fixes if symbol in fix.replaced]
        reasons += [
            f" while the feature `{known.name}` is off" for known in manifest.features if symbol in known.replaced
        ]
        return f"ours instead of upstream's{next(iter(reasons), '')}"


def _read_text_of(source: str, name: str) -> str:
    """Return a definition's text; for "Class.method" only that method."""
    top, _, member = name.partition(".")
    lines = readers.split_lines(source)
    pieces = []
    for node in readers.parse_python_or_nothing(source).body:
        if top not in list_bound_names(node):
            continue
        if member and isinstance(node, ast.ClassDef):
            pieces.append(f"class {top}:\n")
            for item in node.body:
                if getattr(item, "name", "") == member:
                    pieces += lines[find_first_line(item) : item.end_lineno]
        else:
            pieces += lines[find_first_line(node) : node.end_lineno]
    return "".join(pieces)
