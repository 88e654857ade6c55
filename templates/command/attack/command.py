"""`vextract attack`: try known hacks against a reward, and print what got through.

Without arguments it is the reward of custom/reward_manager.py, on a question and on a task with tests. What got
through is what a policy will find: mend the reward, or watch for it.
"""

import argparse
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..rewards.sandboxing.errors import SandboxError
from ..rewards.scoring import source_of
from ..rewards.verified_code import score_code
from . import trial

CODE = "code"
PACKAGE = str(__package__).partition(".")[0]


def main(project: Path, arguments: Sequence[str]) -> int:
    """Try the hacks.

    Args:
        project: the project's directory.
        arguments: as `extractor/cli/runs.py` passes them on.

    Returns:
        The exit code: 0 nothing got through, 1 something did, 2 what it should try is not there.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--reward")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--harm", action="store_true")
    parser.add_argument("--all", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        function = _function(chosen.reward)
        tasks = list(_rows(chosen.data, chosen.tasks)) if chosen.data else _examples(chosen.reward)
        return _report(function, tasks, chosen.all, chosen.harm or _sandboxed(chosen.reward))
    except (OSError, ValueError, ImportError, AttributeError, KeyError) as error:
        print(f"error: {error}\nhint: vextract attack --help", file=sys.stderr)
    except SandboxError as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


def _report(function: Callable[..., Any], tasks: list[dict[str, Any]], everything: bool, harm: bool) -> int:
    through = tried = 0
    print(f"reward: {source_of(function)}")
    for task in tasks:
        print(f"task: {str(task['ground_truth'])[:100]}", flush=True)
        for attempt in trial.attempts(function, **task, harm=harm):
            tried += 1
            through += attempt.got_through
            if everything or attempt.got_through:
                line = f"raised {attempt.error}" if attempt.error else f"{attempt.score:.3g}"
                mark = "GOT THROUGH" if attempt.got_through else "held"
                print(
                    f"  {mark}  {attempt.hack}: {line} (wrong: {attempt.wrong:.3g}, right: {attempt.right:.3g})",
                    flush=True,
                )
    print(f"{through} of {tried} hacks got through")
    return int(through > 0)


def _function(name: str | None) -> Callable[..., Any]:
    if name == CODE:
        return score_code
    if name is None:
        from ..rewards.manager import TextRewardManager  # torch, which a function by its name does not need

        hook = importlib.import_module("..custom.reward_manager", __package__)
        managers = [item for item in vars(hook).values() if inspect.isclass(item) and item.__module__ == hook.__name__]
        for manager in managers:
            if issubclass(manager, TextRewardManager):
                found: Callable[..., Any] = manager.score
                return found
        raise ValueError(f"{hook.__file__} has no TextRewardManager: name a function, FILE.py:FUNCTION")
    place, _, attribute = name.rpartition(":")
    if not place:
        raise ValueError(f"{name}: name a function, FILE.py:FUNCTION or MODULE:FUNCTION")
    if place.endswith(".py"):
        sys.path.insert(0, str(Path(place).resolve().parent))
        place = Path(place).stem
    loaded: Callable[..., Any] = getattr(importlib.import_module(place), attribute)
    return loaded


def _examples(reward: str | None) -> list[dict[str, Any]]:
    prompt, answer = trial.TEXT_TASK
    text = {"ground_truth": answer, "prompt": prompt}
    code = [{"ground_truth": task} for task in trial.CODE_TASKS]
    return code if reward == CODE else [text, *code] if _sandboxed(reward) else [text]


def _sandboxed(reward: str | None) -> bool:
    """Tell whether the programs that a reward judges run in this project's sandbox, as far as can be told."""
    return reward == CODE or (reward is None and f"{PACKAGE}.rewards.verified_code" in _imports_of_the_hook())


def _imports_of_the_hook() -> set[str]:
    hook = sys.modules.get(f"{PACKAGE}.custom.reward_manager")
    return {getattr(item, "__module__", "") or getattr(item, "__name__", "") for item in vars(hook or object).values()}


def _rows(path: Path, count: int) -> Iterator[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(path).slice(0, count).to_pylist()
    elif path.suffix in (".jsonl", ".json"):
        text = path.read_text(encoding="utf-8-sig")
        texts = [text] if text.lstrip()[:1] == "[" else [line for line in text.split("\n") if line.strip()][:count]
        rows = [json.loads(text) for text in texts]
        rows = rows[0][:count] if rows and isinstance(rows[0], list) else rows
    else:
        raise ValueError(f"{path} is neither .parquet nor .jsonl nor .json")
    for number, row in enumerate(rows):
        prompt = row.get("prompt") or ""
        truth = (row.get("reward_model") or row).get("ground_truth")
        if truth is None:
            raise ValueError(f"{path}, row {number}: no ground truth; it has {', '.join(sorted(row))}")
        yield {
            "ground_truth": truth,
            "prompt": prompt if isinstance(prompt, str) else prompt[-1]["content"],
            "data_source": row.get("data_source", ""),
            "extra_info": row.get("extra_info"),
        }
