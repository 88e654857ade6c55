# vextract:template
"""What the model wrote and what each component of its reward was worth: files, and a table now and then."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


class SampleLog:
    """Writes samples to `directory`/samples.jsonl (validation: validation.jsonl), and prints them as a table.

    Args:
        directory: made with the first samples.
        every: write of every so many batches; the first is one of them.
        count: samples each time.
    """

    def __init__(self, directory: str | Path, every: int = 10, count: int = 4) -> None:
        self.directory = Path(directory)
        self.every = max(1, every)
        self.count = count
        self._batches = 0

    def is_due(self) -> bool:
        """Tell whether samples of this batch are wanted. To be asked once for each batch."""
        self._batches += 1
        return (self._batches - 1) % self.every == 0

    def write(self, samples: Sequence[Mapping[str, Any]], meta_info: Mapping[str, Any]) -> None:
        """Append samples to the file, a JSON object for each, and print them.

        Args:
            samples: data_source, prompt, response, ground_truth, reward, components.
            meta_info: of the batch; `validate` and `global_steps` are read.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        step = meta_info.get("global_steps")
        name = "validation" if meta_info.get("validate") else "samples"
        with (self.directory / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            for sample in samples:
                file.write(json.dumps({"step": step, **sample}, ensure_ascii=False, default=_plain) + "\n")
        print(table(samples, f"{name}, step {step}" if step is not None else name))


class DebugLog:
    """Writes samples of every training step to a text file, to be read while the run goes on.

    Args:
        name: of the file, before the date, the time and `.txt`; its directory is made with the first samples.
        count: samples of each step.
    """

    def __init__(self, name: str | Path, count: int = 2) -> None:
        self.name = Path(name)
        self.count = count
        self.path: Path | None = None

    def write(self, samples: Sequence[Mapping[str, Any]], meta_info: Mapping[str, Any]) -> None:
        """Append samples to the file; those of validation are left out.

        Args:
            samples: data_source, prompt, response, ground_truth, reward, components.
            meta_info: of the batch; `validate` and `global_steps` are read.
        """
        if meta_info.get("validate"):
            return
        if self.path is None:
            self.name.parent.mkdir(parents=True, exist_ok=True)
            self.path = self.name.with_name(f"{self.name.name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}.txt")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"step {meta_info.get('global_steps', '?')}\n")
            for sample in samples:
                file.write(breakdown(sample) + "\n\n")


class SampleLogs:
    """The logs that a reward manager writes.

    Args:
        log_dir: a directory for what the model wrote and what each component was worth; null: none. See `SampleLog`.
        log_every: of every so many batches.
        log_samples: so many samples each time.
        debug_log, debug_samples: a text file of so many samples of every training step; null: none. See `DebugLog`.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        log_every: int = 10,
        log_samples: int = 4,
        debug_log: str | None = None,
        debug_samples: int = 2,
    ) -> None:
        self._table = SampleLog(log_dir, log_every, log_samples) if log_dir and log_samples > 0 else None
        self._text = DebugLog(debug_log, debug_samples) if debug_log and debug_samples > 0 else None

    @classmethod
    def taken_from(cls, settings: dict[str, Any]) -> "SampleLogs":
        """Make the logs by what is theirs among some settings, and take it out of these."""
        names = [name for name in settings if name.startswith(("log_", "debug_"))]
        return cls(**{name: settings.pop(name) for name in names})

    def write(
        self, rewards: Sequence[float], meta_info: Mapping[str, Any], sample: Callable[[int], Mapping[str, Any]]
    ) -> None:
        """Write samples of a batch, where they are wanted.

        Args:
            rewards: of each sample.
            meta_info: of the batch.
            sample: returns the sample of a row.
        """
        logs: list[SampleLog | DebugLog] = [self._text] if self._text else []
        if self._table is not None and self._table.is_due():
            logs.append(self._table)
        for log in logs:
            log.write([sample(row) for row in spread(rewards, log.count)], meta_info)


def breakdown(sample: Mapping[str, Any]) -> str:
    """Write a sample as text: its reward, what each component was worth, and what was asked and answered."""
    worth = [f"    {name}: {value}" for name, value in sample["components"].items() if name != "score"]
    texts = [f"  {name}: {sample[name]}" for name in ("prompt", "response", "ground_truth")]
    return "\n".join([f"  reward: {sample['reward']:.4g}", *worth, *texts])


def spread(rewards: Sequence[float], count: int) -> list[int]:
    """Return so many rows, from the highest reward to the lowest, evenly between them."""
    order = sorted(range(len(rewards)), key=lambda row: -rewards[row])
    if len(order) <= count:
        return order
    steps = max(1, count - 1)
    return [order[round(index * (len(order) - 1) / steps)] for index in range(count)]


def table(samples: Sequence[Mapping[str, Any]], title: str, width: int = 60) -> str:
    """Write samples as a table: the reward, every component that is a number, and the end of the response.

    The end of a response is where answers are; long ones lose their beginning.
    """
    values = [(name, value) for sample in samples for name, value in sample["components"].items()]
    names = dict.fromkeys(name for name, value in values if name != "score" and not isinstance(value, str))
    head = ["reward", *names, "expected", "response"]
    rows = [
        [
            f"{sample['reward']:.2f}",
            *(_number(sample["components"].get(name)) for name in names),
            _cut(str(sample["ground_truth"]), 20),
            _cut(sample["response"], width),
        ]
        for sample in samples
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows]]
    return "\n".join([f"-- {title}", *lines])


def _number(value: Any) -> str:
    """Write a component; a dash where the sample has none that is a number."""
    return "-" if isinstance(value, str | None) else f"{float(value):.2f}"


def _cut(text: str, width: int) -> str:
    line = text.replace("\n", "\\n")
    return line if len(line) <= width else "…" + line[1 - width :]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
