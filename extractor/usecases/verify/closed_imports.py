"""Check that imports resolve and work, and that no name leads to Ray."""

import ast
import contextlib
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.project import lock
from extractor.usecases.emitted_files import make_lock
from extractor.usecases.verify import interpreter
from extractor.usecases.verify import project_files as subjects
from extractor.usecases.verify.name_analysis import Analysis, ModuleNames
from extractor.usecases.verify.project_files import ProjectFiles, PythonFile
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values import readers
from extractor.values.errors import CheckFailed
from extractor.values.modules import list_imports
from extractor.values.tree import FileKind
from extractor.values.wording import count_noun

FORBIDDEN = ("verl", "ray")
NOT_REQUIRED = "which pyproject.toml does not require"
TIMEOUT = 600.0
# Distributions whose import name is not their own with "-" as "_".
_IMPORT_NAMES = {
    "antlr4-python3-runtime": "antlr4",
    "hydra-core": "hydra",
    "opencv-python": "cv2",
    "pillow": "PIL",
    "protobuf": "google",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "pyzmq": "zmq",
    "scikit-learn": "sklearn",
}


def check_imports(subject: ProjectFiles, source: Source | None) -> Check:
    """Check imports and names of emitted files, and what hooks import of them."""
    finder = _ImportChecker(subject)
    problems = [f"cannot be parsed: {line}" for line in subject.broken]
    optional: set[str] = set()
    emitted = 0
    for file in subject.files.values():
        problems += finder.problems(file, optional)
        if file.kind is not FileKind.HOOK:
            emitted += 1
            problems += _find_unknown_names(file, finder.analyses[file.module], source)
    problems = list(dict.fromkeys(problems))
    if problems:
        summary = f"{count_noun(len(problems), 'problem')} in {count_noun(len(subject.files), 'file')}"
        return Check("imports", CheckStatus.FAILED, summary, tuple(problems))
    summary = f"{count_noun(emitted, 'emitted file')}: every import and every name resolves"
    lazily = f"optional packages, imported inside functions: {', '.join(sorted(optional))}"
    return Check("imports", CheckStatus.OK, summary, (lazily,) if optional else ())


def import_problems(generated: Generated) -> tuple[str, ...]:
    """Return a generated project's unresolved imports and names: "path:line: what"."""
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        root = Path(folder)
        for file in generated.tree:
            path = root / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        (root / lock.NAME).write_bytes(lock.dump(make_lock(generated)))
        check = check_imports(subjects.read_project(root), generated.source)
    return () if check.ok else check.details


def check_ray_free(subject: ProjectFiles) -> Check:
    """Check every vendored file for names that lead to Ray."""
    problems = [problem for file in subject.vendored for problem in _find_ray_uses(file)]
    if problems:
        return Check("ray", CheckStatus.FAILED, f"{count_noun(len(problems), 'use')} of Ray", tuple(problems))
    return Check("ray", CheckStatus.OK, f"{count_noun(len(subject.vendored), 'vendored file')}: no name leads to Ray")


def _find_ray_uses(file: PythonFile) -> Iterator[str]:
    analysis = Analysis(file.text, file.module, is_package=file.is_package)
    for item in analysis.imports:
        if _take_top(item.module) == "ray":
            yield f"{file.path}:{item.line}: imports {item.module}"
    if "ray" in (unbound := analysis.find_unbound()):
        yield f"{file.path}:{unbound['ray']}: uses ray"
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            target = node.args[0].value
            if function in ("import_module", "__import__") and isinstance(target, str) and _take_top(target) == "ray":
                yield f"{file.path}:{node.lineno}: imports {target} by name"


def _take_top(module: str) -> str:
    return module.partition(".")[0]


def _find_unknown_names(file: PythonFile, analysis: Analysis, source: Source | None) -> list[str]:
    """Return undefined names, except those also undefined in upstream's file."""
    unbound = analysis.find_unbound()
    if unbound and source is not None and file.upstream_path in source.files:
        theirs = Analysis(source.read(file.upstream_path), file.upstream, is_package=file.is_package)
        for name in theirs.find_unbound():
            unbound.pop(name, None)
    lines = sorted((line, name) for name, line in unbound.items())
    return [f"{file.path}:{line}: {name} is defined nowhere" for line, name in lines]


