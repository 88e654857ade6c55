"""Projects for the tests: small ones written by hand, and real ones made from verl."""

from __future__ import annotations

from pathlib import Path

from extractor import apply, base, lock, releases
from extractor.generate import complete, generate
from extractor.lock import Lock
from extractor.options import Options
from extractor.plan import plan_new
from extractor.source import Source
from extractor.tree import File, FileKind, Tree

OPTIONS = Options(package="toy", verl="0.6.1", engine="hf", algorithm="grpo", features=())
PYPROJECT = '[project]\nname = "toy"\ndependencies = ["torch>=2", "hydra-core"]\n'


def small(folder: Path, files: dict[str, str], *, hooks: tuple[str, ...] = ()) -> Path:
    """Write a project by hand: files below toy/ that are no hooks count as vendored, others as templates."""
    tree = Tree.of(
        [
            File(path, _kind(path, hooks), text.encode(), f"verl/{path.removeprefix('toy/')}", "0" * 64)
            for path, text in {"pyproject.toml": PYPROJECT, "toy/__init__.py": "", **files}.items()
        ]
    )
    _write(folder, tree, OPTIONS, "wheel", "0" * 64)
    return folder


def real(folder: Path, source: Source, *, algorithm: str = "grpo", features: tuple[str, ...] = ()) -> Path:
    """Make a project from verl."""
    manifest = releases.load(source.release)
    options = complete(Options("toy", source.release, "hf", algorithm, features), manifest)
    tree = generate(options, source, manifest).tree
    _write(folder, tree, options, source.kind, source.sha256)
    return folder


def edit(project: Path, path: str, old: str, new: str) -> None:
    """Replace the only occurrence of a text in a file."""
    text = (project / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
    (project / path).write_text(text.replace(old, new), encoding="utf-8")


def _kind(path: str, hooks: tuple[str, ...]) -> FileKind:
    if path in hooks:
        return FileKind.HOOK
    return FileKind.VENDORED if path.startswith("toy/") else FileKind.TEMPLATE


def _write(folder: Path, tree: Tree, options: Options, kind: str, sha: str) -> None:
    locked = Lock.of(tree, options, vextract="0.1.0", source_kind=kind, source_sha256=sha)
    apply.create(folder, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.of_tree(tree)))
