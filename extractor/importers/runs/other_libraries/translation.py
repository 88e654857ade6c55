"""Share what translations of other libraries to verl's settings need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.configtree import Override


@dataclass(frozen=True)
class FileScored:
    """A run's scoring function, in a file that the run names.

    Attributes:
        text: Of the file.
        place: The file, for messages.
        function: Its name.
        settings: Further arguments.
        folder: Where the file's own imports are found.
    """

    text: str = field(repr=False)
    place: str
    function: str
    settings: Mapping[str, Any]
    folder: Path


@dataclass(frozen=True)
class Written:
    """Text that a run adds to its prompts.

    Attributes:
        template: Of Jinja; `content` is the prompt.
        system: The message of the system before it; "": none.
        answer: The column that has the answer, where that is none of the usual ones.
        place: The template's file, for messages.
    """

    template: str
    system: str
    answer: str | None
    place: str


class Translated(NamedTuple):
    """A translated run of another library, with remarks and reward code."""

    overrides: tuple[Override, ...]
    remarks: tuple[Remark, ...]
    scored_by: FileScored | None = None
    written: Written | None = None


_OPEN = "data.apply_chat_template_kwargs."
ROWS = (
    "save its rows as parquet or JSON lines, with a prompt (text or messages) and a ground_truth, solution or answer; "
    "other columns come along"
)


def is_nothing(value: Any) -> bool:
    """Tell whether a value is None, False or an empty container."""
    return value is None or value is False or value in ([], {})


def write_overrides(found: Mapping[str, Any]) -> tuple[Override, ...]:
    """Return overrides for settings; keys of open sections are added."""
    return tuple(
        Override("++" if key.startswith(_OPEN) else "", key, value, f"{key}={value}") for key, value in found.items()
    )
