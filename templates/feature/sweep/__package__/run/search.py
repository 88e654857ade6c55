# vextract:template - edit freely
"""Look for good settings: runs one after the other, whose values Optuna chooses by what the runs before have reached.

    python main.py --multirun --trials 20 preset=grpo,rloo 'algorithm.kl_ctrl.kl_coef=tag(log, interval(1e-4, 1e-1))'

The values are written as for Hydra's own Optuna sweeper: `interval(low, high)`, `int(interval(1, 9))`,
`tag(log, interval(...))` on a logarithmic scale, `a,b,c` or `choice(a, b, c)`, `range(1, 9)`. What is looked for is the
highest score of the last validation, or, without one, the highest mean reward of the last tenth of the steps.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..output import install_command, say
from ..tracking.run_tracker import METRICS, read_rows
from ..tracking.terminal import validation_score
from .sweep import INTERRUPTED, check_alone, directory_of, parsed, run_one, say_results

FILE = "search.journal"


def search(
    program: Path, flags: Sequence[str], overrides: Sequence[str], trials: int, base: Path, seed: int | None
) -> int:
    """Do so many runs, each in a process and a directory of its own.

    A search that was interrupted goes on where it was when the same one is started again.

    Args:
        program: main.py.
        flags: those of every run.
        overrides: settings; of those that are spaces, each run gets a value.
        trials: how many runs.
        base: where the directories are made.
        seed: of the choices.

    Returns:
        The exit code: 0 done, 130 interrupted, or the highest of the runs' if all have failed.

    Raises:
        ConfigError: Optuna is not installed, or nothing is to be chosen.
    """
    check_alone()
    spaces, fixed = spaces_in(overrides)
    optuna = _optuna()
    base.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        study_name="search",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(base / FILE))),
        load_if_exists=True,
    )
    begun = study.get_trials(states=[optuna.trial.TrialState.RUNNING])
    codes: dict[Path, int] = {}
    while begun or len(study.trials) < trials:
        trial = begun.pop(0) if begun else study.ask(spaces)
        own = _words(trial)
        directory, code = run_one(program, flags, [*fixed, *own], own, base, trial.number + 1, trials)
        codes[directory] = code
        if code == INTERRUPTED:
            return INTERRUPTED
        value = None if code else reached(directory)
        if value is None:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        else:
            say(f"reached {value:.4g}")
            study.tell(trial.number, value)
    done = [trial for trial in study.trials if trial.value is not None]
    say_results({**{directory_of(base, trial.number + 1, _words(trial)): 0 for trial in done}, **codes})
    return _say_best(study, codes)


def _words(trial: Any) -> list[str]:
    """Return what was chosen for a run, as overrides."""
    return [f"{key}={value}" for key, value in trial.params.items()]


def _say_best(study: Any, codes: Mapping[Path, int]) -> int:
    """Print the best run; return the exit code of the whole."""
    if not any(trial.value is not None for trial in study.trials):
        print("error: no run has reached anything that can be compared", file=sys.stderr)
        return max(codes.values(), default=1) or 1
    best = study.best_trial
    say(f"best: run {best.number + 1}, {best.value:.4g}: " + " ".join(f"{k}={v}" for k, v in best.params.items()))
    return 0


def reached(directory: Path) -> float | None:
    """Return what a run has reached: see the top of this module; None: nothing is known of it."""
    rows = read_rows(directory / METRICS)
    scores = [score for row in rows if (score := validation_score(row)) is not None]
    if scores:
        return scores[-1]
    rewards = [row["critic/rewards/mean"] for row in rows if row.get("critic/rewards/mean") is not None]
    last = rewards[-max(1, len(rewards) // 10) :]
    return sum(last) / len(last) if last else None


def ends_of(overrides: Sequence[str]) -> list[list[str]]:
    """Return overrides to check before a search: with each value of a list, and each end of an interval."""
    spaces, fixed = spaces_in(overrides)
    ends = {key: list(getattr(space, "choices", None) or (space.low, space.high)) for key, space in spaces.items()}
    first = {key: f"{key}={values[0]}" for key, values in ends.items()}
    changed = [{**first, key: f"{key}={value}"} for key, values in ends.items() for value in values]
    return [[*fixed, *chosen.values()] for chosen in changed]


def spaces_in(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Divide overrides into the spaces to choose from, as Optuna's distributions by key, and those that are fixed.

    Raises:
        ConfigError: an override is malformed, or none is a space.
    """
    distributions = _optuna().distributions
    spaces: dict[str, Any] = {}
    fixed: list[str] = []
    for text in overrides:
        override = parsed(text)
        key = override.get_key_element()
        if override.is_interval_sweep():
            sweep = override.value()
            whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)
            kind = distributions.IntDistribution if whole else distributions.FloatDistribution
            spaces[key] = kind(sweep.start, sweep.end, log="log" in sweep.tags)
        elif override.is_sweep_override():
            spaces[key] = distributions.CategoricalDistribution(list(override.sweep_string_iterator()))
        else:
            fixed.append(text)
    if not spaces:
        raise ConfigError(
            "--trials asks for a search, and no setting has values to choose from",
            "give some: actor_rollout_ref.actor.optim.lr='tag(log, interval(1e-6, 1e-4))'",
        )
    return spaces, fixed


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ConfigError("--trials needs Optuna", install_command("optuna")) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
