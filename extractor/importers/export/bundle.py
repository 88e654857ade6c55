"""The files of an export, made in memory."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from extractor.importers.config.keys import Key, KeyStatus, map_key
from extractor.importers.config.project import UNKNOWN, ProjectConfig, by_override, load, python_of, read_files
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.export import changes, checks, documents, rewards
from extractor.importers.export.closure import find_needed
from extractor.importers.export.edits import UpstreamEdit, merge_edits
from extractor.importers.export.rewards import RewardConfig
from extractor.importers.export.verl_interface import VerlInterface
from extractor.pipeline.source import Source
from extractor.project.lock import Lock
from extractor.values import readers, resources
from extractor.values.configtree import BadOverride, write_override
from extractor.values.errors import UsageError
from extractor.values.modules import module_name


@dataclass(frozen=True)
class Export:
    """An export.

    Attributes:
        files: By path; text or bytes.
        keys: Every key of the project's config.
        overrides: What run.sh passes to verl, `$HERE` standing for the directory.
        edits: Edits to vendored files.
        remarks: What a user should know.
    """

    files: Mapping[str, bytes] = field(repr=False)
    keys: tuple[Key, ...]
    overrides: tuple[str, ...]
    edits: tuple[UpstreamEdit, ...]
    remarks: tuple[str, ...]


def export(
    project: Path, lock: Lock, source: Source, settings: Sequence[str] = (), include: Sequence[str] = ()
) -> Export:
    """Make an export.

    Args:
        project: The project's directory.
        lock: Its lock.
        source: verl, of the project's release.
        settings: Overrides of the project's config.
        include: Modules to take along besides those that hooks import, by their paths below the package.

    Raises:
        UsageError: the project's config cannot be composed, it has no hooks, no such module, or it trains what verl
            cannot.
    """
    target = ReleaseConfig.of(source)
    defaults = VerlDefaults.of(target)
    written = read_files(project)
    config = load(written, settings)
    config = replace(config, flat=by_override(config.config))
    package, interface = lock.options.package, VerlInterface.of(target)
    checks.check(config, by_override(load(written).config) if settings else config.flat, project / package, target)
    for name in include:
        if not (project / package / name).is_file():
            raise UsageError(f"--include {name}: no such file in {package}", hint="give a path such as rewards/text.py")
    reward = RewardConfig.of(config, project, package, target, interface)
    copied = changes.find_named_files(project, config)
    keys = _map_keys(config, target, defaults, changes.change_values(config, target.release, interface, reward, copied))
    keys = [rewards.map_argument(key, reward, interface) for key in keys]
    told = changes.add_settings(config, interface, reward, defaults)
    overrides = _overrides(keys, told, defaults)
    keys = [
        Key(key.key, key.value, KeyStatus.CHANGED, key.target, told[key.target], reason="names the adapter")
        if key.target in told
        else key
        for key in keys
    ]
    remarks = changes.list_remarks(config, target.release, interface, reward, defaults)
    remarks += checks.list_lost_settings(keys)
    edits = merge_edits(project, lock, source)
    if edits:
        fit = sum(edit.applies for edit in edits)
        remarks.append(
            f"{len(edits)} vendored files are edited, and verl does not have these edits. upstream.patch has those of "
            f"{fit} of them: apply it to a checkout of verl (`patch -p1`). UPSTREAM.md lists all"
        )
    bundle = _Bundle(project, lock, target, config, interface, reward, tuple(include))
    files = bundle.files(overrides, keys, edits, remarks)
    files.update({path: readers.read_bytes(project / path) for path in copied.values()})
    return Export(dict(sorted(files.items())), tuple(keys), tuple(overrides), edits, tuple(remarks))


def _map_keys(
    config: ProjectConfig, target: ReleaseConfig, defaults: VerlDefaults, changed: Mapping[str, tuple[Any, str]]
) -> list[Key]:
    """Decide about every key of a project."""
    keys = [map_key(key, value, target, defaults, changed) for key, value in sorted(config.flat.items())]
    if not (rewards.is_judged(config.flat) and rewards.is_served(defaults)):
        return keys
    reason = f"verl {target.release} runs reward models as servers"
    return [
        Key(key.key, key.value, KeyStatus.DROPPED, reason=reason) if key.key.startswith("local.reward_model.") else key
        for key in keys
    ]


def _overrides(keys: Sequence[Key], told: Mapping[str, Any], defaults: VerlDefaults) -> list[str]:
    """Return the overrides of the launch script, sorted; two keys of the project's may be one there."""
    found = {_override(key) for key in keys if key.written and key.target not in told}
    for name, value in told.items():
        # A count is a number when the script runs.
        is_count = value in ("$NNODES", "$GPUS")
        found.add(f"{name}={value}" if is_count else write_override(name, value, "" if name in defaults else "+"))
    return sorted(found)


def _override(key: Key) -> str:
    """Return an override of the launch script.

    Raises:
        UsageError: Hydra's grammar has no words for it.
    """
    try:
        if key.target:
            return write_override(key.target, key.target_value, key.mark)
        said = "a key of the config that is no plain word"
    except BadOverride as error:
        said = str(error)
    raise UsageError(
        f"{key.key or 'config'}={key.value!r}: {said}",
        hint="Hydra takes ASCII in keys, and no empty ones: rename it, and what reads it",
    )


