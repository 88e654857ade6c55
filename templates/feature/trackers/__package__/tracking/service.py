# vextract:template - edit freely
"""What trackers elsewhere have in common: an id by which each knows the run, and no secrets."""

import contextlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from .secrets import argument_without_secret

IDS = "trackers.json"


class Service(ABC):
    """A tracker elsewhere; a resumed run goes on there in the record that it began.

    Attributes:
        name: in `trainer.logger`.
        id: under which it knows the run; None: there is none.
        project, run_name: `trainer.project_name` and `trainer.experiment_name`.
    """

    name: ClassVar[str]

    def __init__(self, config: Mapping[str, Any], directory: Path, start_step: int) -> None:
        trainer = config.get("trainer") or {}
        self.config, self.directory = config, directory
        self.project = str(trainer.get("project_name") or "project")
        self.run_name = str(trainer.get("experiment_name") or "run")
        ids = _read_ids(directory)
        with _arguments_without_secrets():
            self.id = self.begin(ids.get(self.name) if start_step else None)
        if self.id:
            text = json.dumps({**ids, self.name: self.id}, indent=2)
            (directory / IDS).write_text(text + "\n", encoding="utf-8")

    @abstractmethod
    def begin(self, known: str | None) -> str | None:
        """Begin a record, or go on with the known one; return its id."""


@contextlib.contextmanager
def _arguments_without_secrets() -> Iterator[None]:
    """Take the secrets out of sys.argv, which trackers make a note of, as long as this lasts."""
    before = sys.argv
    sys.argv = [argument_without_secret(argument) for argument in before]
    try:
        yield
    finally:
        sys.argv = before


def _read_ids(directory: Path) -> dict[str, str]:
    try:
        found = json.loads((directory / IDS).read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError):
        pass
    try:  # as earlier versions of this file kept it
        return {"wandb": (directory / "wandb_id").read_text(encoding="utf-8").strip()}
    except OSError:
        return {}
