"""Collect the names that decorators register: estimators, losses, reward managers."""

from __future__ import annotations

from pathlib import PurePosixPath

from extractor.pipeline.generate import Generated
from extractor.pipeline.render.registered import list_registrations
from extractor.usecases.changes.changeset import RegistryChange
from extractor.values import readers

# By the name of the decorator, or of its folder upstream where the decorator is just called `register`.
_TITLES = {
    "register_adv_est": "advantage estimators",
    "register_policy_loss": "policy losses",
    "reward_manager": "reward managers",
}


def compare_registries(old: Generated, new: Generated) -> tuple[RegistryChange, ...]:
    """Compare what the vendored code of two projects registers."""
    before, after = list_registered(old), list_registered(new)
    return tuple(
        RegistryChange(
            registry=title,
            kept=tuple(sorted(before.get(title, set()) & after.get(title, set()))),
            gained=tuple(sorted(after.get(title, set()) - before.get(title, set()))),
            lost=tuple(sorted(before.get(title, set()) - after.get(title, set()))),
        )
        for title in sorted({*before, *after})
    )


def list_registered(generated: Generated) -> dict[str, set[str]]:
    """Return registry -> the names in it."""
    folders = {
        module.target_path: PurePosixPath(module.upstream_path).parent.name for module in generated.found.modules
    }
    found: dict[str, set[str]] = {}
    for item in generated.emitted:
        for decorator, name, _ in list_registrations(readers.parse_python(item.text)):
            if decorator.startswith("register"):
                folder = folders[item.path]
                title = _TITLES.get(decorator) or _TITLES.get(folder) or f"{folder}:{decorator}"
                found.setdefault(title, set()).add(name)
    return found
