# vextract:template - edit freely
"""Where modules stood in projects of earlier vextracts: an import by a former name gets today's.

Hooks are written once and never again, so what they import by a former name is found.
"""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
SHIPPED = json.loads((HERE / "shipped.json").read_text(encoding="utf-8"))
# Former name of a module, or of a package with all that is in it -> its name now; both below this package.
FORMER: dict[str, str] = SHIPPED["former_modules"]


class FormerModule(Loader):
    """Loads a module by its former name."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let import make an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in a former one's place: both names mean one object."""
        today = present_module(module.__name__.partition(".")[2])
        if today is not None:
            sys.modules[module.__name__] = import_module(f"{__package__}.{today}")


class FormerModules(MetaPathFinder):
    """Finds modules by their former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a former name, None for any other."""
        package, _, name = fullname.partition(".")
        place = HERE.joinpath(*name.split("."))
        if package != __package__ or not name or place.with_suffix(".py").is_file() or any(place.rglob("*.py")):
            return None  # the owner may have a module of that name
        is_way = name not in FORMER and any(former.startswith(f"{name}.") for former in FORMER)  # to former names
        return ModuleSpec(fullname, FormerModule(), is_package=is_way) if is_way or present_module(name) else None


def present_module(name: str) -> str | None:
    """Return the name of a former module today; None: it is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        now = FORMER.get(".".join(parts[:end]))
        if now is not None:
            return ".".join([now, *parts[end:]])
    return None