class _ImportChecker:
    """Resolves imports within one project."""

    def __init__(self, subject: ProjectFiles) -> None:
        self.analyses: Mapping[str, Analysis] = {
            name: Analysis(file.text, name, is_package=file.is_package) for name, file in subject.files.items()
        }
        self.tops = {_take_top(name) for name in subject.files} - {"tests"}
        self.names = ModuleNames(self.analyses, self.analyses.__getitem__)
        self.required, self.extras = read_requirements(subject.root)

    def problems(self, file: PythonFile, optional: set[str]) -> Iterator[str]:
        """Yield unresolved imports; add lazy, unrequired ones to `optional`."""
        analysis = self.analyses[file.module]
        for item in analysis.imports:
            top, where = _take_top(item.module), f"{file.path}:{item.line}"
            if top in self.tops:
                problem = self.names.explain_missing(item)
                yield from [f"{where}: {problem}"] if problem else []
            elif file.kind is FileKind.HOOK:
                continue  # what its owner has installed is not asked
            elif top in FORBIDDEN:
                yield f"{where}: imports {item.module}"
            elif top not in sys.stdlib_module_names and top not in self.required:
                # Tests may use each other, and what the extra for development brings.
                in_tests = file.path.startswith("tests/") and (top in self.extras or f"tests.{top}" in self.analyses)
                if item.top and not in_tests:
                    yield f"{where}: imports {top}, {NOT_REQUIRED}"
                elif not item.top:
                    optional.add(top)
        for module, chain, line in analysis.list_chains():
            if module in self.analyses and (wrong := self._follow_chain(module, chain)):
                yield f"{file.path}:{line}: {wrong}"

    def _follow_chain(self, module: str, attributes: list[str]) -> str | None:
        """Follow `module.a.b` as long as it goes through modules."""
        for attribute in attributes:
            if f"{module}.{attribute}" not in self.names.known:
                known = attribute.startswith("__") or self.names.has(module, attribute)
                return None if known else f"uses {module}.{attribute}, which does not exist"
            module = f"{module}.{attribute}"
        return None


def check_importable(subject: ProjectFiles, python: str) -> Check:
    """Import all vendored modules without Ray, verl and undeclared packages."""
    modules = [file.module for file in subject.vendored]
    required, named = read_requirements(subject.root)[0], _list_imported(subject)
    blocked = sorted(named - required - sys.stdlib_module_names - {"ray", "verl"})
    job = {
        "root": str(subject.root.resolve()),
        "modules": modules,
        "blocked": blocked,
        "required": sorted(named & required),
    }
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        try:
            (result,) = interpreter.run_jobs(python, "imports", {"the imports": job}, Path(folder), TIMEOUT).values()
        except CheckFailed as error:
            return Check("importable", CheckStatus.FAILED, error.message, tuple(error.hint.splitlines()))
    problems = [f"{module}: {' '.join(error.split())}" for module, error in sorted(result["errors"].items())]
    problems += [f"{name} was imported although it is blocked" for name in result["leaked"]]
    if problems:
        summary = f"{len(result['errors'])} of {count_noun(len(modules), 'vendored module')} cannot be imported"
        absent = ", ".join(sorted(required & set(result["missing"])))
        if absent:
            problems.append(f"hint: install the project's requirements: this Python lacks {absent}")
        return Check("importable", CheckStatus.FAILED, summary, tuple(problems))
    imported = f"{count_noun(len(modules), 'vendored module')} imported without Ray, verl and what is not required"
    details = (f"blocked during the check: {', '.join(blocked)}",) if blocked else ()
    return Check("importable", CheckStatus.OK, imported, details)


def _list_imported(subject: ProjectFiles) -> set[str]:
    """Return top-level packages that vendored files import, except local ones."""
    modules = (item[0] for file in subject.vendored for item in list_imports(ast.walk(file.tree), file.path))
    imported = {module.partition(".")[0] for module in modules}
    return {name for name in imported if not any((subject.root / path).exists() for path in (name, f"{name}.py"))}


# What `pyproject.toml` requires


def read_requirements(project: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return import names of required and optional packages; none if `pyproject.toml` is damaged."""
    try:
        data = readers.parse_toml(readers.read_text(project / "pyproject.toml"))
    except (OSError, readers.TOMLDecodeError):
        data = {}
    section = table if isinstance(table := data.get("project"), dict) else {}
    extras = section.get("optional-dependencies")
    optional = [item for items in extras.values() for item in items] if isinstance(extras, dict) else []
    return _read_names(section.get("dependencies")), _read_names(optional)


def _read_names(items: object) -> frozenset[str]:
    names = set()
    for item in items if isinstance(items, list) else ():
        with contextlib.suppress(InvalidRequirement, TypeError):
            names.add(name_import(Requirement(item).name))
    return frozenset(names)


def name_import(distribution: str) -> str:
    """Return the top-level name that a distribution is imported by."""
    return _IMPORT_NAMES.get(distribution.lower(), distribution.lower().replace("-", "_"))
