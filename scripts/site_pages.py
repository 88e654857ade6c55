"""Complete the site: a hook of MkDocs that adds pages written elsewhere, and reads what blocks say of themselves.

README.md is the landing page. The references of commands and of config keys are generated from the command line and
from the commented config of a project; see scripts/reference.py.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from scripts.reference import commands_page, config_page

ROOT = Path(__file__).resolve().parents[1]
# A page of the site, and the file at the top of the repository that it is made of.
PAGES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
NEEDS = {
    "cluster": "several machines",
    "gpu": "a GPU",
    "hours": "a checkout, and hours",
    "hub": "the Hugging Face hub",
    "minutes": "a checkout, and minutes",
    "browser": "a browser",
    "server": "a running server",
    "vllm": "vLLM",
}
_FENCE = re.compile(r"^(?P<fence> *```+)(?P<language>\w+) +(?P<words>\S.*)$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that do not lie in docs/."""
    made = {page: _moved((ROOT / name).read_text(encoding="utf-8")) for page, name in PAGES.items()}
    made["licence.md"] = f"# Licence\n\n```text\n{(ROOT / 'LICENSE').read_text(encoding='utf-8')}```\n"
    made["reference/cli.md"] = commands_page()
    made["reference/config.md"] = config_page()
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn the words after a block's language, which say how it is run, into a title that readers understand."""
    return _FENCE.sub(_fence, markdown)


def _moved(text: str) -> str:
    """Lead the links of a page at the top of the repository to where things are on the site."""
    text = text.replace("](docs/", "](").replace("](LICENSE)", "](licence.md)")
    for page, name in PAGES.items():
        text = text.replace(f"]({name})", f"]({page})")
    return text


def _fence(found: re.Match[str]) -> str:
    titles = []
    for word in found["words"].split():
        if word.startswith("needs-"):
            titles.append(f"needs {NEEDS[word.removeprefix('needs-')]}")
        elif word.startswith("file="):
            titles.append(word.removeprefix("file="))
        elif "/" in word or word == "manifest":
            titles.append(word)
    title = f' title="{", ".join(titles)}"' if titles else ""
    return f"{found['fence']}{found['language']}{title}"
