"""A made-up source tree and manifest, to slice in tests."""

from textwrap import dedent

from extractor.pipeline.index import Index
from extractor.pipeline.render.method_names import find_method_names
from extractor.pipeline.slicer import Slice, slice_source
from extractor.values.manifest import Feature, Fix, Manifest, Replacement, Requirements, Role, SourcePin
from extractor.values.options import Options


class TinySource:
    """Files of a source as a dictionary of path and text."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = {path: dedent(text) for path, text in files.items()}
        self.files.setdefault("verl/__init__.py", "")

    def read(self, path: str) -> str:
        return self.files[path]


def manifest(
    roots: dict[str, tuple[str, ...]] | None = None,
    *,
    roles: tuple[Role, ...] = (),
    features: tuple[Feature, ...] = (),
    replacements: tuple[Replacement, ...] = (),
    fixes: tuple[Fix, ...] = (),
    layout: dict[str, str] | None = None,
    keep_effects: tuple[str, ...] = (),
    whole: tuple[str, ...] = (),
) -> Manifest:
    """A manifest with these roots and nothing else that matters."""
    named = tuple(Role(name, symbols) for name, symbols in (roots or {}).items())
    return Manifest(
        release="1.2.3",
        pin=SourcePin("1.2.3", "verl-1.2.3-py3-none-any.whl", "0" * 64),
        layout=layout or {},
        roles=(*named, *roles),
        features=features,
        replacements=replacements,
        fixes=fixes,
        requirements=Requirements((), {}),
        engines=("hf", "vllm"),
        algorithms=("grpo", "ppo"),
        keep_effects=keep_effects,
        whole=whole,
    )


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
        result[module.target_path] = [
            index.lines[index.statements[position].node.lineno - 1].strip()
            for position in module.kept
            if not index.lines[index.statements[position].node.lineno - 1].startswith(("import ", "from "))
        ]
    return result
