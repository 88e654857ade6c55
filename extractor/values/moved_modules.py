"""Read templates/moved.toml: former places of a project's modules."""

from collections.abc import Mapping
from functools import cache

from extractor.values import readers, resources

MOVED = "moved.toml"
# The feature of projects whose code imports modules by former names.
FORMER_NAMES = "former_names"


@cache
def map_former_modules() -> Mapping[str, str]:
    """Map former module names to today's, below the package."""
    tables = readers.parse_toml((resources.find_templates() / MOVED).read_text(encoding="utf-8"))
    return {former: str(now) for table in tables.values() for former, now in table.items()}


def rename_module(name: str) -> str:
    """Return a module's name today: "utils.device" -> "vendored.utils.device"."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        now = map_former_modules().get(".".join(parts[:end]))
        if now is not None:
            return ".".join([now, *parts[end:]])
    return name


def rename_dotted_name(name: str, package: str) -> str:
    """Return a name today: "toy.utils.device" -> "toy.vendored.utils.device"."""
    head = f"{package}."
    return head + rename_module(name.removeprefix(head)) if name.startswith(head) else name


def rename_path(path: str) -> str:
    """Map a former path below the package to its current path."""
    stem, dot, ending = path.rpartition(".")
    if ending not in ("py", "pyi"):
        return path
    package = stem.removesuffix("/__init__")
    return rename_module(package.replace("/", ".")).replace(".", "/") + stem[len(package) :] + dot + ending


def rename_project_path(path: str, package: str) -> str:
    """Map a former path of a project to its current path."""
    head = f"{package}/"
    return head + rename_path(path.removeprefix(head)) if path.startswith(head) else path
