# vextract:template base/__package__/absent.py - edit freely
"""What this project was made without, by shipped.json: an import of it names the feature that brings it."""

import json
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
SHIPPED: dict[str, Any] = json.loads((HERE / "shipped.json").read_text(encoding="utf-8"))
# Modules below this package, presets and settings that are not here -> the feature that brings them.
MODULES: dict[str, str] = SHIPPED["absent_modules"]
PRESETS: dict[str, str] = SHIPPED["absent_presets"]
ABSENT_SETTINGS: dict[str, str] = SHIPPED["absent_settings"]


def lacking(what: str, feature: str) -> tuple[str, str]:
    """Say that something needs a feature that is not here, and how to add it."""
    return f"{what} needs {feature}, which this project was made without", f"vextract add {feature}"


class AbsentModules(MetaPathFinder):
    """Says which feature has a module that nothing else has found."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None: it is no module of a feature; or an empty package, where modules in it are of several.

        Raises:
            ModuleNotFoundError: the module belongs to a feature that this project was made without.
        """
        features = {MODULES[other] for other in MODULES if f"{__package__}.{other}.".startswith(f"{fullname}.")}
        if len(features) == 1:  # it has no `name`, by which `from package import module` would drop it
            raise ModuleNotFoundError(f"this project was made without {fullname}\nhint: vextract add {features.pop()}")
        return ModuleSpec(fullname, None, is_package=True) if features and path is not None else None
