"""How an editor launches a run: `.vscode/launch.json`, which is JSON with comments and commas too many."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.values import readers

# What is not closed goes to the end, so that nothing is looked through twice.
_TEXT_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TEXT_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*(?:"|\Z)|,(?=\s*[\]}])', re.DOTALL)
_FOLDER = re.compile(r"\$\{(?:workspaceFolder|workspaceRoot|fileWorkspaceFolder)\}")
_OF_VERL = re.compile(r"\+{0,2}(?:actor_rollout_ref|algorithm|data|trainer)\.\w")


@dataclass(frozen=True)
class Launch:
    """Holds a configuration that starts a Python program with arguments.

    Attributes:
        name: As the editor shows it.
        script: The same command in bash.
        environment: The variables that it sets.
    """

    name: str
    script: str
    environment: Mapping[str, str] = field(default_factory=dict)


def launches(body: Any, file: Path) -> list[Launch]:
    """Return the configurations of a `launch.json` that start programs with settings: those of verl's if it has any."""
    found: list[Launch] = []
    of_verl: list[Launch] = []
    for item in body.get("configurations", ()) if isinstance(body, Mapping) else ():
        if not isinstance(item, Mapping):
            continue
        root = file.resolve().parent.parent if file.parent.name == ".vscode" else file.resolve().parent
        words = _words(item.get("args"))
        program = ["-m", item["module"]] if isinstance(item.get("module"), str) else [str(item.get("program", ""))]
        if not program[-1] or not words:
            continue
        set_by_it = item.get("env")
        pairs = set_by_it.items() if isinstance(set_by_it, Mapping) else ()
        variables = {str(name): _meant(str(value), root) for name, value in pairs}
        command = shlex.join(_meant(word, root) for word in ["python", *program, *words])
        place = _meant(str(item.get("cwd", "${workspaceFolder}")), root)
        found.append(Launch(str(item.get("name", "")), f"cd {shlex.quote(place)}\n{command}\n", variables))
        of_verl += found[-1:] if any(map(_OF_VERL.match, words)) else []
    return of_verl or found


def _words(given: Any) -> list[str]:
    if isinstance(given, str):
        try:
            return shlex.split(given)
        except ValueError:
            return []
    return [str(word) for word in given] if isinstance(given, list) else []


def parsed(text: str) -> Any:
    """Return JSON, which may have comments and commas before a closing bracket.

    Raises:
        ValueError: it is none.
    """
    text = _TEXT_OR_COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    return readers.parse_json(_TEXT_OR_COMMA.sub(lambda found: found[0] if found[0].startswith('"') else "", text))


def _meant(word: str, root: Path) -> str:
    return _FOLDER.sub(lambda found: str(root), word)
