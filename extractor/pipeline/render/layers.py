"""Choose each project file's template; later layers win.

The layers hold what the newest release needs. What older ones need instead stands over the part that it belongs to, in
`until/V/PART` for the releases up to V: what a recipe replaces stays the recipe's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from packaging.version import Version

from extractor.values import readers, releases, resources
from extractor.values.manifest import Manifest
from extractor.values.options import Options

PACKAGE = "__package__"
UNTIL = "until"
# An empty FILE.absent says that releases up to that one have no FILE.
_ABSENT = ".absent"
# In an engine's or a feature's folder: the folders below engine/ that it shares with others; and an engine's modes.
_ENGINE_FILE = "engine.toml"
_FEATURE_FILE = "feature.toml"
# In a recipe's: the features that it needs.
_RECIPE_FILE = "recipe.toml"


@dataclass(frozen=True)
class Template:
    """A template.

    Attributes:
        path: Where it is, below templates/.
        text: What it holds; None where it says that there is no such file.
    """

    path: str
    text: str | None

    @property
    def name(self) -> str:
        """Return the template's path without its release."""
        return self.path.split("/", 2)[2] if self.path.startswith(f"{UNTIL}/") else self.path

    @property
    def release(self) -> str:
        """Return the release whose config keys the template uses."""
        first, _, rest = self.path.partition("/")
        return rest.partition("/")[0] if first == UNTIL else releases.find_template_release()


def list_layers(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """Return the template directories of a project, in order."""
    features = (layer for name in options.features for layer in list_feature_layers(name))
    parts = dict.fromkeys(("base", *list_engine_layers(options.engine), *features, f"recipe/{options.recipe}"))
    return _list_for_release(parts, manifest)


@cache
def list_engine_layers(engine: str) -> tuple[str, ...]:
    """Return an engine's template folders, shared ones first."""
    shared = (
        layer for name in _read_list(f"engine/{engine}/{_ENGINE_FILE}", "shares") for layer in list_engine_layers(name)
    )
    return (*dict.fromkeys(shared), f"engine/{engine}")


@cache
def list_engine_modes(engine: str) -> tuple[str, ...]:
    """Return how an engine runs: in process (sync), on servers (async)."""
    return _read_list(f"engine/{engine}/{_ENGINE_FILE}", "modes") or ("sync",)


@cache
def list_feature_layers(feature: str) -> tuple[str, ...]:
    """Return the template directories of a feature."""
    shared = _read_list(f"feature/{feature}/{_FEATURE_FILE}", "shares")
    return (*dict.fromkeys(layer for name in shared for layer in list_engine_layers(name)), f"feature/{feature}")


def read_words(feature: str) -> tuple[str, ...]:
    """Return words that show that code or commands use a feature."""
    return _read_list(f"feature/{feature}/{_FEATURE_FILE}", "words")


def read_former_places(feature: str) -> tuple[str, ...]:
    """Return former places of a feature's code, as "file:name"."""
    return _read_list(f"feature/{feature}/{_FEATURE_FILE}", "stood_in")


def layers_of_feature(manifest: Manifest, feature: str) -> tuple[str, ...]:
    """Return a feature's template directories in a release, in order."""
    return _list_for_release(list_feature_layers(feature), manifest)


@cache
def list_recipe_features(recipe: str) -> tuple[str, ...]:
    """Return the features that a recipe cannot do without."""
    return _read_list(f"recipe/{recipe}/{_RECIPE_FILE}", "needs")


def map_files(layers: Iterable[str], package: str, below: str = "") -> dict[str, tuple[Template, ...]]:
    """Map each project file to its templates; the last wins.

    Args:
        layers: In order.
        package: The project's.
        below: Only what is in this directory.
    """
    found: dict[str, tuple[Template, ...]] = {}
    for layer in layers:
        for path, template in _list_templates(resources.find_templates() / layer, package, below):
            found[path] = (*found.get(path, ()), template)
    return {path: templates for path, templates in found.items() if templates[-1].text is not None}


def _list_for_release(parts: Iterable[str], manifest: Manifest) -> tuple[str, ...]:
    """Return directories of parts, with those for older releases over them."""
    # An inferred manifest has the roles of the one that it was inferred from, and these are what the templates call.
    until = _list_until_folders(manifest.borrowed_from or manifest.release)
    return tuple(layer for part in parts for layer in (part, *(f"{UNTIL}/{release}/{part}" for release in until)))


def _read_list(path: str, key: str) -> tuple[str, ...]:
    """Return a list from a part's TOML file; empty without one."""
    file = resources.find_templates() / path
    return tuple(readers.parse_toml(file.read_text(encoding="utf-8")).get(key, ())) if file.is_file() else ()


def _list_until_folders(release: str) -> list[str]:
    """Return the releases of the folders `until/V` that apply, newest first."""
    folder = resources.find_templates() / UNTIL
    known = sorted((item.name for item in folder.iterdir()), key=Version, reverse=True) if folder.is_dir() else []
    return [name for name in known if Version(name) >= Version(release)]


@cache
def _list_templates(root: Path, package: str, below: str) -> tuple[tuple[str, Template], ...]:
    """Return a layer's templates with their places in a project."""
    layer = root.relative_to(resources.find_templates())
    found: list[tuple[str, Template]] = []
    for file in sorted((root / below).rglob("*")):
        name = PurePosixPath(file.relative_to(root))
        is_code = file.is_file() and file.suffix != ".pyc"  # an old installer compiles templates as well
        if not is_code or str(name) in (_ENGINE_FILE, _FEATURE_FILE, _RECIPE_FILE):
            continue
        absent = name.suffix == _ABSENT
        relative = name.with_suffix("") if absent else name
        relative = relative.with_suffix("") if relative.suffix == ".jinja" else relative
        path = "/".join(package if part == PACKAGE else part for part in relative.parts)
        place = f"{package}/shims/{path}" if str(layer) == "shims" else path
        text = None if absent else file.read_text(encoding="utf-8")
        found.append((place, Template((layer / name).as_posix(), text)))
    return tuple(found)
