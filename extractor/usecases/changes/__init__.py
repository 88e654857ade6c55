"""Compare the vendored code of two releases: symbols, registries, config keys."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping

from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.usecases.changes.changeset import (
    ChangeKind,
    Changes,
    DefaultChange,
    FieldChange,
    KeyChanges,
    LostKey,
    OwnerKey,
    Place,
    RegistryChange,
    SymbolChange,
)
from extractor.usecases.changes.compare import fields_of
from extractor.usecases.changes.config_keys import (
    MAIN,
    compare_project_keys,
    compare_upstream_keys,
    gone_in,
    project_config,
    upstream_config,
)
from extractor.usecases.changes.registries import compare_registries
from extractor.usecases.changes.symbols import compare_symbols
from extractor.values.configtree.settings import every_setting, unreadable
from extractor.values.renames import Renames

__all__ = [
    "ChangeKind",
    "Changes",
    "DefaultChange",
    "FieldChange",
    "KeyChanges",
    "LostKey",
    "OwnerKey",
    "Place",
    "RegistryChange",
    "SymbolChange",
    "report",
]


def report(
    old: Generated,
    new: Generated,
    old_source: Source,
    new_source: Source,
    owner_config: Mapping[str, str] | None = None,
) -> Changes:
    """Compare what two projects vendor.

    Args:
        old: The project as it is.
        new: The project as it would be.
        old_source: verl, as the old one was made from it.
        new_source: verl, for the new one.
        owner_config: The owner's YAML files as they are on disk, by path in the project ("config/ppo_trainer.yaml");
            None: no owner is asked about.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        symbols = compare_symbols(old, new, old_source, new_source)
        registries = compare_registries(old, new)
        fields = tuple(_field_changes(symbols))
    renames = Renames(old_source.release, new_source.release)
    old_files, new_files = project_config(old), project_config(new)
    old_upstream, new_upstream = upstream_config(old_source), upstream_config(new_source)
    owner_keys: tuple[OwnerKey, ...] = ()
    if owner_config:
        old_project = {item.key for item in every_setting(old_files, MAIN)}
        new_project = {item.key for item in every_setting(new_files, MAIN)}
        owner_keys = gone_in(
            owner_config,
            old_project | set(old_upstream),
            new_project | set(new_upstream),
            new_project,
            old_project,
            renames,
        )
    return Changes(
        old=old_source.release,
        new=new_source.release,
        symbols=tuple(symbols),
        registries=registries,
        project_keys=compare_project_keys(old_files, new_files, renames),
        upstream_keys=compare_upstream_keys(old, new, old_upstream, new_upstream, renames),
        fields=fields,
        owner_keys=owner_keys,
        unreadable=unreadable(owner_config or {}),
    )


def _field_changes(symbols: list[SymbolChange]) -> list[FieldChange]:
    """Return the config classes among the vendored ones, with the fields that came and went."""
    found = []
    for item in symbols:
        if item.change is not ChangeKind.SIGNATURE or item.old is None or item.new is None:
            continue
        if not re.search(r"^@dataclass\b", item.new.text, re.MULTILINE) or "/config" not in item.new.upstream_path:
            continue
        before, after = fields_of(item.old.text), fields_of(item.new.text)
        gained = tuple(name for name in after if name not in before)
        lost = tuple(name for name in before if name not in after)
        if gained or lost:
            found.append(FieldChange(item.new.symbol, gained, lost))
    return found
