"""Projects, exports of them, and the command line."""

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from extractor.cli.app import run as run_command_line
from extractor.importers.config.project import load, read_files
from extractor.values.tree import Tree
from tests.releases import NEWEST
from tests.source.archives import write_tree


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def vextract(*arguments: str | Path) -> Result:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command_line([str(item) for item in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def put(folder: Path, files: Mapping[str, str]) -> Path:
    """Write texts below a folder; return the folder."""
    return write_tree(folder, {path: text.encode() for path, text in files.items()})


@dataclass(frozen=True)
class Imported:
    """A project that was made of a run.

    Attributes:
        root: Its directory.
        report: What the command prints as JSON.
    """

    root: Path
    report: Any

    @property
    def settings(self) -> dict[str, Any]:
        """The config as it is read, by keys."""
        return dict(load(read_files(self.root)).flat)

    @property
    def recipe(self) -> str:
        return self.read("config/recipe/verl_run.yaml")

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def remarks(self, what: str) -> dict[str, str]:
        """The reasons of remarks of a kind, by keys: the last of each."""
        return {item["key"]: item["why"] for item in self.report["run"]["remarks"] if item["what"] == what}


def imported(root: Path, run: Path, *options: str | Path) -> Imported:
    """Make a project of a run."""
    made = vextract("new", root, "--from-verl-run", run, "--offline", "--json", *options)
    assert made.code == 0, made.err
    importlib.invalidate_caches()
    return Imported(root, made.json)


def make(folder: Path, release: str, *options: str | Path) -> Path:
    """Make a project of a release, whose package is called `mine`."""
    made = vextract("new", folder / "mine", "--verl", release, "--offline", *options)
    assert made.code == 0, made.err
    return folder / "mine"


@pytest.fixture(autouse=True)
def _reads_verl(verl: None) -> None:
    """All of these tests may read releases: no quick run has them."""


@pytest.fixture
def pkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the package `pkg` is imported from, for this test alone."""
    yield from imported_from(tmp_path / "project", "pkg", monkeypatch)


def imported_from(folder: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that a package is imported from, and forget the package behind it: the body of a fixture."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))  # to which a project adds what says which features lack
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def written(tree: Tree, folder: Path) -> None:
    """Write a project's files where they can be imported."""
    for file in tree:
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
    importlib.invalidate_caches()


@pytest.fixture(scope="session")
def projects(verl: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A project of each recipe, by recipe; of the newest release. The toy one has every preset."""
    folder = tmp_path_factory.mktemp("projects")
    made = {}
    for recipe in ("toy", "gsm8k", "reasoning", "multiturn"):
        made[recipe] = folder / recipe
        features = ["reward_model", *["critic,distillation,dynamic_sampling,overlap,prime"] * (recipe == "toy")]
        options = ("--recipe", recipe, "--with", ",".join(features))
        assert vextract("new", made[recipe], "--verl", NEWEST[-1], *options).code == 0
    return made
