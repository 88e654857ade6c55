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
SETTINGS: dict[str, str] = SHIPPED["absent_settings"]


class AbsentModules(MetaPathFinder):
    """Says which feature has a module that is not here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None: somebody else may find the module.

        Raises:
            ModuleNotFoundError: the module belongs to a feature that this project was made without.
        """
        package, _, name = fullname.partition(".")
        place = HERE.joinpath(*name.split("."))
        if package != __package__ or not name or place.with_suffix(".py").is_file() or any(place.rglob("*.py")):
            return None  # the owner may have a module of that name
        inside = f"{name}."
        feature = MODULES.get(name) or next((MODULES[other] for other in MODULES if other.startswith(inside)), None)
        # `vextract attack` adds a folder to the path of `rewards`.
        added = [Path(folder) / fullname.rpartition(".")[2] for folder in path or ()]
        if feature is not None and not any(place.is_dir() or place.with_suffix(".py").is_file() for place in added):
            raise ModuleNotFoundError(
                f"this project was made without {fullname}\nhint: vextract add {feature}", name=fullname
            )
        return None
