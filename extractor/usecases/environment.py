"""Choose options for another package's environment, such as `gym:FrozenLake-v1`."""

from __future__ import annotations

import json
from dataclasses import replace

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
    if adapter == "verifiers":
        raise UsageError(
            "environments of verifiers call a model themselves: they are agents",
            hint="`--agent MODULE:FUNCTION` trains a function that runs one",
        )
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
