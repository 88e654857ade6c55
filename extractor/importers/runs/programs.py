"""Which program a command starts, and whether it is a trainer of verl's or of a fork of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from extractor.importers.runs.bash import read_script
from extractor.importers.runs.other_libraries import easyr1
from extractor.importers.runs.placeholders import readable, unknowns
from extractor.values import limits
from extractor.values.errors import UsageError

VERLS = "verl.trainer.main_ppo"
_MAIN = re.compile(r"(?:^|[./])main_(?:ppo|dapo|grpo)(?:_\w+)?(?:\.py)?$|(?:^|[./])main_ppo(?:\.py)?$")
_MAIN_IN = re.compile(r"\bmain_(?:ppo|dapo|grpo)\b")
_OF_THE_TRAINER = re.compile(r"(?:\+\+?)?(?:actor_rollout_ref\.actor\.|algorithm\.adv_estimator=)")
_SECTION = re.compile(r"(?:\+\+?|~)?([A-Za-z_]\w*)\.[\w.@/]+=")
_USES_A_POLICY = re.compile(r"generat|eval|serve|infer", re.IGNORECASE)
# Sections of verl's config that no other framework's has, and those that others have as well.
_VERL = {"actor_rollout_ref", "algorithm", "critic", "reward_model", "reward", "custom_reward_function"}
_SHARED = {"data", "trainer", "hydra", "ray_init", "ray_kwargs"}
_PYTHON = re.compile(r"(?:.*/)?(?:python[0-9.]*|torchrun)")
_INSTALLERS = ("pip", "ensurepip", "venv", "huggingface_hub")
_PRINTS = ("echo", "printf", "grep", "cat", "pkill", "ps")
# So many flags are a trainer's.
_FLAGS = 5
# Commands in quotes in each other.
_INSIDE = 3


def launched(words: Sequence[str], depth: int = 0) -> tuple[str, list[str]] | None:
    """Return the trainer that a command runs, as its module or file, and what it passes to it; None: it runs none."""
    if (words and words[0] in _PRINTS) or depth > _INSIDE:
        return None
    for index, word in enumerate(words):
        if (_MAIN.search(word) or word == easyr1.MODULE) and "=" not in word:
            return word, list(words[index + 1 :])
    own = _python_program(words)
    if own is not None and (_has_trainers_settings(own) or easyr1.is_launch(*own)):
        return own
    quoted = [word for word in words if " " in word and _MAIN_IN.search(word) and len(word) <= limits.MAX_INNER_TEXT]
    for word in quoted[: limits.MAX_INNER]:
        if unknowns(word) == (word[1:-1],):  # the output of a command, not a command
            continue
        try:  # a command in quotes, for ssh, bash -c or a job's entry point
            commands = read_script(word, "", {}, {}).commands
        except UsageError:  # a text that only names one
            continue
        found = next(filter(None, (launched(command.words, depth + 1) for command in commands)), None)
        if found is not None:
            return found
    return None


def _has_trainers_settings(program: tuple[str, Sequence[str]]) -> bool:
    """Tell whether a program takes settings that only the RL trainer has, or of a policy that it trains."""
    name, words = program
    sections = {found[1] for word in words if (found := _SECTION.match(word))}
    trains = {"actor_rollout_ref", "trainer"} <= sections and _USES_A_POLICY.search(name) is None
    return trains or any(map(_OF_THE_TRAINER.match, words))


def instead(commands: Sequence[Sequence[str]], text: str) -> tuple[str, str]:
    """Say what a script does that runs no trainer of verl's, which other program it starts, if any; and a hint.

    Args:
        commands: what it runs.
        text: of the script.
    """
    hint = "pass the script that runs `python -m verl.trainer.main_ppo`"
    resolved = "if Hydra configures it, append `--cfg job --resolve > run.yaml` to its command, and pass run.yaml"
    if not commands:
        hint = "it only sets variables: pass the script that reads it and runs `python -m verl.trainer.main_ppo`"
    if re.search(r"verl\.trainer\.\w*sft_trainer", text):
        hint = "`vextract new myproj --recipe sft` makes a project for that; its config/sft.yaml has the settings"
        return "it starts verl's supervised training, which has other settings", hint
    if re.search(r"verl\.trainer\.main_(eval|generation)", text):
        return "it starts another program of verl's, not its RL trainer", hint
    name = next((name for words in commands if (name := _program_with_settings(words))), None)
    name = name or next((name for words in commands if (name := _program_with_flags(words))), None)
    if name is None:
        return "it starts no main_ppo, nor another program with settings of verl's RL trainer", hint
    return f"it starts {readable(name)}, not verl's RL trainer by a command with its settings", resolved


def foreign_sections(module: str, arguments: Sequence[str], own: Collection[str]) -> list[str]:
    """Return the sections that verl's config has not, where a program takes settings of such and none that is verl's.

    SkyRL and others have a main_dapo as well.

    Args:
        module: What is launched.
        arguments: Behind it.
        own: The sections of the configs that it names.
    """
    if "verl.trainer.main_ppo" in module.replace("/", ".") or set(own) & _VERL:
        return []
    sections = {found[1] for word in arguments if (found := _SECTION.match(word))}
    deeper = {"trainer.algorithm"} if any("trainer.algorithm." in word for word in arguments) else set()
    return [] if sections & _VERL else sorted((sections - _SHARED) | deeper)


def _program_with_settings(words: Sequence[str]) -> str | None:
    if words and words[0] in _PRINTS:
        return None
    found = _python_program(words)
    if found is None or found[0].partition(".")[0] in _INSTALLERS or not any("=" in word for word in found[1]):
        return None
    return found[0]


def _program_with_flags(words: Sequence[str]) -> str | None:
    """Return what a command starts with many `--flags`, as trainers of other frameworks take their settings."""
    if not words or words[0] in _PRINTS or sum(word.startswith("--") for word in words) < _FLAGS:
        return None
    places = [index for index, word in enumerate(words[:-1]) if word in ("-m", "--module")]
    name = words[places[-1] + 1] if places else next((word for word in words if word.endswith(".py")), "")
    return name if name and name.partition(".")[0] not in _INSTALLERS else None


def _python_program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the module or file that a command has Python run, and what it passes to it."""
    for index, word in enumerate(words):
        if _PYTHON.fullmatch(word) is not None:
            rest = list(words[index + 1 :])
            while rest and rest[0].startswith("-") and rest[0] != "-m":
                rest.pop(0)
            if rest[:1] == ["-m"]:
                rest.pop(0)
            return (rest[0], rest[1:]) if rest and "=" not in rest[0] else None
    # uv run --extra x -m module, "$PYTHON" -m module, "$PYTHON" program.py, ./program.py
    place = next((place for place, word in enumerate(words) if word == "-m" or word.endswith(".py")), len(words))
    rest = list(words[place:])
    rest = rest[1:] if rest[:1] == ["-m"] else rest
    return (rest[0], rest[1:]) if rest else None
