"""Runs whose model calls tools: their classes and functions come along, and upstream's loop calls them."""

import importlib
from pathlib import Path

import pytest
import yaml

from tests.importers.conftest import imported, put, vextract

LAUNCH = """python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b \\
    actor_rollout_ref.rollout.multi_turn.enable=True actor_rollout_ref.rollout.multi_turn.format=hermes \\
    actor_rollout_ref.rollout.multi_turn.tool_config_path=$PWD/config/tools.yaml \\
    actor_rollout_ref.rollout.multi_turn.function_tool_path=own/functions.py
"""
TABLE = """tools:
  - class_name: own.tools.Looking
    config: {type: native}
    tool_schema: {type: function, function: {name: look, description: Look.}}
"""
CLASS = """from own.words import WORD
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse


class Looking(BaseTool):
    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text=WORD), 1.0, {}
"""
FUNCTIONS = """from verl.tools.function_tool import function_tool


@function_tool
def add(a: int, b: int) -> str:
    \"\"\"Add.

    Args:
        a: one.
        b: another.
    \"\"\"
    return str(a + b)
"""
FILES = {
    "run.sh": LAUNCH,
    "config/tools.yaml": TABLE,
    "own/__init__.py": "",
    "own/tools.py": CLASS,
    "own/words.py": "WORD = 'found'\n",
    "own/functions.py": FUNCTIONS,
}
MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"


def test_tools_come_along(tmp_path: Path, pkg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings name the copies, whose imports are of the project; the tools load as upstream loads them."""
    run = put(tmp_path / "run", FILES) / "run.sh"
    made = imported(pkg, run, "--package", "pkg", "--cwd", run.parent, "--run-verl", "0.9.1")
    monkeypatch.chdir(pkg)
    multi_turn = yaml.safe_load(made.recipe)["actor_rollout_ref"]["rollout"]["multi_turn"]
    named = [multi_turn[key] for key in ("tool_config_path", "function_tool_path")]
    assert named == ["pkg/custom/verl_tools.yaml", "pkg/custom/verl_functions.py"]
    load = importlib.import_module("pkg.vendored.tools.tool_registry").load_all_tools
    looking, added = load(*named)
    assert (looking.name, type(looking).__module__) == ("look", "pkg.custom.from_run.own.tools")
    assert (added.name, added.fn(1, 2)) == ("add", "3")


def test_an_export_takes_tools_back(tmp_path: Path) -> None:
    """To verl's own agent loop for tools, whose files import verl's modules under the project's names."""
    made = vextract("new", tmp_path / "pkg", "--package", "pkg", "--with", "tools")
    assert made.code == 0, made.err
    functions = {"looking.py": CLASS.replace("from own.words import WORD", "WORD = 'found'"), "add.py": FUNCTIONS}
    own = {name: text.replace("from verl.", "from pkg.vendored.") for name, text in functions.items()}
    put(tmp_path / "pkg", {**own, "tools.yaml": TABLE.replace("own.tools", "looking")})
    named = (f"{MULTI_TURN}.tool_config_path=tools.yaml", f"{MULTI_TURN}.function_tool_path=add.py")
    settings = [part for setting in (f"{MULTI_TURN}.enable=true", *named) for part in ("--set", setting)]
    made = vextract("export", tmp_path / "pkg", "-o", tmp_path / "out", *settings)
    assert made.code == 0, made.err
    script = (tmp_path / "out/run.sh").read_text()
    for line in (
        "actor_rollout_ref.rollout.agent.default_agent_loop=tool_agent",
        f"{MULTI_TURN}.tool_config_path='$HERE/tools.yaml'",
        "data.function_tool_path='$HERE/add.py'",
    ):
        assert line in script
    assert "class_name: looking.Looking" in (tmp_path / "out/tools.yaml").read_text()
    assert (tmp_path / "out/looking.py").is_file()
    assert not (tmp_path / "out/adapters/environment.py").exists()
    for module in ("base_tool", "function_tool", "schemas"):
        assert f"verl.tools.{module}" in (tmp_path / f"out/pkg/vendored/tools/{module}.py").read_text()
    (tmp_path / "pkg/tools.yaml").write_text("tools: [{config: {type: mcp}}]\n")
    refused = vextract("export", tmp_path / "pkg", "-o", tmp_path / "none", *settings)
    assert (refused.code, "verl has no tools of MCP servers" in refused.err) == (2, True)
