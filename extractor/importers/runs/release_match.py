"""Match a run to the config of a verl release, or to the defaults before the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from extractor.importers.config.keys import list_candidates
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.config.templates import read_table
from extractor.importers.runs.report import is_of_another_back_end
from extractor.importers.runs.run import Run
from extractor.values import releases
from extractor.values.configtree import Override, Problem, flatten
from extractor.values.configtree.compose import apply, merge
from extractor.values.manifest import rename_key
from extractor.values.renamed_config_keys import KeyRenames

_TABLE = read_table("keys")
_UNRELEASED: Mapping[str, str] = _TABLE["unreleased"]
TAKES_ANYTHING: tuple[str, ...] = tuple(_TABLE["takes_anything"])
# What verl reads where it is given, and no release's config has: upstream's scripts give it without a + as well.
_READ = "fsdp_config.wrap_policy.transformer_layer_cls_to_wrap"
_KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"
_KL_IN_REWARD = "algorithm.use_kl_in_reward"
_COEFFICIENT = "algorithm.kl_ctrl.kl_coef"


@dataclass(frozen=True)
class ReleaseMatch:
    """A run's config composed with a release's."""

    target: ReleaseConfig
    config: Mapping[str, Any]
    problems: tuple[Problem, ...]
    overrides: tuple[Override, ...] = ()

    @property
    def unhandled(self) -> tuple[Problem, ...]:
        """Return overrides unknown to every release, except other back ends'."""
        return tuple(item for item in self.problems if not is_of_another_back_end(item.override.key))


def fit(run: Run, target: ReleaseConfig, others: Sequence[ReleaseConfig] = ()) -> ReleaseMatch:
    """Compose a run's config with a release's config tree.

    Args:
        run: As it was read.
        target: The release.
        others: Releases whose keys are taken as well, under the names that they have in this one: a script from between
            two releases may have keys of both.
    """
    main = f"{run.config_name}.yaml"
    main = main if main in target.files else "ppo_trainer.yaml"
    if run.resolved is not None:
        config = dict(target.compose().config)
        known = set(flatten(config))
        unknown = tuple(
            Problem(Override("", key, value, f"{key}={value}"), f"there is no key {key}", unknown=True)
            for key, value in flatten(run.resolved).items()
            if key not in known and not any(key.startswith(f"{name}.") for name in known)
        )
        merge(config, run.resolved)
        return ReleaseMatch(target, config, unknown)
    config = _apply_checkout_defaults(run, target.compose((), main).config)
    groups = [item for item in run.overrides if item.key in ("model_engine",) or "@" in item.key]
    problems: list[Problem] = []
    if groups:
        again = target.compose(groups, main)
        config = _apply_checkout_defaults(run, again.config)
        problems += again.problems
    named = list(run.overrides)
    for index, item in enumerate(run.overrides):
        if item in groups or item.key.startswith("hydra"):
            continue
        problem = apply(config, item)
        if problem is not None and problem.unknown:
            name = _find_elsewhere(item.key, target, others)
            if name is None:
                problems.append(problem)
                continue
            named[index] = Override("++", name, _normalize_share(item.key, item.value), item.text)
            apply(config, named[index])
        elif problem is not None:
            apply(config, Override("++", item.key, item.value, item.text))
    return ReleaseMatch(target, config, tuple(problems), tuple(named))


def _apply_checkout_defaults(run: Run, config: dict[str, Any]) -> dict[str, Any]:
    """Apply the checkout's defaults and configs to a release's config.

    Defaults count only if the release has the key, under whatever name, or it lies in an open section.
    """
    known, own = set(flatten(config)), flatten(run.defaults)
    for unreleased, given in own.items():
        key, value = rename_key(unreleased, _UNRELEASED), _normalize_share(unreleased, given)
        if key != unreleased and key in own:
            continue
        others = list(dict.fromkeys((key, *list_candidates(key, lambda item: None))))
        if value is None:  # an old name, left empty beside the one that is used
            value = next((own[item] for item in others if own.get(item) is not None), None)
        is_open = key.startswith(TAKES_ANYTHING)
        names = [
            item for item in others if (item in known or (is_open and item == key)) and (item == key or item not in own)
        ]
        # A release that has an old name beside the new one reads what is set under either.
        for name in names if value is not None else names[:1]:
            apply(config, Override("++", name, value, ""))
    for body in run.overlay:
        merge(config, body)
    return config


def _normalize_share(key: str, value: Any) -> Any:
    """Return a value, turned from percent into a share where needed."""
    return value / 100 if key in _TABLE["percent"] and isinstance(value, (int, float)) else value


def _find_elsewhere(key: str, target: ReleaseConfig, others: Sequence[ReleaseConfig]) -> str | None:
    """Find a release's name for an unknown key, or None."""
    if not others:
        return None
    if key.endswith(_READ) or key.startswith(TAKES_ANYTHING):
        return key
    defaults = VerlDefaults.of(target)
    released = rename_key(key, _UNRELEASED)
    name = next((name for name in list_candidates(released, lambda item: None) if name in defaults), None)
    if name is not None:
        return name
    if released != key:
        return released
    release = next((other.release for other in others if key in VerlDefaults.of(other)), None)
    return None if release is None else KeyRenames(release, target.release)(key) or key


def add_earlier_defaults(run: Run) -> Run:
    """Return the run, with old defaults if it predates supported releases.

    Until then KL went into the reward of every run that did not have it in the loss, and the entropy counted.
    """
    why = explain_earlier(run)
    if why is None:
        return run
    before: dict[str, Any] = {"actor_rollout_ref": {"actor": {"entropy_coeff": 0.001}}}
    in_loss = bool(_find_said(run, _KL_LOSS))
    before["algorithm"] = {"use_kl_in_reward": not in_loss}
    note = (
        f"written for verl before {releases.list_supported()[0]} ({why}): its defaults are taken, "
        f"entropy_coeff=0.001 and {_KL_IN_REWARD}={str(not in_loss).lower()}, "
        "where neither the run nor its checkout says anything else"
    )
    merge(before, run.defaults)
    return replace(run, defaults=before, notes=(*run.notes, note))


def explain_earlier(run: Run) -> str | None:
    """Say why a run predates the first release, or return None."""
    if run.resolved is not None:
        return None
    if run.version is not None:
        first = Version(releases.list_supported()[0])
        return f"its checkout is {run.version}" if Version(run.version).release < first.release else None
    marks, table = {item.key: item.mark for item in run.overrides}, read_table("keys")
    if any(marks.get(key) == "" for key in table["new_in_0_4"]):
        return None
    said = next((f"it sets {key}" for key in table["gone_since_0_4"] if key in marks), None)
    said = said or next((f"it adds {key} with a +" for key in table["new_in_0_4"] if marks.get(key) == "+"), None)
    if said is None and marks.get(_COEFFICIENT) == "" and not _find_said(run, _KL_LOSS):
        said = f"it sets {_COEFFICIENT}, and not where it counts"
    return said


def _find_said(run: Run, key: str) -> Any:
    """Return what the run or its configs set a key to."""
    found = next((item.value for item in reversed(run.overrides) if item.key == key), None)
    bodies = [*reversed(run.overlay), run.defaults]
    return found if found is not None else next((value for body in bodies if (value := flatten(body).get(key))), None)
