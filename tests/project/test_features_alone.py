"""A project with one feature alone has all modules that it imports."""

import ast
import importlib.util
from collections.abc import Iterator

import pytest

from extractor.pipeline.generate import complete, generate
from extractor.values import releases
from extractor.values.options import Options
from extractor.values.tree import Tree
from tests.releases import NEWEST, source_of

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("verl")]


def find_lacking(tree: Tree, package: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a project that import a module of its own that it lacks, and that module."""
    names = {file.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in tree}
    for file in tree:
        above = file.path.rpartition("/")[0].replace("/", ".")
        for node in ast.walk(ast.parse(file.data)) if file.path.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == package):
                name = importlib.util.resolve_name("." * node.level + (node.module or ""), above)
                if name not in names and not any(other.startswith(f"{name}.") for other in names):
                    yield file.path, name


@pytest.mark.parametrize("feature", ["", *(feature.name for feature in releases.load(NEWEST[-1]).features)])
def test_what_is_imported_is_there(feature: str) -> None:
    manifest = releases.load(NEWEST[-1])
    features = (feature,) if feature else ()
    made = generate(
        complete(Options(package="toy", verl=NEWEST[-1], features=features), manifest), source_of(NEWEST[-1]), manifest
    )
    assert [*find_lacking(made.tree, "toy")] == []
