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
from tests.project.support import CONFIGURATIONS, Configuration, Maker
from tests.releases import EVERYTHING, LAST_WITH_ENGINES_IN_PROCESS, NEWEST, source_of

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


@pytest.mark.thorough
@pytest.mark.parametrize("feature", [feature.name for feature in releases.load(NEWEST[-1]).features])
def test_a_feature_alone_imports_only_what_is_there(feature: str) -> None:
    manifest = releases.load(NEWEST[-1])
    tree = generate(
        Configuration(NEWEST[-1], features=(feature,)).options(manifest), source_of(NEWEST[-1]), manifest
    ).tree
    there = {name_module(file.path) for file in tree if file.path.startswith("toy/")}
    for file in tree:
        if file.path.startswith("toy/") and file.path.endswith(".py"):
            for node in ast.walk(ast.parse(file.data)):
                if isinstance(node, ast.ImportFrom) and node.level:
                    module = resolve_absolute(node, name_module(file.path), is_package=is_package(file.path))
                    assert module in there, f"{file.path}:{node.lineno}"
