# vextract:template base/__package__/former_modules.py.jinja - edit freely
"""Modules that stood elsewhere in projects of earlier vextracts: an import by the former name gets the module of today.

Hooks are written once and never again, so what they import by a former name is found here.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from .absent import MODULES

# Former name of a module, or of a package with all that is in it -> its name now; both below this package.
FORMER = {
    "api.datasets": "api.inputs.datasets",
    "api.environments": "api.inputs.environments",
    "api.flag_names": "api.names.flags",
    "api.functions": "api.under_ray.functions",
    "api.given": "api.inputs.given",
    "api.given_model": "api.inputs.models",
    "api.on_ray": "api.under_ray.trainer",
    "api.on_workers": "api.under_ray.workers",
    "api.ray_rewards": "api.under_ray.rewards",
    "api.recipe_names": "api.names.recipe_flags",
    "api.rewards": "api.inputs.rewards",
    "api.rows": "api.inputs.rows",
    "api.short_names": "api.names.short_names",
    "api.supervised_flags": "api.names.supervised_flags",
    "api.trl_names": "api.names.trl_names",
    "base_config": "vendored.base_config",
    "data.rl_dataset": "vendored.data.rl_dataset",
    "episodes.factories": "data.environments",
    "experimental": "vendored.experimental",
    "models": "vendored.models",
    "protocol": "vendored.protocol",
    "third_party": "vendored.third_party",
    "tools": "vendored.tools",
    "training.checkpoint": "run.checkpoint",
    "training.checkpoint_files": "run.checkpoint_files",
    "training.checks": "settings.checks",
    "training.columns": "tracking.columns",
    "training.config": "vendored.algorithms.config",
    "training.config_loading": "settings.loading",
    "training.core_algos": "vendored.algorithms.core_algos",
    "training.dataloading": "data.dataloading",
    "training.distributed": "run.distributed",
    "training.environments": "episodes.environments",
    "training.episodes": "episodes.loop",
    "training.errors": "errors",
    "training.failures": "run.failures",
    "training.interrupts": "run.interrupts",
    "training.metric_utils": "vendored.algorithms.metric_utils",
    "training.next_steps": "run.next_steps",
    "training.observations": "episodes.observations",
    "training.outcomes": "episodes.outcomes",
    "training.path_checks": "settings.path_checks",
    "training.plots": "tracking.plots",
    "training.provenance": "run.provenance",
    "training.reward": "vendored.algorithms.reward",
    "training.reward_keys": "settings.reward_keys",
    "training.rollout_corr_helper": "vendored.algorithms.rollout_corr_helper",
    "training.run_lock": "run.run_lock",
    "training.setting_checks": "settings.setting_checks",
    "training.shipped_settings": "settings.shipped_settings",
    "training.stray_errors": "run.stray_errors",
    "training.suggestions": "settings.suggestions",
    "training.terminal": "tracking.terminal",
    "training.timing": "tracking.timing",
    "training.trackers": "tracking.trackers",
    "training.tracking": "tracking.run_tracker",
    "training.trainer_functions": "vendored.algorithms.trainer_functions",
    "training.unread": "settings.unread",
    "training.watch": "run.watch",
    "utils": "vendored.utils",
    "workers.base_actor": "vendored.workers.base_actor",
    "workers.base_critic": "vendored.workers.base_critic",
    "workers.base_rollout": "vendored.workers.base_rollout",
    "workers.config": "vendored.workers.config",
    "workers.dp_actor": "vendored.workers.dp_actor",
    "workers.dp_critic": "vendored.workers.dp_critic",
    "workers.engine": "vendored.workers.engine",
    "workers.hf_rollout": "vendored.workers.hf_rollout",
    "workers.reward_loop": "vendored.workers.reward_loop",
    "workers.reward_manager": "vendored.workers.reward_manager",
    "workers.rollout_utils": "vendored.workers.rollout_utils",
    "workers.utils": "vendored.workers.utils",
    "workers.utils.losses": "vendored.algorithms.losses",
    "workers.vllm_rollout_spmd": "vendored.workers.vllm_rollout_spmd",
    "workers.vllm_utils": "vendored.workers.vllm_utils",
}


def missing_feature(module: str) -> str | None:
    """Return the feature that has a module, or modules of a package, below this one; None: no absent one has it."""
    inside = (feature for name, feature in MODULES.items() if name.startswith(f"{module}."))
    return MODULES.get(module) or next(inside, None)


class FormerModules(MetaPathFinder, Loader):
    """Finds modules by their former names, where no file has that name.

    Args:
        package: the name of this package.
    """

    def __init__(self, package: str) -> None:
        self._package = package

    @classmethod
    def answer_to(cls, package: str) -> None:
        """Let imports of a package's former modules succeed."""
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            # Before all others: these would find what is in a package of today once more, by the package's former name.
            sys.meta_path.insert(0, cls(package))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a former name, None for any other.

        Raises:
            ModuleNotFoundError: the module belongs to a feature that this project was made without.
        """
        package, _, below = fullname.partition(".")
        if package == self._package and _holds_former(below):
            return ModuleSpec(fullname, self, is_package=True)
        feature = missing_feature(below) if package == self._package else None
        if feature is not None and PathFinder.find_spec(fullname, path) is None:
            raise ModuleNotFoundError(
                f"this project was made without {fullname}\nhint: vextract add {feature}", name=fullname
            )
        return ModuleSpec(fullname, self) if self._today(fullname) is not None else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let import make an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in a former one's place: both names mean one object."""
        today = self._today(module.__name__)
        if today is not None:
            sys.modules[module.__name__] = import_module(today)

    def _today(self, name: str) -> str | None:
        package, _, below = name.partition(".")
        if package != self._package:
            return None
        parts = below.split(".")
        for end in range(len(parts), 0, -1):
            now = FORMER.get(".".join(parts[:end]))
            if now is not None:
                return None if _is_there(parts) else ".".join([package, now, *parts[end:]])
        return None


def _holds_former(package: str) -> bool:
    """Tell whether a package without files is the way to modules by their former names."""
    inside = any(former.startswith(f"{package}.") for former in FORMER)
    return inside and package not in FORMER and not _is_there(package.split("."))


def _is_there(parts: Sequence[str]) -> bool:
    """Tell whether a module below this package has a file, or a package has one in it: the owner's own, then."""
    place = Path(__file__).parent.joinpath(*parts)
    return place.with_suffix(".py").is_file() or any(place.rglob("*.py"))
