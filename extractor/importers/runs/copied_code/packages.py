"""Packages by the names of their modules, and the modules of those that a project requires."""

from __future__ import annotations

from collections.abc import Mapping

from extractor.values import readers
from extractor.values.tree import Tree

# Modules that no package is called after, with the package that has them.
_PACKAGES = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.protobuf": "protobuf",
    "hydra": "hydra-core",
    "rouge_score": "rouge-score",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_MODULES = {package: module for module, package in _PACKAGES.items()}


def package_of(module: str) -> str:
    """Return the package to install for a module: of its full name, as several packages have parts of `google`."""
    parts = module.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((_PACKAGES[name] for name in names if name in _PACKAGES), parts[0])


def required_modules(tree: Tree) -> set[str]:
    """Return the modules of the packages that a project requires, and its own."""
    from packaging.requirements import Requirement

    data: Mapping[str, object] = {}
    for file in tree:
        if file.path == "pyproject.toml":
            data = readers.toml(file.data.decode())
    project = data.get("project")
    asked = project.get("dependencies", []) if isinstance(project, dict) else []
    names = [Requirement(str(item)).name.lower() for item in asked]
    return {_MODULES.get(name, name.replace("-", "_")) for name in names} | {"tqdm", "typing_extensions", "requests"}
