"""Every vendored module can be imported where nothing is installed but what the project requires."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from extractor.pipeline.generate import generate
from extractor.usecases.verify.requirements import import_name
from extractor.values import releases
from extractor.values.modules import is_package, name_module, resolve_absolute
from extractor.values.tree import Tree
from tests.project.support import CONFIGURATIONS, Configuration, Maker
from tests.releases import ALL, EVERYTHING, LAST_WITH_ENGINES_IN_PROCESS, NEWEST, source_of

pytestmark = pytest.mark.usefixtures("verl")

SCRIPT = Path(__file__).with_name("import_all.py")
NEVER = ["extractor", "flash_attn", "libcst", "liger_kernel", "megatron", "mindspeed", "ray", "sglang", "torch_npu"]
NEVER += ["trl", "verl"]
# By the feature or the engine that requires it: without that it must not be needed.
OPTIONAL = {
    "lora": ["peft"],
    "multimodal": ["PIL", "qwen_vl_utils", "torchvision"],
    "profiler": ["nvtx"],
    "qlora": ["bitsandbytes"],
    "remove_padding": ["einops"],
    "scorers": ["pylatexenc", "math_verify", "mathruler", "pyext"],
    "tools": ["PIL", "pydantic"],
    "vllm": ["vllm", "msgspec"],
}
# The least and the most of the newest release, and code of older ones: the others share nearly all modules with these.
NAMES = {f"{NEWEST[-1]}-hf-default", f"{NEWEST[-1]}-vllm-everything", f"{LAST_WITH_ENGINES_IN_PROCESS}-hf-default"}
IMPORTED = [item for item in CONFIGURATIONS if EVERYTHING or str(item) in NAMES]
# Of these what is too large for the environment that runs the tests, or not to be had.
STUBBED = ["vllm", "msgspec", "qwen_vl_utils", "torchvision", "pylatexenc", "math_verify", "mathruler", "pyext"]


@pytest.fixture(scope="module")
def failures(made: Maker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """Configuration -> module -> why it cannot be imported."""
    folder = tmp_path_factory.mktemp("imports")
    projects = {}
    blocked = {*NEVER, *(name for names in OPTIONAL.values() for name in names)}
    for configuration in IMPORTED:
        project = made(configuration)
        chosen = (*project.options.features, project.options.engine)
        allowed = {name for item in chosen for name in OPTIONAL.get(item, ())}
        required = [Requirement(line).name for line in project.manifest.list_requirements(project.options)]
        allowed |= blocked & {import_name(name) for name in required}
        projects[str(configuration)] = {
            "root": str(project.root),
            "modules": [re.sub(r"(/__init__)?\.py$", "", file.path).replace("/", ".") for file in project.vendored],
            "allowed": sorted(allowed),
            "stubbed": [name for name in STUBBED if name in allowed],
        }
    job, result = folder / "job.json", folder / "result.json"
    job.write_text(json.dumps({"blocked": sorted(blocked), "projects": projects}), encoding="utf-8")
    subprocess.run([sys.executable, "-W", "ignore", str(SCRIPT), str(job), str(result)], check=True)
    return json.loads(result.read_text(encoding="utf-8"))


@pytest.mark.parametrize("configuration", IMPORTED, ids=str)
def test_every_module_can_be_imported(failures: dict[str, dict[str, list[str]]], configuration: Configuration) -> None:
    assert failures[str(configuration)] == {}


ONE_FEATURE = [Configuration(NEWEST[-1], features=(one.name,)) for one in releases.load(NEWEST[-1]).features]
ALL_FEATURES = [Configuration(release, everything=True) for release in ALL]


@pytest.mark.parametrize(
    "configuration",
    [
        Configuration(NEWEST[-1], everything=True),
        *(pytest.param(item, marks=pytest.mark.thorough) for item in (*ALL_FEATURES[:-1], *ONE_FEATURE)),
    ],
    ids=lambda item: "-".join((str(item), *item.features)),
)
def test_a_feature_alone_and_all_of_them_import_only_what_is_there(configuration: Configuration) -> None:
    manifest = releases.load(configuration.release)
    tree = generate(configuration.options(manifest), source_of(configuration.release), manifest).tree
    assert find_missing(tree) == []


def find_missing(tree: Tree) -> list[str]:
    """List what a project's modules import from others of its own that these do not have."""
    modules = {name_module(file.path): file for file in tree if re.fullmatch(r"toy/.*\.py", file.path)}
    parsed = {name: ast.parse(file.data) for name, file in modules.items()}
    words = {name: {word for node in ast.walk(found) for word in _bind(node)} for name, found in parsed.items()}
    missing = []
    for importer, found in parsed.items():
        path = modules[importer].path
        for node in [node for node in ast.walk(found) if isinstance(node, ast.ImportFrom) and node.level]:
            module = resolve_absolute(node, importer, is_package=is_package(path))
            known = words.get(module, set())
            for name in [alias.name for alias in node.names if alias.name != "*"]:
                if f"{module}.{name}" not in modules and not {name, "__getattr__"} & known:
                    missing.append(f"{path}:{node.lineno}: {module}.{name}")
    return missing


def _bind(node: ast.AST) -> list[str]:
    """Return the names that a node binds, whatever the scope."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []
