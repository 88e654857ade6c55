"""Check that nothing calls a method that was not vendored."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from extractor.pipeline.index import Module
from extractor.pipeline.index.syntax import list_definitions, read_attribute_chain
from extractor.pipeline.render.method_names import find_method_names, find_tested_names, is_set_up
from extractor.usecases.verify.project_files import ProjectFiles, PythonFile
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values.reachable import find_reachable
from extractor.values.tree import FileKind
from extractor.values.wording import count_noun

_NAME = "methods"
_HINT = "`vextract upgrade` vendors what your code names"


def check_dropped_methods(subject: ProjectFiles) -> Check:
    """Find uses of dropped methods.

    A use in a vendored file or a template is a failure. The owner's code may mean another method of that name, so a use
    there is only reported.
    """
    gone = {
        name: file
        for file in subject.vendored
        for name in sorted({*file.dropped} - {name for name, _ in list_definitions(file.tree.body)})
    }
    if not gone:
        return Check(_NAME, CheckStatus.OK, "no method was dropped")
    related = _map_related(subject)
    failures: list[str] = []
    remarks: list[str] = []
    for file in subject.files.values():
        uses = list(_uses(file, gone, related))
        (remarks if file.kind is FileKind.HOOK else failures).extend(uses)
    if failures:
        summary = f"{count_noun(len(failures), 'line')} may call a dropped method"
        return Check(_NAME, CheckStatus.FAILED, summary, (*failures, *remarks, f"hint: {_HINT}"))
    summary = f"{count_noun(len(gone), 'method')} dropped, which no vendored file and no template can call"
    if remarks:
        return Check(
            _NAME, CheckStatus.REPORTED, f"{summary}; your own code has their names", (*remarks, f"hint: {_HINT}")
        )
    return Check(_NAME, CheckStatus.OK, summary)


def _uses(file: PythonFile, gone: Mapping[str, PythonFile], related: Mapping[str, set[str]]) -> Iterator[str]:
    names = sorted({name.partition(".")[2] for name in gone})
    if file.path.startswith("tests/"):
        names = sorted(find_tested_names(file.text).any & {*names})
    if not names or is_set_up(file.path) or (file.kind is not FileKind.VENDORED and not _may_name(file.text, names)):
        return
    module = Module(file.module, file.path, file.text)
    for statement in module.statements:
        methods = module.methods(statement.index)
        holder = statement.binds[0] if methods else ""
        places = [(None, statement.line), *((item.position, item.line) for item in methods)]
        for position, line in places:
            words = module.uses(statement.index, position).words
            for name in names:
                anywhere = name in words.any or any(fnmatchcase(name, item) for item in words.put_together)
                if not anywhere and name not in words.own:
                    continue
                for method in (item for item in gone if item.endswith(f".{name}")):
                    if anywhere or not holder or method.partition(".")[0] in related[holder]:
                        yield f"{file.path}:{line}: `{name}` may be {method}, which {gone[method].path} lacks"


def _may_name(text: str, names: Sequence[str]) -> bool:
    patterns = find_method_names(text).put_together
    return re.search(rf"\b(?:{'|'.join(names)})\b", text) is not None or any(
        fnmatchcase(name, pattern) for name in names for pattern in patterns
    )


def _map_related(subject: ProjectFiles) -> dict[str, set[str]]:
    """Map each class to the classes that may share an instance."""
    bases: dict[str, set[str]] = {}
    for file in subject.files.values():
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                chains = (read_attribute_chain(base) for base in node.bases)
                bases.setdefault(node.name, set()).update(chain[-1] for chain in chains if chain)
    related: dict[str, set[str]] = {name: set() for name in bases}
    for name in bases:
        family = find_reachable([name], lambda one: bases.get(one, ()))
        for item in family & set(bases):
            related[item] |= family
    return related
