"""What is true of every generated tree, without running it; and in hard places."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.sizes import limit_of
from extractor.project import lock
from extractor.usecases.verify import project_files
from extractor.usecases.verify.closed_imports import check_imports, check_ray_free
from extractor.values import releases
from extractor.values.tree import FileKind
from tests.project.support import CONFIGURATIONS, PACKAGE, REPOSITORY, Configuration, Maker, files_of, vextract
from tests.releases import NEWEST, newest_release

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]

every_configuration = pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)


@every_configuration
def test_our_files_are_whole(made: Maker, configuration: Configuration) -> None:
    """Each is told by its first lines; no name is defined twice, and none is a class of verl that the release lacks.

    What features decide is decided: no condition has a constant in it.
    """
    files = [(file.path, file.kind, file.data.decode()) for file in made(configuration).generated.tree]
    defined = {name for _, _, text in files for name in re.findall(r"^class (\w+)", text, re.MULTILINE)}
    for path, kind, text in files:
        if text and path != "LICENSE.verl":
            marker = {FileKind.VENDORED: "vextract:vendored"}.get(kind, f"vextract:{kind.value}")
            assert marker in "".join(text.splitlines()[:2]), path
        if kind is not FileKind.VENDORED and path != "NOTICE":  # which names what was left out
            assert set(re.findall(r"\b(?:DataParallelPPO|FSDPEngine)\w*", text)) <= defined, path
        if path.endswith(".py") and "/vendored/" not in path:
            for holder in ast.walk(ast.parse(text)):
                body = holder.body if isinstance(holder, (ast.Module, ast.ClassDef)) else []
                functions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
                names = [node.name for node in functions if not node.decorator_list]  # a setter has its property's
                assert sorted({*names}) == sorted(names), path
                tests = {ast.BoolOp: "values", ast.If: "test", ast.IfExp: "test", ast.UnaryOp: "operand"}
                asked = getattr(holder, tests.get(type(holder), ""), [])
                for node in asked if isinstance(asked, list) else [asked]:
                    assert not isinstance(getattr(node, "value", None), bool), path


def checked(root: Path, *command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout[-3000:])


# What has the least, and the most; the others share nearly all files with these.
TYPED = {f"{NEWEST[-1]}-hf-default", f"{NEWEST[-1]}-vllm-everything"}


@pytest.mark.parametrize(
    "configuration",
    [pytest.param(item, marks=() if str(item) in TYPED else pytest.mark.thorough) for item in CONFIGURATIONS],
    ids=str,
)
def test_its_types_are_right(
    made: Maker, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checked(made(configuration).root, "mypy", f"--cache-dir={tmp_path_factory.getbasetemp() / 'mypy'}")


NAMES = [
    Configuration(NEWEST[-1], engine, everything=package != "a", package=package, recipe=recipe)
    for package in ("a", "m" * 41, "z" * 60)
    for engine, recipe in (("hf", "multiturn"), ("vllm", "toy"))
]


@pytest.mark.parametrize(
    "configuration",
    [
        *CONFIGURATIONS,
        NAMES[-2],
        *(pytest.param(each, marks=pytest.mark.thorough) for each in NAMES if each != NAMES[-2]),
    ],
    ids=lambda configuration: f"{configuration}-{configuration.recipe}-{len(configuration.package)}",
)
def test_ruff_finds_nothing_whatever_the_length_of_the_package_s_name(
    made: Maker, configuration: Configuration
) -> None:
    """By the project's own settings; and no file, upstream's or ours, has an unused import or an unknown name."""
    for words in ("check --isolated --select=F", "check", "format --diff"):
        checked(made(configuration).root, "ruff", *words.split(), "--no-cache", ".")


ONE_FEATURE = [Configuration(NEWEST[-1], features=(one.name,)) for one in releases.load(NEWEST[-1]).features]


@pytest.mark.parametrize(
    "configuration",
    [*CONFIGURATIONS, *(pytest.param(configuration, marks=pytest.mark.thorough) for configuration in ONE_FEATURE)],
    ids=str,
)
def test_no_name_leads_to_ray_or_verl_and_every_import_resolves(made: Maker, configuration: Configuration) -> None:
    project = made(configuration)
    read = project_files.read_project(project.root)
    for check in (check_ray_free(read), check_imports(read, project.source)):
        assert check.ok, (check.summary, *check.details)


@every_configuration
def test_every_symbol_leads_to_a_root(made: Maker, configuration: Configuration) -> None:
    """And no definition is in a vendored file that the search did not reach."""
    project = made(configuration)
    edges = project.generated.sliced.edges
    roles = {f"role {role.name}" for role in project.manifest.list_active_roles(project.options)}
    modules = {module.module for module in project.generated.sliced.modules}
    for symbol in edges:
        chain = [symbol]
        while chain[-1] in edges:
            assert len(chain) <= len(edges), chain[:10]
            chain.append(edges[chain[-1]].origin)
        ends = (*roles, "the project's own code", "the project's templates")
        assert chain[-1] in ends or chain[-1].removeprefix("effect of ") in modules, chain
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for module, emitted in project.modules:
        for node in ast.parse(emitted.text).body:
            if isinstance(node, (*definitions, ast.ClassDef)):
                assert f"{module.module}:{node.name}" in edges
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                assert not isinstance(method, definitions) or f"{module.module}:{node.name}.{method.name}" in edges


@every_configuration
def test_the_first_line_of_a_vendored_file_names_its_source_and_nothing_else_is_added(
    made: Maker, configuration: Configuration
) -> None:
    """What changes by itself stands in the lock and in NOTICE: release, digests, the list of changes."""
    project = made(configuration)
    locked, notice = lock.read(project.root), (project.root / "NOTICE").read_text(encoding="utf-8")
    assert f"verl {configuration.release} with sha256\n{project.source.sha256}" in notice
    for module, emitted in project.modules:
        entry = locked.file(f"{PACKAGE}/{module.target_path}")
        assert entry is not None
        first, _, text = emitted.text.partition("\n")
        modified = text != module.source
        said = ", modified (see NOTICE and vextract.lock)" if modified else ""
        assert first.rstrip("\r") == f"# vextract:vendored {module.upstream_path}{said}"
        assert bool(entry.changes) == modified
        assert (entry.changes, entry.upstream_sha256) == (emitted.changes, module.upstream_sha256)
        assert all(f"      - {change}\n" in notice for change in entry.changes)


@every_configuration
def test_what_was_not_asked_for_is_not_there(made: Maker, configuration: Configuration) -> None:
    """There is one engine, and one trainer; a critic where it is asked for."""
    project = made(configuration)
    files = {file.path: file.data.decode() for file in project.generated.tree}
    engines = {
        "hf": "toy/vendored/workers/hf_rollout.py",
        "sglang": "toy/workers/servers/sglang_server.py",
        "vllm": "toy/workers/vllm_setup.py",
    }
    assert {engine for engine, path in engines.items() if path in files} == {configuration.engine}
    lines = sum(file.data.count(b"\n") for file in project.vendored)
    assert configuration.everything or configuration.engine != "hf" or lines <= limit_of(configuration.release)
    critics = {"toy/vendored/workers/dp_critic.py", "toy/workers/critic.py"}  # before 0.8.0, and from there on
    assert len(critics & files.keys()) == configuration.everything
    assert {"main.py", "toy/training/trainer.py", "NOTICE", "LICENSE.verl", "toy/py.typed"} <= files.keys()
    assert not [path for path, text in files.items() if str(REPOSITORY) in text or "import extractor" in text]
    vendored = {file.path: file.data.decode() for file in project.vendored}
    lacking = ["hf_rollout"] * (configuration.engine != "hf") + ["vllm"] * (configuration.engine != "vllm")
    if not configuration.everything:
        assert not [path for path in vendored for part in ("critic", *lacking) if part in path]
        assert not [path for path, code in vendored.items() if "class DataParallelPPOCritic" in code]


def test_a_clone_where_git_changes_line_ends_has_no_edits(made: Maker, tmp_path: Path) -> None:
    root = shutil.copytree(made(Configuration(NEWEST[-1], "hf")).root, tmp_path / "project")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *words], cwd=root, check=True)
    clone = ("git", "clone", "-q", "-c", "core.autocrlf=true", root, tmp_path / "clone")
    subprocess.run(clone, check=True)
    found = vextract("status", "--json", cwd=tmp_path / "clone")
    assert json.loads(found.stdout)["drift"] is False, found.stdout


# From the top down. A layer in brackets is not there in all projects; those of one line may import each other.
LAYERS = (
    "(export) (api) training custom workers data run settings tracking output hooks absent registries rewards errors"
)
CONTRACTS = """
[importlinter]
root_package = {package}

