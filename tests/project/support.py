"""Projects as `vextract new` makes them, in every combination that matters."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from extractor import __version__
from extractor.cli.app import run as run_command
from extractor.pipeline import apply
from extractor.pipeline.generate import Generated, complete, generate
from extractor.pipeline.plan import plan_new
from extractor.pipeline.rewrite import Emitted
from extractor.pipeline.slicer import KeptModule
from extractor.pipeline.source import Source
from extractor.project import base, lock
from extractor.values import releases
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.tree import File, FileKind
from tests.releases import ALL, EVERYTHING, LAST_WITH_ENGINES_IN_PROCESS, NEWEST, source_of

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "toy"
# For tests of parts that do not disturb each other: each other set of features is a project that takes seconds to make.
TOGETHER = (
    "dataset_classes",
    "dynamic_sampling",
    "episodes",
    "freed_memory",
    "given_objects",
    "parts",
    "reward_managers",
    "reward_processes",
    "rollout_correction",
    "short_names",
    "step_hooks",
    "sweep",
)


@dataclass(frozen=True)
class Configuration:
    """What a project is made with; `everything` switches every feature on that the engine has."""

    release: str
    engine: str = "hf"
    _: KW_ONLY
    everything: bool = False
    algorithm: str = ""
    features: tuple[str, ...] = ()
    recipe: str = "toy"
    package: str = PACKAGE

    def __str__(self) -> str:
        return f"{self.release}-{self.engine}-{'everything' if self.everything else 'default'}"

    def options(self, manifest: Manifest) -> Options:
        """As the command line would make them."""
        algorithm = self.algorithm or ("ppo" if self.everything else "grpo")
        features = sorted(
            feature.name
            for feature in manifest.features
            if feature.name in self.features
            or (self.everything and not feature.by_name and (not feature.engines or self.engine in feature.engines))
        )
        asked = Options(self.package, self.release, self.engine, algorithm, tuple(features), self.recipe)
        return complete(asked, manifest)


def _configurations(release: str) -> list[Configuration]:
    """What is made of a release: the least and the most; in an ordinary run of the newest, and an older one plainly."""
    if not EVERYTHING and release != NEWEST[-1]:
        return [Configuration(release)] if release == LAST_WITH_ENGINES_IN_PROCESS else []
    plain = [Configuration(release, engine) for engine in ("hf", *["vllm"] * EVERYTHING, "sglang")]
    rich = [Configuration(release, engine, everything=True) for engine in ("hf", "vllm")]
    return [item for item in (*plain, *rich) if item.engine in releases.load(release).engines]


CONFIGURATIONS = [configuration for release in ALL for configuration in _configurations(release)]


@dataclass(frozen=True)
class Made:
    """A project: as a value, and on disk."""

    configuration: Configuration
    options: Options
    manifest: Manifest
    source: Source = field(repr=False)
    generated: Generated = field(repr=False)
    root: Path

    @property
    def vendored(self) -> list[File]:
        """The vendored Python files."""
        return [
            file
            for file in self.generated.tree
            if file.kind is FileKind.VENDORED and file.path.startswith(f"{self.options.package}/")
        ]

    @property
    def modules(self) -> list[tuple[KeptModule, Emitted]]:
        """The kept modules with what they became."""
        emitted = {item.path: item for item in self.generated.emitted}
        return [(module, emitted[module.target_path]) for module in self.generated.sliced.modules]


def make(configuration: Configuration, root: Path, manifest: Manifest | None = None) -> Made:
    """Make a project and write it, as `vextract new` does, by the release's own manifest or another one."""
    manifest = manifest or releases.load(configuration.release)
    source = source_of(configuration.release)
    options = configuration.options(manifest)
    generated = generate(options, source, manifest)
    tree = generated.tree
    locked = lock.Lock.of(tree, options, vextract=__version__, source_kind=source.kind, source_sha256=source.sha256)
    apply.create(root, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.collect_from_tree(tree)))
    return Made(configuration, options, manifest, source, generated, root)


Maker = Callable[[Configuration], Made]


def copy_of(project: Made, folder: Path) -> Path:
    """Return a copy of a project in a folder, to change."""
    return Path(shutil.copytree(project.root, folder / "project"))


def forget(*packages: str) -> None:
    """Have packages imported anew next time: their names may stand for another release then."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def vextract(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, for which projects are generated once, in a directory."""
    words, before = [*map(str, arguments)], Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(words)
    finally:
        os.chdir(before)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a directory, by its POSIX path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
