"""The hook that registers a run's own reward manager in a project, and what the run's program makes it with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from extractor.importers.runs import templates
from extractor.importers.runs.copied_code.code import tree_of
from extractor.importers.runs.copied_code.copying import FOLDER

# How a class falls back to a function of its own.
HAS_ITS_OWN = re.compile(r"self\.compute_score = compute_score or (\w+)")
# Where verl and its forks make managers.
PROGRAMS = ("verl/trainer/main_ppo.py", "verl/trainer/ppo/reward.py")
# The module that a hook hands the run's own settings over with.
OWN_SETTINGS = "own_settings"
_REGISTER = """\
try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register
"""
# The lines of a hook that hand over what the run's program does.
_HANDED = """\
        config, tokenizer = self._of_the_run, given.get("tokenizer")
        of_the_program = {{  # as the run's program makes it
{lines}        }}
        for name, value in of_the_program.items():
            if name in taken and name not in given:
                try:
                    given[name] = value()
                except (AttributeError, KeyError) as error:
                    if taken[name].default is inspect.Parameter.empty:
                        raise
                    print(f"note: {{name}} is {{taken[name].default!r}}: the run says no other ({{error}})")
"""
# What verl itself makes managers with, and the settings that a program may hand over besides.
_BY_VERL = {"tokenizer", "num_examine", "compute_score", "reward_fn_key", "config"}
_OF_CONFIG = re.compile(r"config(\.\w+)+(?:(?<=\.get)\('\w+'(, [\w.'-]+)?\))?")


def adapted(
    name: str,
    place: str,
    cls: str,
    imports: str,
    scorer: str,
    handed: Mapping[str, str] = MappingProxyType({}),
    *,
    has_its_own: bool = False,
    has_overlong: bool = True,
) -> dict[str, str]:
    """Return the hook that registers a class from before there was a registry, and what it imports, by path.

    Args:
        name: What it is registered as.
        place: The file that it is of.
        cls: The class.
        imports: Statements that import it, and the scorer.
        scorer: The function that scores where the config names none; "None": what the class or the project has.
        handed: What the run's program makes it with besides: expressions of `config`, by argument.
        has_its_own: Whether the class itself has one, where it is given none.
        has_overlong: Whether that program may hand over a penalty on long responses.
    """
    lines = [f'            "{argument}": lambda: {value},\n' for argument, value in handed.items()]
    text = templates.render(
        "run_manager.py",
        name=name,
        place=place,
        cls=cls,
        imports=imports,
        scorer=scorer,
        default=scorer if scorer != "None" or has_its_own else "function",
        handed=_HANDED.format(lines="".join(lines)) if lines else "",
        register=_REGISTER,
        has_overlong=has_overlong,
    )
    own_settings = templates.render(f"{OWN_SETTINGS}.py")
    return {"custom/verl_reward_manager.py": text, f"custom/{FOLDER}/{OWN_SETTINGS}.py": own_settings}


def handed_by_programs(texts: Iterable[str], cls: str) -> tuple[dict[str, str], list[str]]:
    """Return what programs make a reward manager with besides what verl does.

    Args:
        texts: Of the programs.
        cls: The class; one that is chosen under another name counts too.

    Returns:
        Constants and settings of the run's `config`, by argument, and the arguments that are of something else.
    """
    found: dict[str, str] = {}
    others: set[str] = set()
    for tree in map(tree_of, texts):
        assigned = {
            ast.unparse(item) for node in ast.walk(tree) if isinstance(node, ast.Assign) for item in node.targets
        }
        for item in (item for call in _calls(tree, cls) for item in call.keywords):
            text = ast.unparse(item.value)
            value = text.replace("self.config", "config")
            if item.arg in {None, *_BY_VERL, *found}:
                continue
            is_setting = _OF_CONFIG.fullmatch(value) is not None and text not in assigned
            if is_setting or isinstance(item.value, ast.Constant):
                found[str(item.arg)] = value
            else:
                others.add(str(item.arg))
    return found, sorted(others - found.keys())


def hand_overlong(texts: Iterable[str], cls: str) -> bool:
    """Tell whether programs may make a class with a penalty on long responses."""
    calls = [node for text in texts for node in ast.walk(tree_of(text)) if isinstance(node, ast.Call)]
    given = [{item.arg for item in call.keywords} for call in calls if ast.unparse(call.func) == cls]
    return not given or any(names & {None, "overlong_buffer_cfg"} for names in given)


def _calls(tree: ast.Module, cls: str) -> Iterator[ast.Call]:
    """Yield the calls of a program that make a class, also under another name that it gives it."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.value) == cls]
    names = {cls, "reward_manager_cls", *(ast.unparse(target) for node in assigned for target in node.targets)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    yield from (call for call in calls if ast.unparse(call.func) in names)
