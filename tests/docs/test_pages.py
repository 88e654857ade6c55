"""The documentation says what the code does."""

import re
from dataclasses import fields
from pathlib import Path

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
