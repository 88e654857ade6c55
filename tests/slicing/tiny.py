"""A made-up source tree and manifest, to slice in tests."""

from dataclasses import replace
from textwrap import dedent

from extractor.pipeline.index import Index
from extractor.pipeline.render.method_names import find_method_names
from extractor.pipeline.slicer import Slice, slice_source
from extractor.values.manifest import Manifest, Requirements, Role, SourcePin
from extractor.values.options import Options


class TinySource:
    """Files of a source as a dictionary of path and text."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {path: dedent(text) for path, text in files.items()}
        self.files.setdefault("verl/__init__.py", "")

    def read(self, path: str) -> str:
        return self.files[path]


EMPTY = Manifest(
    release="1.2.3",
    pin=SourcePin("1.2.3", "verl-1.2.3-py3-none-any.whl", "0" * 64),
    layout={},
    roles=(),
    features=(),
    replacements=(),
    fixes=(),
    requirements=Requirements((), {}),
    engines=("hf", "vllm"),
    algorithms=("grpo", "ppo"),
)


def manifest(
    roots: dict[str, tuple[str, ...]] | None = None, *, roles: tuple[Role, ...] = (), **fields: object
) -> Manifest:
    """A manifest with these roots, and nothing else that matters but these fields."""
    named = tuple(Role(name, symbols) for name, symbols in (roots or {}).items())
    return replace(EMPTY, roles=(*named, *roles), **fields)


def slice_files(
    files: dict[str, str],
    rules: Manifest,
    *features: str,
    engine: str = "hf",
    templates: str = "",
    methods: tuple[str, ...] = (),
) -> Slice:
    """Slice a made-up source; `templates` is code of ours that uses it."""
    options = Options("proj", "1.2.3", engine, "grpo", features, methods=methods)
    return slice_source(Index(TinySource(files)), rules, options, find_method_names(templates))


def kept(found: Slice) -> dict[str, list[str]]:
    """Path in the package -> the first line of every kept statement that is no plain import."""
    result = {}
    for module in found.modules:
        index = Index(TinySource({module.upstream_path: module.source}))[module.module]
        lines = [index.lines[index.statements[position].node.lineno - 1] for position in module.kept]
        result[module.target_path] = [line.strip() for line in lines if not line.startswith(("import ", "from "))]
    return result
