"""What is printed to be typed, in the tool and in projects: every command in it is one, every key is a setting."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

from extractor.cli.app import app
from extractor.pipeline.generate import complete, generate
from extractor.pipeline.render.layers import UNTIL
from extractor.usecases.changes.config_keys import MAIN, select_below_config, select_emitted_config
from extractor.values import releases, resources
from extractor.values.configtree.settings import list_every_setting
from extractor.values.options import Options
from tests.releases import source_of

TOOL = Path(__file__).parents[2] / "extractor"
COMMAND = re.compile(
    r"`(vextract [^`]+)`|(?<![\w`/.'-])(vextract (?:new|upgrade|sync|status|diff|verify|export)\b[^;,:()`]*)"
)
TARGET = re.compile(r"`make ([a-z-]+)")
_KEY = r"(?:actor_rollout_ref|algorithm|critic|data|distillation|local|trainer)(?:\.[a-z_]+)+"
KEY = re.compile(rf"\b{_KEY}=")
# What is printed of a run of somebody else's may name what only its owner knows.
SET = re.compile(rf"(?<![+\w.])({_KEY})=")
RUNS = "importers/runs/"
VALUE = "0.9.1"  # what stands for a value, and for what the reader of a help text names


def _text(node: ast.AST) -> str:
    """A string as it may be printed: a value of it is a word."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
    return ""


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module, docstrings apart."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".jinja":
        source = re.sub(r"\{\{.*?\}\}", "word", re.sub(r"\{%.*?%\}", "", source))
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a template of several texts
        return
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skipped and _text(node):
            yield node.lineno, _text(node)


@cache
def printed() -> list[tuple[str, str]]:
    """All strings of the tool and of what projects are made of, with their places; tests apart."""
    roots = (TOOL, resources.find_templates())
    paths = sorted(path for root in roots for path in root.rglob("*.py*") if path.suffix in (".py", ".jinja"))
    told = [path for path in paths if "tests" not in path.parts]
    return [(f"{path}:{line}", text) for path in told for line, text in strings(path)]


def _commands() -> list[tuple[str, str]]:
    found = [(where, match[1] or match[2]) for where, text in printed() for match in COMMAND.finditer(text)]
    return [(where, command) for where, command in found if command != f"vextract {VALUE}"]  # which is a mistyped one


def test_each_command_of_vextract_is_one() -> None:
    """It is parsed as it would be, down to its options, and not run."""
    top = typer.main.get_command(app)
    refused = []
    for where, command in _commands():
        words = shlex.split(re.sub(r"(?<= )(?:NAME|PATH|FILE|DIR|RELEASE)\b", VALUE, command))[1:]
        try:
            with top.make_context("vextract", list(words)) as context:
                name, found, rest = top.resolve_command(context, [*context._protected_args, *context.args])
                found.make_context(name, rest, parent=context)
        except SystemExit:
            continue
        except Exception as error:
            refused.append(f"{where}: `{command}`: {error}")
    assert len(_commands()) > 60
    assert not refused, "\n".join(refused)


def test_each_target_of_make_is_one() -> None:
    makefile = (resources.find_templates() / "base/Makefile.jinja").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {target for _, text in printed() for target in TARGET.findall(text)}
    assert {"setup"} <= named <= targets


def test_packages_are_installed_where_they_are_looked_for() -> None:
    """A bare `pip` is that of whatever environment the shell is in."""
    bare = [where for where, text in printed() if re.search(r"(?<!-m )\bpip3? install\b", text) and RUNS not in where]
    allowed = ("cli/contents.py", "usecases/upgrade/__init__.py")  # what is to be done elsewhere
    assert not [where for where in bare if not any(part in where for part in allowed)]


def test_no_hint_leaves_out_a_value() -> None:
    """`key=...` is typed as it stands, and refused."""
    assert not [
        f"{where}: {text}"
        for where, text in printed()
        if re.search(r"[\w}]=\.\.\.", text) and KEY.search(text) and RUNS not in where
    ]
    words = re.compile(r"`vextract [^`]*\b(?:NAME|PATH|FILE|DIR)\b")
    assert not [f"{where}: {text}" for where, text in printed() if words.search(text) and RUNS not in where]


@pytest.mark.usefixtures("verl")
def test_each_setting_that_a_project_writes_out_is_one() -> None:
    """With all that a project of the newest release may have; what is for older ones stands below until/."""
    manifest = releases.load(releases.find_default())
    options = Options("toy", manifest.release, "vllm", "grpo", tuple(item.name for item in manifest.features))
    files = select_below_config(
        select_emitted_config(generate(complete(options, manifest), source_of(manifest.release), manifest).tree)
    )
    known = {item.key for main in (MAIN, "sft.yaml") for item in list_every_setting(files, main)}
    templates = f"{resources.find_templates()}/"
    told = [(where, text) for where, text in printed() if where.startswith(templates) and f"{UNTIL}/" not in where]
    named = {(where, key) for where, text in told for key in SET.findall(text) if not key.startswith("data.env.")}
    assert len(named) > 90
    assert not sorted(f"{where}: {key}" for where, key in named if key not in known)
