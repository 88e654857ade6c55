# vextract:template base/__package__/absent.py - edit freely
"""What this project was made without, and where modules stood in projects of earlier vextracts; by shipped.json.

An import of a module that is not here names the feature that brings it. One by a former name gets the module of today:
hooks are written once and never again, so what they import by a former name is found.
"""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
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
# Former name of a module, or of a package with all that is in it -> its name now; both below this package.
FORMER: dict[str, str] = SHIPPED["former_modules"]


class AbsentModules(MetaPathFinder, Loader):
    """Finds modules by their former names, and says which feature has those that are not here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a former name, None for any other.

        Raises:
            ModuleNotFoundError: the module belongs to a feature that this project was made without.
        """
        package, _, name = fullname.partition(".")
        place = HERE.joinpath(*name.split("."))
        if package != __package__ or not name or place.with_suffix(".py").is_file() or any(place.rglob("*.py")):
            return None  # the owner may have a module by a former name
        inside = f"{name}."
        if name not in FORMER and any(former.startswith(inside) for former in FORMER):
            return ModuleSpec(fullname, self, is_package=True)  # it is the way to former names
        feature = MODULES.get(name) or next((MODULES[other] for other in MODULES if other.startswith(inside)), None)
        if feature is not None:
            raise ModuleNotFoundError(
                f"this project was made without {fullname}\nhint: vextract add {feature}", name=fullname
            )
        return ModuleSpec(fullname, self) if _today(name) else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let import make an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in a former one's place: both names mean one object."""
        today = _today(module.__name__.partition(".")[2])
        if today is not None:
            sys.modules[module.__name__] = import_module(f"{__package__}.{today}")


def _today(name: str) -> str | None:
    """Return the name of a former module today; None: it is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        now = FORMER.get(".".join(parts[:end]))
        if now is not None:
            return ".".join([now, *parts[end:]])
    return None
