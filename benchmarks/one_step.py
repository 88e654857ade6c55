"""Run a project's main.py and print how many files and functions of ours its second step calls, as a JSON list."""

import importlib
import json
import runpy
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

SETTINGS = ("trainer.total_training_steps=2", "trainer.val_before_train=false", "trainer.resume_mode=disable")


def main() -> None:
    """Run it."""
    root = Path.cwd().resolve()
    sys.path.insert(0, str(root))
    sys.argv = ["main.py", "trainer.logger=[]", *SETTINGS]
    (package,) = (path.parent.parent.name for path in root.glob("*/training/trainer.py"))
    trainer = importlib.import_module(f"{package}.training.trainer").LocalPPOTrainer
    step, called = trainer.train_step, set()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<"):
            called.add((code.co_filename, code.co_firstlineno))

    def second_step(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.steps_done != 1:
            return step(self, *arguments, **named)
        threading.setprofile(see)
        sys.setprofile(see)
        try:
            return step(self, *arguments, **named)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    trainer.train_step = second_step
    try:
        runpy.run_path("main.py", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    ours = [path for path, _ in called if path.startswith(f"{root}/") and "/vendored/" not in path]
    print(json.dumps([len(set(ours)), len(ours)]))


if __name__ == "__main__":
    main()
