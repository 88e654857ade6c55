"""Remove project config keys that upstream's dataclasses no longer accept."""

import ast
from dataclasses import replace

from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.usecases.changes.config_keys import MAIN, select_below_config, select_emitted_config
from extractor.usecases.yaml_edits import join_key, undo_edits
from extractor.values import readers
from extractor.values.config_files import FOLDER
from extractor.values.configtree.settings import map_packages
from extractor.values.configtree.yaml_text import Document, Entry
from extractor.values.reachable import find_reachable
from extractor.values.tree import Tree

# As workers/role_configs.py of a project hands them over.
_SECTIONS = {
    "actor_rollout_ref.actor": "FSDPActorConfig",
    "actor_rollout_ref.actor.policy_loss": "PolicyLossConfig",
    "actor_rollout_ref.actor.fsdp_config": "FSDPEngineConfig",
    "actor_rollout_ref.ref.fsdp_config": "FSDPEngineConfig",
    "critic.model.fsdp_config": "FSDPEngineConfig",
    "actor_rollout_ref.actor.optim": "FSDPOptimizerConfig",
    "critic.optim": "FSDPOptimizerConfig",
}


def drop_lost_fields(generated: Generated, old: Source, new: Source) -> tuple[Generated, list[str]]:
    """Drop config keys whose dataclass fields the new release removed; say which, a line each."""
    before, after = map_fields(old), map_fields(new)
    files = select_emitted_config(generated.tree)
    places = map_packages(select_below_config(files), MAIN)
    lost: list[str] = []
    written: dict[str, bytes] = {}
    for path, text in files.items():
        document = Document.of(text)
        gone: dict[Entry, str | None] = {}
        for place, entry in document.entries.items():
            for package in places.get(path.removeprefix(FOLDER), ()):
                section, _, name = join_key(package, place).rpartition(".")
                known = _SECTIONS.get(section, "")
                if known in after and name in before.get(known, ()) and name not in after[known]:
                    gone[entry] = None
                    said = f"{path} sets {section}.{name}, and upstream's {known} has no such field any more"
                    lost.append(said)
        if gone:
            written[path] = undo_edits(document, Document.of("_: 0\n"), gone, {}).encode()
    tree = Tree.of([replace(file, data=written.get(file.path, file.data)) for file in generated.tree])
    return replace(generated, tree=tree), lost


def map_fields(source: Source) -> dict[str, set[str]]:
    """Map a release's config classes to their fields, including inherited ones."""
    classes: dict[str, ast.ClassDef] = {}
    for path in source.files:
        if path.endswith(".py") and "config" in path:
            body = readers.parse_python_or_nothing(source.read(path)).body
            classes.update({node.name: node for node in body if isinstance(node, ast.ClassDef)} | classes)

    bases = {name: [ast.unparse(base) for base in node.bases] for name, node in classes.items()}
    fields = {
        name: {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
        for name, node in classes.items()
    }
    families = {name: find_reachable([name], lambda one: bases.get(one, ())) for name in classes}
    return {name: set().union(*(fields.get(one, ()) for one in family)) for name, family in families.items()}
