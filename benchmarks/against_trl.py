"""Every setting of training scripts as TRL's trainer gets it, against the projects that they become.

`python -m benchmarks.against_trl COMMANDS`: each line of COMMANDS is a script in a checkout and the arguments that it
is started with there. Python runs it up to its trainer (`under_trl`), and `vextract new --from-verl-run` makes a
project of the same. A setting that the trainer has, TRL's defaults left out, is

- equal: vextract read the same value;
- asked: vextract says that only the script knows it;
- silent: neither. Each is printed, and so is what vextract read and the trainer has not.

Model, adapter and scorers count as settings. Then some that every run has (`_MEANT`) are looked up in the project's own
config, under verl's names: there they are equal, or from_run.md speaks of them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import under_trl
from benchmarks.launch_scripts import project_of, remember
from extractor.importers.runs import assemble
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.other_libraries.translation import ScoredBy, Translated
from extractor.importers.runs.other_libraries.trl_settings import Unread
from extractor.usecases import new
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.options import Options

# What argparse says of options that it needs; they get a 1.
_REQUIRED = re.compile(r"the following arguments are required: ((?:--?[\w-]+(?:, )?)+)")
EQUAL, ASKED, SILENT, MEANT, TOLD, OTHERWISE = "equal", "asked", "silent", "meant", "told", "otherwise in the config"
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# What a project has of a run, by TRL's names.
_MEANT: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "learning_rate": lambda config: config[f"{_ACTOR}.optim.lr"],
    "weight_decay": lambda config: config[f"{_ACTOR}.optim.weight_decay"],
    "max_grad_norm": lambda config: config[f"{_ACTOR}.grad_clip"],
    "epsilon": lambda config: config[f"{_ACTOR}.clip_ratio_low"],
    "epsilon_high": lambda config: config[f"{_ACTOR}.clip_ratio_high"],
    "beta": lambda config: config[f"{_ACTOR}.kl_loss_coef"] if config[f"{_ACTOR}.use_kl_loss"] else 0,
    "num_generations": lambda config: config[f"{_ROLLOUT}.n"],
    "temperature": lambda config: config[f"{_ROLLOUT}.temperature"],
    "top_p": lambda config: config[f"{_ROLLOUT}.top_p"],
    "max_completion_length": lambda config: config["data.max_response_length"],
    "max_prompt_length": lambda config: config["data.max_prompt_length"],
    "max_steps": lambda config: config["trainer.total_training_steps"],
    "num_train_epochs": lambda config: config["trainer.total_epochs"],
    "save_steps": lambda config: config["trainer.save_freq"],
    "lora_r": lambda config: config["actor_rollout_ref.model.lora_rank"],
    "lora_alpha": lambda config: config["actor_rollout_ref.model.lora_alpha"],
    "model_name_or_path": lambda config: config["actor_rollout_ref.model.path"],
}
# What says where a run puts things, or is of no use to a project.
_ASIDE = ("output_dir", "logging_dir", "run_name", "logging_first_step")
_ADAPTER = {"r": "lora_r", "lora_alpha": "lora_alpha"}
_NOTHING = object()


@dataclass(frozen=True)
class Compared:
    """Holds what became of a script's settings.

    Attributes:
        script: With its arguments.
        counts: Of settings, by what became of them.
        silent: Each of those, as it is printed.
        why: It could not be compared.
        asked: Each of those that only the script knows.
    """

    script: str
    counts: Counter[str]
    silent: tuple[str, ...] = ()
    why: str = ""
    asked: tuple[str, ...] = ()


def compared(line: str, release: str) -> Compared:
    """Compare what a script hands to its trainer with what vextract reads, and with its project.

    Args:
        line: A script's path and its arguments.
        release: Of the project.
    """
    words = shlex.split(line)
    script, arguments = Path(words[0]).resolve(), words[1:]
    root = next((folder for folder in script.parents if (folder / ".git").exists()), script.parent)
    theirs = under_trl.handed(script, arguments, root, root)
    if (asked := _REQUIRED.search(theirs.why)) is not None:
        arguments += [word for option in asked[1].split(", ") for word in (option, "1")]
        theirs = under_trl.handed(script, arguments, root, root)
    name = " ".join([str(script.relative_to(root)), *arguments])
    try:
        read, made = _read(script, arguments, root, release)
    except VextractError as error:
        return Compared(name, Counter(), why=f"refused: {error.message}")
    if not theirs.trainer:
        return Compared(name, Counter(), why=f"reaches no trainer: {theirs.why}")
    counts: Counter[str] = Counter()
    silent, asked_for = [], []
    for key, value, ours in _pairs(theirs, *read):
        if isinstance(ours, Unread):
            what = ASKED
            asked_for.append(f"{key}={value!r}  asked: {ours}")
        elif same(value, ours):
            what = EQUAL
        else:
            what = SILENT
            shown = "nothing" if ours is _NOTHING else repr(ours)
            silent.append(f"{key}={'nothing' if value is _NOTHING else repr(value)}  here {shown}")
        counts[what] += 1
    for key, value, ours, what in _meant(theirs, made):
        counts[what] += 1
        if what == OTHERWISE:
            silent.append(f"{key}={value!r}  in the config {ours!r}")
    return Compared(name, counts, tuple(silent), asked=tuple(asked_for))


def _read(
    script: Path, arguments: Sequence[str], root: Path, release: str
) -> tuple[tuple[Mapping[str, Any], ScoredBy | None], new.NewProject]:
    """Return what vextract reads in a script, and the project that it makes of it."""
    found: list[tuple[Mapping[str, Any], ScoredBy | None]] = []
    real = trl.translated

    def translated(stated: Mapping[str, Any], scored_by: Any, *given: Any) -> Translated:
        found.append((stated, scored_by))
        return real(stated, scored_by, *given)

    options = Options("proj", release, "vllm", "grpo", (), "toy")
    with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=root, delete=True) as command:
        command.write(shlex.join(["python", str(script.relative_to(root)), *arguments]) + "\n")
        command.flush()
        with mock.patch.object(trl, "translated", translated):
            made, _ = project_of(Path(command.name) if arguments else script, options, True, frozenset())
    return found[-1], made


def _pairs(theirs: under_trl.Handed, ours: Mapping[str, Any], scored_by: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield each setting with the trainer's value and ours."""
    for key, value in theirs.settings.items():
        if key not in _ASIDE and not _is_shown(value):
            yield key, value, ours.get(key, _NOTHING)
    for key, value in ours.items():
        if key in theirs.whole and key not in theirs.settings and not _is_shown(theirs.whole[key]):
            yield key, theirs.whole[key], value
    if theirs.model is not None:
        yield "model_name_or_path", theirs.model, ours.get("model_name_or_path", _NOTHING)
    has = {_ADAPTER[key]: value for key, value in (theirs.adapter or {}).items() if key in _ADAPTER}
    unknown = ours.get("peft_config", _NOTHING)
    for key in _ADAPTER.values():
        if key in has or (key in ours and ours.get("use_peft", True)):
            yield key, has.get(key, _NOTHING), ours.get(key, unknown)
    names = [name for name in theirs.scorers if isinstance(name, str) and not _is_shown(name)]
    if len(names) == len(theirs.scorers) and scored_by is not None and not getattr(scored_by, "is_open", False):
        ours_ = [*getattr(scored_by, "functions", ())]
        made = [f"\n{name} = " in scored_by.text for name in ours_]  # what a factory gives has another name here
        if len(ours_) == len(names):
            ours_ = [theirs_ if is_made else own for own, theirs_, is_made in zip(ours_, names, made, strict=True)]
        yield "reward_funcs", names, ours_


