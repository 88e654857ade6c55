"""Projects for the tests: small ones written by hand, and changes to real ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from benchmarks.mutations import mutations
from extractor.values.options import Options
from extractor.values.tree import File, FileKind, Tree
from tests.lifecycle.worlds import create
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
    return create(folder, tree, OPTIONS)


def with_what_computes(release: str) -> Configuration:
    """A critic, and what else computes something."""
    features = ("distillation", "dynamic_bsz", "reward_managers", "rollout_correction")
    return Configuration(release, algorithm="ppo", features=features)


def mutate(project: Path, path: str, function: str, kind: str, new: str, index: int = 0) -> None:
    """Change one thing in a function of a file, as `benchmarks.mutations` names it."""
    data = (project / path).read_bytes()
    found = [
        item for item in mutations(data) if (item.function.split(".")[-1], item.kind, item.new) == (function, kind, new)
    ]
    (project / path).write_bytes(found[index].apply(data))


def _kind(path: str, hooks: tuple[str, ...]) -> FileKind:
    if path in hooks:
        return FileKind.HOOK
    return FileKind.VENDORED if path.startswith("toy/") else FileKind.TEMPLATE
