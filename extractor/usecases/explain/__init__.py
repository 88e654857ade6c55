"""Explain a file or symbol: owner, origin and changes."""

import re
from dataclasses import replace

from extractor.pipeline.generate import generate
from extractor.pipeline.source import Source
from extractor.usecases.emitted_files import Regenerated
from extractor.usecases.explain.template_files import Explanation, TemplateFiles
from extractor.usecases.explain.vendored import Vendored
from extractor.values.errors import UsageError, VextractError
from extractor.values.manifest import matches
from extractor.values.modules import name_module
from extractor.values.nearest import find_nearest
from extractor.values.options import Options

__all__ = ["Explanation", "TemplateFiles", "explain"]


def explain(again: Regenerated, options: Options, ours: TemplateFiles, name: str) -> tuple[Explanation, ...]:
    """Explain a file or a symbol.

    Args:
        again: The project as its lock would make it again.
        ours: The files that verl has no part in.
        name: A path in the project or in verl, a module, "module:symbol", or just a symbol's name. A method that a
            class inherits is found where it is defined.

    Returns:
        One explanation for each thing of that name.

    Raises:
        UsageError: nothing here is called that; the message says whether verl has it, the hint names what is near.
    """
    vendored = Vendored(again, options, ours)
    holder, _, method = name.replace(":", ".").rpartition(".")
    for subject in (name, *(f"{base}.{method}" for base in ours.bases(holder))):
        if found := (*vendored.named(subject), *ours.named(subject)):
            return found
    raise _explain_unknown_name(again, options, vendored.names() | ours.names(), name)


def _explain_unknown_name(again: Regenerated, options: Options, known: set[str], name: str) -> UsageError:
    source = again.source
    plain = name.rpartition(":")[2].rpartition(".")[2]
    near = find_nearest(name, known, 3)
    hint = f"did you mean {', '.join(near)}?" if near else "name a file of the project, `module:symbol`, or a symbol"
    where = [path for path in source.files if path == name or (plain.isidentifier() and _holds(source, path, plain))]
    if where:
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        symbol = f"{name_module(where[0])}:{'*' if name == where[0] else plain}"
        return UsageError(
            f"{name} is not part of this project: verl {source.release} has it in {where[0]}{more},"
            " and nothing that the project needs leads to it",
            hint=_find_command(again, options, symbol),
        )
    return UsageError(
        f"nothing here is called {name!r}, neither in the project nor in verl {source.release}", hint=hint
    )


def _find_command(again: Regenerated, options: Options, symbol: str) -> str:
    """Name the command that adds a symbol, and count its lines."""
    patterns = [(item.name, item.cut) for item in again.manifest.features]
    patterns += [(role.feature, role.symbols) for role in again.manifest.roles if role.feature is not None]
    of_module = symbol.removesuffix("*")
    also = next(
        (
            f"; so does `vextract add {feature}`"
            for feature, symbols in patterns
            if feature not in options.features
            and (
                matches(symbol, symbols)
                or (symbol.endswith("*") and any(item.startswith(of_module) for item in symbols))
            )
        ),
        "",
    )
    asked = symbol.removesuffix(":*")
    try:
        # The manifest has the owner's part already.
        more = generate(replace(options, manifest="", roots=(*options.roots, symbol)), again.source, again.manifest)
    except VextractError:  # such as what needs Ray
        return f"`vextract add {asked}` tells why it cannot be had{also}"
    now, then = (sum(item.text.count("\n") for item in made.emitted) for made in (more, again.generated))
    return f"`vextract add {asked}` brings it, {now - then:,} lines{also}"


def _holds(source: Source, path: str, name: str) -> bool:
    if not path.endswith(".py"):
        return False
    text = source.read(path)
    return re.search(rf"^(?:(?:async )?def|class) {re.escape(name)}\b", text, re.MULTILINE) is not None