@dataclass(frozen=True)
class _Bundle:
    """Holds what the files are made from."""

    project: Path
    lock: Lock
    target: ReleaseConfig
    config: ProjectConfig
    interface: VerlInterface
    reward: RewardConfig
    include: tuple[str, ...]

    @property
    def _plays(self) -> bool:
        return changes.is_multi_turn(self.config) and self.interface.agent_loop

    def files(
        self, overrides: Sequence[str], keys: Sequence[Key], edits: tuple[UpstreamEdit, ...], remarks: Sequence[str]
    ) -> dict[str, bytes]:
        """Return all files, by path."""
        reached = find_needed(self.project, self.lock, self._roots())
        texts = self._adapters(bool(edits), remarks)
        for path, upstream in reached.vendored.items():  # verl's own modules in place of the vendored ones
            present = self.target.has(upstream)
            texts[path] = _render("alias.py", module=module_name(upstream), verl=self.target.release, present=present)
        texts["run.sh"] = documents.write_script(self.lock, keys, overrides, self.target)
        texts["env.sh"] = documents.write_environment(changes.HOOKS if self.interface.modules else None)
        texts["KEYS.md"] = documents.write_key_table(keys, self.target)
        texts["requirements.txt"] = documents.write_requirements(self.target, self.config)
        if edits:
            texts["UPSTREAM.md"] = documents.write_edit_list(edits, self.target)
        files = {path: text.encode() for path, text in texts.items()}
        files.update({path: readers.read_bytes(self.project / path) for path in reached.own})
        unknown = self.project / UNKNOWN
        if unknown.is_file() and any(unknown.name.encode() in files[path] for path in reached.own):
            files[UNKNOWN] = readers.read_bytes(unknown)  # copies of a fork's code read it
        if edits:
            files["upstream.patch"] = b"".join(edit.patch for edit in edits)
        return files

    def _roots(self) -> list[str]:
        """Return the modules below the package that an export needs whatever hooks import."""
        roots = ["custom/__init__.py", *self.include]
        roots += ["data/toy.py"] if self.config.toy else []
        roots += [self.reward.adapted.path.partition("/")[2]] if self.reward.adapted else []
        roots += ["episodes/environments.py", "episodes/observations.py"] if self._plays else []
        return roots

    def _adapters(self, edited: bool, remarks: Sequence[str]) -> dict[str, str]:
        package, adapted = self.lock.options.package, self.reward.adapted
        dataset = changes.uses_own_dataset(self.config)
        parts = {"reward": adapted is not None, "dataset": dataset, "environment": self._plays}
        context = {
            "package": package,
            "verl": self.target.release,
            "own_manager": adapted is not None,
            "manager_module": adapted.module if adapted else "",
            "manager_class": adapted.name if adapted else "",
            "manager_interface": self.interface.manager.value,
            "dataset_class": _dataset_class(self.project / package / "custom/env_dataset.py") if dataset else "",
            "multi_turn": self._plays,
            "messages_first": self.interface.messages_first,
            "toy": self.config.toy,
            "qwen_tokens": self.interface.qwen_tokens,
            "prepares_data": not self.config.flat.get("data.train_files"),
            "edits": edited,
            "remarks": remarks,
            "adapters": ", ".join(name for name, made in parts.items() if made).replace(
                "environment", "environment loop"
            ),
        }
        names = ["README.md", "prepare.py", "adapters/settings.py", "adapters/hooks.py"]
        names += [f"adapters/{name}.py" for name, made in parts.items() if made]
        texts = {name: _render(name, **context).rstrip("\n") + "\n" for name in names}
        init = resources.templates() / "export/adapters/__init__.py"
        texts["adapters/__init__.py"] = init.read_text(encoding="utf-8")
        texts["adapters/settings.json"] = _as_json(_settings(self.config, self.reward))
        if self._plays:
            loop = f"- name: {changes.AGENT}\n  _target_: adapters.environment.EnvironmentLoop\n"
            texts["adapters/agent_loops.yaml"] = loop
        return texts


def _dataset_class(path: Path) -> str:
    """Return the name of the hook's class whose name ends in Dataset: the last one."""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file, and the config uses it", hint="restore the hook, or name data.train_files"
        )
    body = python_of(path).body
    names = [node.name for node in body if isinstance(node, ast.ClassDef) and node.name.endswith("Dataset")]
    if not names:
        raise UsageError(f"{path}: no class whose name ends in Dataset", hint="rename it so that the export finds it")
    return names[-1]


def _settings(config: ProjectConfig, reward: RewardConfig) -> dict[str, Any]:
    """Return what the adapters read."""
    tree = config.config
    local = tree.get("local", {})
    rollout = tree["actor_rollout_ref"]["rollout"].get("multi_turn", {})
    offered = {key: value for key, value in local.get("reward", {}).items() if key not in ("debug_log", "log_dir")}
    return {
        "agent_name": changes.AGENT,
        "apply_chat_template_kwargs": tree["data"].get("apply_chat_template_kwargs") or {},
        "env": tree["data"].get("env") or {},
        "env_loop": local.get("env", {}),
        "max_assistant_turns": rollout.get("max_assistant_turns"),
        "max_user_turns": rollout.get("max_user_turns"),
        "offered": {
            **offered,
            "max_resp_len": config.flat["data.max_response_length"],
            "overlong_buffer_cfg": reward.overlong or None,
        },
        "reward_kwargs": dict(reward.arguments),
    }


def _as_json(settings: Mapping[str, Any]) -> str:
    """Return the text of settings.json.

    Raises:
        UsageError: a key is no text, and would come back as one.
    """
    pending: list[Any] = [settings]
    while pending:
        value = pending.pop()
        for key in value if isinstance(value, Mapping) else ():
            if not isinstance(key, str):
                raise UsageError(
                    f"the key {key!r} of a setting is no text, and what adapters read is JSON, which has no other keys",
                    hint=f'write it "{key}", and have what reads it expect that',
                )
        pending += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"


def _render(name: str, **context: Any) -> str:
    """Return a template of an export, filled in."""
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    text = (resources.templates() / "export" / f"{name}.jinja").read_text(encoding="utf-8")
    return str(environment.from_string(text).render(context))
