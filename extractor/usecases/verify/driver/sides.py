"""Load both sides of a comparison: upstream's and the project's modules."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

MAX_STUBS = 20
_HERE = str(Path(__file__).parent)
# Methods that a project's classes were made without, "Class.method".
_without: set[str] = set()


class StandIn(ModuleType):
    """Stands in for any module or member: callable, subscriptable, subclassable."""

    def __init__(self, name: str = "stand_in") -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]
        return self

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __getitem__(self, key: Any) -> StandIn:
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __or__(self, other: Any) -> type:
        return object

    __ror__ = __or__


class Stubber(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts an empty stand-in where a package is missing."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find every module below the stubbed packages."""
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Make the stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


def block(names: Iterable[str]) -> None:
    """Make top-level packages unimportable, and unknown to `find_spec`, from now on."""
    sys.modules.update(dict.fromkeys(names))


class NotVendored(Exception):
    """The project does not have this part of upstream."""


def is_absent(error: Exception) -> bool:
    """Tell whether an error means that the project lacks the callee.

    A dropped method counts as absent only if the case itself asked for it. If vendored code asked, that is a failure.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if isinstance(error, AttributeError) and trace and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        kinds = error.obj.__mro__ if isinstance(error.obj, type) else type(error.obj).__mro__
        return any(f"{kind.__name__}.{error.name}" in _without for kind in kinds)
    return isinstance(error, NotVendored) or type(error).__name__ == "FeatureNotVendored"


class Side:
    """Gives access to upstream's names, in upstream's own code or in a project.

    Args:
        root: The directory to import from.
        scratch: A directory for files.
        modules: Upstream's name of each vendored module -> its name in the project, where neither Ray nor verl can be
            imported; None: upstream's own code, with stand-ins for Ray and missing packages.
        dropped: Methods that a project's classes were made without, "Class.method".
    """

    def __init__(
        self, root: Path, scratch: Path, modules: Mapping[str, str] | None = None, dropped: Iterable[str] = ()
    ) -> None:
        self.scratch, self.modules, self.is_upstream = scratch, modules, modules is None
        self.stubber = Stubber([])
        if modules is None:
            self.stubber = prepare_upstream(root)
            self._set_platform()
        else:
            _without.update(dropped)
            block(["ray", "verl"])
            sys.path.insert(0, str(root))

    def module(self, name: str) -> ModuleType:
        """Return the module that upstream calls `name`.

        Raises:
            NotVendored: there is none.
        """
        if self.modules is not None:
            if name not in self.modules:
                raise NotVendored(name)
            return importlib.import_module(self.modules[name])
        try:
            return import_upstream(name, self.stubber)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "verl":
                raise
            raise NotVendored(f"{error.name} does not exist in this release") from None

    def get(self, symbol: str) -> Any:
        """Return the object that upstream calls `symbol` ("verl.protocol:DataProto.select")."""
        name, _, attribute = symbol.partition(":")
        first, *methods = attribute.split(".")
        value = getattr(self.module(name), first, None)
        if value is None or ".shims." in f"{getattr(value, '__module__', '')}.":
            raise NotVendored(symbol)
        for method in methods:
            if self.is_upstream and not hasattr(value, method):
                raise NotVendored(f"{symbol} does not exist in this release")
            value = getattr(value, method)
        return value

    def _set_platform(self) -> None:
        """Make upstream see only a CPU; 0.9.0 and later assume CUDA."""
        import torch

        try:
            manager = self.module("verl.plugin.platform.platform_manager")
        except NotVendored:
            return
        facts = {"device_name": "cpu", "vendor_name": "cpu", "device_module": torch.cpu}
        ways = {"current_device": lambda self: "cpu", "is_available": lambda self: True}
        cls: Any = type("Processor", (manager.PlatformBase,), {**facts, **ways})
        cls.__abstractmethods__ = frozenset()
        manager.set_platform(cls())


def prepare_upstream(root: Path) -> Stubber:
    """Make upstream importable without Ray and on any transformers version."""
    sys.path.insert(0, str(root))
    stubber = Stubber(["ray"])
    sys.meta_path.insert(0, stubber)
    import transformers

    # Renamed in transformers 5. Nothing that is compared uses it; upstream only imports it.
    if not hasattr(transformers, "AutoModelForVision2Seq"):
        transformers.AutoModelForVision2Seq = getattr(transformers, "AutoModelForImageTextToText", None)
    return stubber


def import_upstream(name: str, stubber: Stubber) -> ModuleType:
    """Import an upstream module with stand-ins for missing packages."""
    for _ in range(MAX_STUBS):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in ("", "verl") or missing in stubber.names:
                raise
            stubber.names.add(missing)
    raise ImportError(f"{name}: too many packages are missing: {', '.join(sorted(stubber.names))}")
