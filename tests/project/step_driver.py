"""Runs a step in the project in which it is started, and writes what it saw as JSON.

    python step_driver.py OUT SETTING...

`stack` is the way from `main` to verl's loss, a function each; `phases` what the batch had after each phase. As on a
GPU, the update reports memory, 3 GiB, of which the engine has given back 1.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

import main as program  # type: ignore[import-not-found]

PACKAGE = "toy"
SEEN: dict[str, Any] = {"stack": [], "phases": {}}


class Watched:
    """Stands for `timed`: after a phase it notes the batch of the function that the phase is in."""

    def __init__(self, timed: Any, name: str, timing: dict[str, float]) -> None:
        self.name, self.inner = name, timed(name, timing)

    def __enter__(self) -> None:
        self.inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)
        batch = sys._getframe(1).f_locals.get("batch")
        if batch is not None:
            SEEN["phases"][self.name] = {
                name: [list(value.shape), str(value.dtype).removeprefix("torch.")]
                for name, value in batch.batch.items()
            }


def main() -> int:
    trainer = import_module(f"{PACKAGE}.training.trainer")
    timed = trainer.timed  # type: ignore[attr-defined]
    trainer.timed = lambda name, timing: Watched(timed, name, timing)  # type: ignore[attr-defined]
    calls = import_module(f"{PACKAGE}.workers.actor")
    loss = calls.ppo_loss  # type: ignore[attr-defined]

    def noting(*arguments: Any, **settings: Any) -> Any:
        frame, names = sys._getframe(1), ["ppo_loss"]
        while frame is not None and frame.f_code is not program.main.__code__:
            names.append(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]
        SEEN["stack"] = ["main", *reversed(names)]
        return loss(*arguments, **settings)

    calls.ppo_loss = noting  # type: ignore[attr-defined]
    code = program.main(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(SEEN), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
