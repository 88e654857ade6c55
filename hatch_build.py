"""What the package index shows of README.md, whose links and pictures lead to files of the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

UPSTREAM = "https://github.com/volcengine/verl"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def on_the_index(text: str, repository: str) -> str:
    """Return README as it works on the package index.

    Args:
        text: README.md.
        repository: Address of the repository, which links and pictures then lead to. Empty: links become their words,
            and pictures are left out.
    """

    def absolute(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        if repository:
            return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/HEAD/{path})"
        return "" if picture else words

    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    return re.sub(r"\n{3,}", "\n\n", LINK.sub(absolute, text))


class PackageMetadata(MetadataHookInterface):
    """Sets the README and the addresses: pyproject.toml, or VEXTRACT_REPOSITORY, says where the repository is."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in `readme` and `urls`."""
        repository = os.environ.get("VEXTRACT_REPOSITORY", self.config.get("repository", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": on_the_index(text, repository)}
        metadata["urls"] = {"Upstream (verl)": UPSTREAM}
        if repository:
            metadata["urls"] |= {
                "Repository": repository,
                "Documentation": f"{repository}/tree/HEAD/docs",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
