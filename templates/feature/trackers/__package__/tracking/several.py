# vextract:template - edit freely
"""Several trackers at once, of which one that fails does not end the run."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from .samples import Rows


class Tracker(Protocol):
    """A place that a run is recorded in. Whatever it raises is reported once, and the run goes on.

    Attributes:
        package: what is imported.
        requirement: what pip installs it by.
    """

    package: ClassVar[str]
    requirement: ClassVar[str]

    def __init__(self, config: Mapping[str, Any], directory: Path, start_step: int) -> None:
        """Begin a record.

        Args:
            config: the whole config, as plain values, without secrets.
            directory: of the run.
            start_step: of the checkpoint that it resumes from; 0: it is new.
        """

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record a step's metrics, under upstream's names."""

    def samples(self, name: str, rows: Rows, step: int) -> None:
        """Record samples (prompt, response, score ...) as the table `name`."""

    def close(self, outcome: str) -> None:
        """End the record of a run that is finished, stopped or failed."""


class Trackers:
    """The trackers of a run. One that fails is named once, rests for a while, and does not end the run.

    Args:
        classes: of trackers, by their names.
        config, directory, start_step: what they are told of the run.
        say: shows a line of text.
    """

    REST = 30.0  # seconds, or ten times as long as the call that failed

    def __init__(
        self,
        classes: Mapping[str, type[Tracker]],
        config: Mapping[str, Any],
        directory: Path,
        start_step: int,
        say: Callable[[str], None],
    ) -> None:
        self._say = say
        self._rests: dict[str, float] = {}
        self._open: dict[str, Tracker] = {}
        for name, tracker in classes.items():
            self._try(name, self._begin, name, tracker, config, directory, start_step)

    def _begin(self, name: str, tracker: type[Tracker], *run: Any) -> None:
        self._open[name] = tracker(*run)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record a step's metrics in each."""
        for name, tracker in self._open.items():
            self._try(name, tracker.log, metrics, step)

    def samples(self, table: str, rows: Rows, step: int) -> None:
        """Record samples in each."""
        for name, tracker in self._open.items():
            self._try(name, tracker.samples, table, rows, step)

    def close(self, outcome: str) -> None:
        """Close each."""
        for name, tracker in self._open.items():
            self._rests.pop(name, None)
            self._try(name, tracker.close, outcome, said=True)

    def _try(self, name: str, call: Callable[..., None], *arguments: Any, said: bool = False) -> None:
        began = time.monotonic()
        if began < self._rests.get(name, began):
            return
        try:
            call(*arguments)
        except Exception as error:
            now = time.monotonic()
            said = said or name in self._rests
            self._rests[name] = now + max(self.REST, 10 * (now - began))
            if not said:
                text = " ".join(str(error).split())[:300]
                self._say(f"{name} does not take what is logged, and the run goes on: {type(error).__name__}: {text}")