def _meant(theirs: under_trl.Handed, made: new.NewProject) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield settings that every run has, with the trainer's value and what the project's config has."""
    assert made.run is not None
    config = assemble.load_config(made.tree)
    told = " ".join(remark.key for remark in made.run.remarks).replace("*", " ").split()
    stated = {**theirs.settings, "model_name_or_path": theirs.model}
    stated |= {_ADAPTER[key]: value for key, value in (theirs.adapter or {}).items() if key in _ADAPTER}
    for key, look in _MEANT.items():
        value = stated.get(key)
        if value is None or _is_shown(value) or (key == "max_steps" and value == -1):
            continue
        ours = look(config)
        yield key, value, ours, MEANT if same(value, ours) else TOLD if key in told else OTHERWISE


def _is_shown(value: Any) -> bool:
    """Tell whether a value is none that JSON has."""
    return isinstance(value, str) and value.startswith("<") and value.endswith(">")


def same(theirs: Any, ours: Any) -> bool:
    """Tell whether two values mean the same to TRL, which makes numbers of texts."""
    if isinstance(theirs, (list, tuple)) or isinstance(ours, (list, tuple)):
        one, other = ([*value] if isinstance(value, (list, tuple)) else [value] for value in (theirs, ours))
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    if theirs == ours or (theirs in (None, "none") and ours in (None, "none")):
        return True
    try:
        return float(theirs) == float(ours)
    except (TypeError, ValueError):
        return str(theirs).lower() == str(ours).lower()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", type=Path, help="a file: a script and its arguments in each line")
    parser.add_argument("--verl", default=releases.default(), help="release of the projects")
    options = parser.parse_args()
    remember()
    total: Counter[str] = Counter()
    for line in options.commands.read_text(encoding="utf-8").splitlines():
        try:
            item = compared(line, options.verl)
        except Exception as error:
            item = Compared(line, Counter(), why=f"bug: {error!r}")
        print(f"{item.script}: {dict(item.counts)} {' '.join(item.why.split())[:400]}", flush=True)
        for shown in (*item.silent, *item.asked):
            print(f"    {shown}", flush=True)
        total += item.counts
        total["scripts"] += bool(item.counts)
        total["not compared"] += not item.counts
    print(f"all: {dict(total)}")
    return 0 if not total[SILENT] + total[OTHERWISE] else 1


if __name__ == "__main__":
    sys.exit(main())
