"""Choose options for another package's environment, such as `gym:FrozenLake-v1`."""

from __future__ import annotations

import json
from dataclasses import replace

from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest
from extractor.values.nearest import find_nearest
from extractor.values.options import ENVIRONMENT, Options
from extractor.values.tree import File, FileKind, Tree

_FEATURE = "env_"
_NAME = b'"ADAPTER:NAME"'  # in the recipe's env_wrapper.py


def choose_environment(options: Options, name: str, manifest: Manifest) -> Options:
    """Choose the environment recipe and the adapter feature for an environment.

    Args:
        options: As asked for.
        name: Of the environment, "ADAPTER:NAME".
        manifest: The release.

    Raises:
        UsageError: no adapter has that name, or it names nothing.
    """
    adapter, _, rest = name.partition(":")
    for item in manifest.withheld:
        if item.name == _FEATURE + adapter:
            text = f"--env {name} cannot be had with verl {manifest.release}: {item.withheld}"
            raise UsageError(text, hint=f"`--verl {releases.find_default()}`")
    adapters = [item.name.removeprefix(_FEATURE) for item in manifest.features if item.name.startswith(_FEATURE)]
    if adapter not in adapters or not rest:
        near = find_nearest(adapter, adapters)
        meant = f"did you mean `--env {near[0]}:{rest or 'NAME'}`? " if near else ""
        raise UsageError(f"--env {name} is not ADAPTER:NAME", hint=f"{meant}adapters: {', '.join(sorted(adapters))}")
    return replace(options, recipe=ENVIRONMENT, features=tuple(sorted({*options.features, _FEATURE + adapter})))


def name_environment(tree: Tree, package: str, name: str) -> Tree:
    """Write the environment's name into the hook that makes it."""
    path, quoted = f"{package}/custom/env_wrapper.py", json.dumps(name, ensure_ascii=False).encode()
    named = [File(path, FileKind.HOOK, file.data.replace(_NAME, quoted)) for file in tree if file.path == path]
    return Tree.of([*(file for file in tree if file.path != path), *named])


def name_program(name: str, package: str) -> str | None:
    """Return the agent program that plays an environment, "module:function"; None: its adapter steps."""
    return f"{package}.custom.env_verifiers:run" if name.startswith("verifiers:") else None
