"""The documentation says what the code does."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from extractor.pipeline.index import Index
from extractor.pipeline.rewrite import rewrite_module
from extractor.pipeline.slicer import slice_source
from extractor.values.manifest import parse_manifest, read_toml
from extractor.values.manifest.entries import Edit, Feature, Fix, Replacement, Role, SourcePin
from extractor.values.manifest.parse import EDIT_OPS
from extractor.values.options import Options
from scripts.walk import blocks_of
from tests.project.support import REPOSITORY
from tests.slicing.tiny import TinySource

SLICING = REPOSITORY / "docs/slicing.md"
MANIFESTS = REPOSITORY / "docs/manifests.md"
REST = f"""
schema = 1
release = "1.2.3"
engines = ["hf"]
algorithms = ["grpo"]
[source]
wheel = "verl-1.2.3-py3-none-any.whl"
wheel_sha256 = "{"0" * 64}"
[requirements]
base = []
"""


def blocks(page: Path) -> dict[str, str]:
    """The named code blocks of a page: "verl/x.py" -> its text."""
    return {block.words[0]: block.text for block in blocks_of(page) if block.words}


def test_the_example_of_a_slice() -> None:
    shown = blocks(SLICING)
    source = TinySource({path: text for path, text in shown.items() if path.startswith("verl/")})
    manifest = parse_manifest(read_toml(REST + shown["manifest"], "example.toml"), "example.toml")
    found = slice_source(Index(source), manifest, Options("myproj", "1.2.3"))
    emitted = [rewrite_module(module, found, "myproj", ()) for module in found.modules]
    made = {f"myproj/{item.path}": item.text.partition("\n")[2] for item in emitted}
    assert made == {path: text for path, text in shown.items() if path.startswith("myproj/")}


# What a table's own place says, and fields that a manifest calls otherwise.
NAMED_BY_TABLES = {"name", "release"}
RENAMED = {"wheel_filename": "wheel", "target": "with", "replacement": "with"}


def test_every_key_of_a_manifest_is_documented() -> None:
    page = MANIFESTS.read_text(encoding="utf-8")
    reader = (REPOSITORY / "extractor/values/manifest/parse.py").read_text(encoding="utf-8")
    keys = {key for names in re.findall(r'keys_are\(\s*"([^"]*)"', reader) for key in names.split()}
    read = [field.name for entry in (Edit, Feature, Fix, Replacement, Role, SourcePin) for field in fields(entry)]
    keys |= {name for name in read if name not in (*NAMED_BY_TABLES, *RENAMED)} | set(RENAMED.values())
    assert len(keys) > 40
    shown = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`[^`]+`", page))))
    shown |= {part for word in shown for part in word.split(".")}
    assert keys - shown == set()
    assert set(EDIT_OPS) - shown == set()


PAGES = sorted({*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("examples/**/*.md")})


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("script", ["algorithms", "releases"])
def test_the_page_says_what_the_script_would_write(script: str) -> None:
    """The table of algorithms; and what README claims, by the table of releases."""
    command, env = [sys.executable, f"scripts/{script}.py", "--check"], {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ruff's D401 knows the verbs; it lets these pass, and all that a property says.
_NO_VERBS = (
    "A All An Around As At Decorator Each Every False For From How In Is It Metrics Never No Not On One Only Part "
    "Samples Settings The These This True Upstream What Where Whether Which Who Why Within"
)


def test_functions_say_what_they_do() -> None:
    """Those of projects, too, where they are public."""
    found, looked = [], 0
    for top, pattern in (("extractor", "*.py"), ("templates", "__package__/**/*.py*")):
        for file in sorted((REPOSITORY / top).rglob(pattern)):
            text = file.read_text(encoding="utf-8") if file.name.endswith((".py", ".py.jinja")) else ""
            if file.suffix == ".jinja":
                text = re.sub(r"{{.*?}}", "name", re.sub(r"{%.*?%}", "", text))
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                is_property = any("property" in ast.unparse(item) for item in node.decorator_list)
                said = "" if is_property else ast.get_docstring(node)
                looked += bool(said)
                if (
                    said
                    and said.split()[0] in _NO_VERBS.split()
                    and (top == "extractor" or not node.name.startswith("_"))
                ):
                    found.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {said.splitlines()[0]}")
    assert looked > 1000
    assert found == []
