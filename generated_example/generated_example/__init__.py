# vextract:template base/__package__/__init__.py.jinja - edit freely
"""The project's code; README.md says what is in which folder. The names in `__all__` are what scripts use.

They are imported when they are first asked for: torch takes seconds.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .absent import MODULES, AbsentModules
from .errors import show_plainly
from .run.process import quiet

if TYPE_CHECKING:
    from .custom.env_dataset import EnvDataset
    from .errors import ConfigError, DataError, ProjectError
    from .hooks import HookError
    from .settings import load_config
    from .training.run_loop import Step, TrainResult
    from .training.trainer import LocalPPOTrainer

__all__ = [
    "ConfigError",
    "DataError",
    "EnvDataset",
    "HookError",
    "LocalPPOTrainer",
    "ProjectError",
    "Step",
    "TrainResult",
    "load_config",
]

# Where each of them is, and those that features bring.
_PLACES = {
    "api.names.short_names": "TrainingConfig",
    "api.names.trl_names": "GRPOConfig",
    "api.parts": "LocalFSDPWorkers LocalRolloutManager",
    "api.simple": "GRPOTrainer PPOTrainer",
    "custom.env_dataset": "EnvDataset",
    "errors": "ConfigError DataError ProjectError",
    "hooks": "HookError",
    "settings": "load_config",
    "training.run_loop": "Step TrainResult",
    "training.trainer": "LocalPPOTrainer",
}

sys.meta_path.append(AbsentModules())


def __getattr__(name: str) -> Any:
    place = next((place for place, names in _PLACES.items() if name in names.split()), None)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    quiet()  # before transformers looks how much it may say
    show_plainly()
    if place in MODULES:
        raise ImportError(f"this project was made without {name}\nhint: vextract add {MODULES[place]}")
    return getattr(import_module(f".{place}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