[importlinter:contract:order]
name = Each folder imports only what stands below it
type = layers
containers = {package}
exhaustive = True
layers =
    {layers}
# 0.4.0 has no registries of its own: what stands for them comes in late.
ignore_imports =
    {package}.shims.registries -> {package}.registries
unmatched_ignore_imports_alerting = none

[importlinter:contract:circles]
name = No circles within a folder
type = acyclic_siblings
ancestors =
    {folders}
"""


@pytest.mark.parametrize("release", newest_release("0.4.0"))
def test_each_folder_imports_only_what_stands_below_it(made: Maker, release: str, tmp_path: Path) -> None:
    root = made(Configuration(release)).root
    own = sorted(path.name for path in (root / PACKAGE).iterdir() if (path / "__init__.py").is_file())
    contracts = tmp_path / "contracts.ini"
    contracts.write_text(
        CONTRACTS.format(
            package=PACKAGE,
            layers="\n    ".join([*LAYERS.split(), "shims : vendored"]),
            folders="\n    ".join(f"{PACKAGE}.{name}" for name in own if name not in ("vendored", "shims")),
        )
    )
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache", "--config", contracts]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_that_was_moved_to_a_hard_name(project: Path, tmp_path: Path) -> None:
    """What `vextract sync` does for every command: find the project, read it, write into it; and it can be imported."""
    lost, before = PACKAGE + "/vendored/protocol.py", files_of(project)
    for name in ("with space", "ünïcode 模型", "quote's & $dollar;", "-dash"):
        project = project.rename(tmp_path / name)
        for arguments, cwd in (([], project), (["--", name], tmp_path), ([str(project)], Path("/"))):
            (project / lost).unlink()
            done = vextract("sync", "--offline", *arguments, cwd=cwd)
            assert (done.returncode, f"restored  {lost}" in done.stdout) == (0, True), done.stderr
            assert files_of(project) == before, name
        code = f"import {PACKAGE}.shims.stand_ins as module; print(module.__file__)"
        shown = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, check=True).stdout
        assert Path(os.fsdecode(shown.strip())) == project / PACKAGE / "shims/stand_ins.py"
