"""Projects for the tests: small ones written by hand, and changes to real ones."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from extractor.pipeline import apply
from extractor.pipeline.plan import plan_new
from extractor.project import base, lock
from extractor.values.options import Options
from extractor.values.tree import File, FileKind, Tree
from tests.project.support import Configuration

OPTIONS = Options(package="toy", verl="0.6.1", engine="hf", algorithm="grpo", features=())
PYPROJECT = '[project]\nname = "toy"\nversion = "0"\ndependencies = ["torch>=2", "hydra-core", "pyyaml"]\n'


def small(
    folder: Path,
    files: dict[str, str],
    *,
    hooks: tuple[str, ...] = (),
    changes: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Path:
    """Write a project by hand: files below toy/ that are no hooks count as vendored, others as templates."""
    tree = Tree.of(
        [
            File(
                path,
                _kind(path, hooks),
                text.encode(),
                f"verl/{path.removeprefix('toy/')}",
                "0" * 64,
                tuple(changes.get(path, ())),
            )
            for path, text in {"pyproject.toml": PYPROJECT, "toy/__init__.py": "", **files}.items()
        ]
    )
    locked = lock.Lock.of(tree, OPTIONS, vextract="0.1.0", source_kind="wheel", source_sha256="0" * 64)
    apply.create(folder, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.collect_from_tree(tree)))
    return folder


def with_what_computes(release: str) -> Configuration:
    """A critic, and what else computes something."""
    features = ("distillation", "dynamic_bsz", "reward_managers", "rollout_correction")
    return Configuration(release, algorithm="ppo", features=features)


def mutate(project: Path, path: str, function: str, what: str, index: int = 0) -> None:
    """Change one thing in a function of a file.

    Args:
        project: The project.
        path: The file.
        function: Its name.
        what: "number" (its first digit goes up), "product" (becomes a sum), "true" (becomes false) or "minus" (goes).
        index: Which of the candidates in the function.
    """
    file = project / path
    text = file.read_text(encoding="utf-8")
    tree = next(node for node in ast.walk(ast.parse(text)) if getattr(node, "name", None) == function)
    nodes = [node for node in ast.walk(tree) if _fits(node, what)]
    start, end, new = _replacement(sorted(nodes, key=_place)[index], text)
    file.write_text(text[:start] + new + text[end:], encoding="utf-8")


def _fits(node: ast.AST, what: str) -> bool:
    if isinstance(node, ast.Constant):
        return (what == "true" and node.value is True) or (what == "number" and type(node.value) in (int, float))
    if isinstance(node, ast.BinOp):
        return what == "product" and isinstance(node.op, ast.Mult)
    return what == "minus" and isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _place(node: ast.AST) -> tuple[int, int]:
    assert isinstance(node, ast.expr)
    return node.lineno, node.col_offset


def _replacement(node: ast.AST, text: str) -> tuple[int, int, str]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert isinstance(node, ast.expr)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    if isinstance(node, ast.BinOp):
        assert node.left.end_lineno is not None
        assert node.left.end_col_offset is not None
        sign = text.index("*", starts[node.left.end_lineno - 1] + node.left.end_col_offset)
        return sign, sign + 1, "+"
    if isinstance(node, ast.UnaryOp):
        return start, start + 1, ""
    if isinstance(node, ast.Constant) and node.value is True:
        return start, end, "False"
    return start, start + 1, str((int(text[start]) + 1) % 10)


def _kind(path: str, hooks: tuple[str, ...]) -> FileKind:
    if path in hooks:
        return FileKind.HOOK
    return FileKind.VENDORED if path.startswith("toy/") else FileKind.TEMPLATE
