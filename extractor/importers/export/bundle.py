"""The files of an export, made in memory."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from extractor.importers.config.keys import Key, map_key
from extractor.importers.config.project import UNKNOWN, ProjectConfig, by_override, load, python_of, read_files
from extractor.importers.config.release import Defaults, Target
from extractor.importers.export import changes, choices, documents, judge, learning, refused
from extractor.importers.export.closure import needed
from extractor.importers.export.edits import UpstreamEdit, upstream_edits
from extractor.importers.export.rewards import RewardConfig, arguments_as_keys
from extractor.importers.export.verl_interface import VerlInterface
from extractor.pipeline.source import Source
from extractor.project import base as emitted_base
from extractor.project.lock import Lock
from extractor.usecases import diff
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
    project: Path,
    lock: Lock,
    source: Source,
    renamed: Callable[[str], str | None],
    settings: Sequence[str] = (),
    include: Sequence[str] = (),
) -> Export:
    """Make an export.

    Args:
        project: The project's directory.
        lock: Its lock.
        source: verl, of the target release.
        renamed: What a key of the project's release is called in the target release, as manifests know.
        settings: Overrides of the project's config.
        include: Modules to take along besides those that hooks import, by their paths below the package.

    Raises:
        UsageError: the project's config cannot be composed, it has no hooks, no such module, or it
            trains what verl cannot, or by what the release has not.
    """
    target = Target.of(source)
    defaults = Defaults.of(target)
    written = read_files(project)
    config = load(written, settings)
    config = replace(config, flat=by_override(config.config))
    usual = by_override(load(written).config) if settings else config.flat
    refused.check(config, usual, project / lock.options.package)
    if config.flat.get("local.prime.enable"):
        raise UsageError(
            f"local.prime.enable=true: PRIME is not part of verl {target.release}, but a recipe of verl-recipe, prime",
            hint="--set local.prime.enable=false exports the training by outcomes alone",
        )
    if config.flat.get("distillation.enabled") and "distillation.enabled" not in defaults:
        raise UsageError(
            f"distillation.enabled=true: verl {target.release} has no on-policy distillation",
            hint="--verl 0.8.0 or later; or --set distillation.enabled=false",
        )
    if config.flat.get("distillation.enabled") and (missing := changes.missing_teacher(config.flat)):
        raise UsageError(
            f"{missing} is null, and a toy teacher is not part of an export",
            hint=f"--set {missing} to a model with the policy's vocabulary",
        )
    package, interface = lock.options.package, VerlInterface.of(target)
    reward = RewardConfig.of(config, project, package, target, interface)
    remarks = choices.check(project, package, config, target, defaults, renamed)
    copied = changes.named_files(project, config)
    changed = changes.changes(config, target, interface, reward, copied, remarks)
    changed.update(judge.changes(config.flat, defaults))
    keys = [map_key(key, value, target, defaults, renamed, changed) for key, value in sorted(config.flat.items())]
    keys = arguments_as_keys(keys, reward, interface)
    keys = judge.as_keys(keys, changed, defaults, target.release)
    remarks += judge.remarks(config.flat, defaults, target.release)
    told = {**changes.further(config, interface, reward, defaults), **judge.further(config.flat, defaults)}
    overrides = [_override(key) for key in keys if key.written]
    overrides = [item for item in overrides if item.partition("=")[0].lstrip("+") not in told]
    overrides += [changes.override(name, value, defaults) for name, value in told.items()]
    overrides = sorted(set(overrides))  # two keys of the project's may be one there
    keys = [changes.replaced(key, told) for key in keys]
    remarks += learning.remarks(keys)
    edits = _edits(project, lock, source)
    if edits:
        fit = sum(edit.applies for edit in edits)
        remarks.append(
            f"{len(edits)} vendored files are edited, and verl does not have these edits. upstream.patch has those of "
            f"{fit} of them: apply it to a checkout of verl (`patch -p1`). UPSTREAM.md lists all"
        )
    bundle = _Bundle(project, lock, target, config, interface, reward, _modules(project / package, include))
    files = bundle.files(tuple(overrides), keys, edits, remarks)
    files.update({path: readers.read_bytes(project / path) for path in copied.values()})
    return Export(dict(sorted(files.items())), tuple(keys), tuple(overrides), edits, tuple(remarks))


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


def _modules(package: Path, include: Sequence[str]) -> tuple[str, ...]:
    for name in include:
        if not (package / name).is_file():
            raise UsageError(
                f"--include {name}: no such file in {package.name}", hint="give a path such as rewards/text.py"
            )
    return tuple(include)


def _edits(project: Path, lock: Lock, source: Source) -> tuple[UpstreamEdit, ...]:
    base = emitted_base.read(project, lock)
    found = diff.edits(project, lock, base)
    ours = {edit.path: readers.read_bytes(project / edit.path) for edit in found if (project / edit.path).is_file()}
    return upstream_edits(found, lock, base, ours, source)


@dataclass(frozen=True)
class _Bundle:
    """Holds what the files are made from."""

    project: Path
    lock: Lock
    target: Target
    config: ProjectConfig
    interface: VerlInterface
    reward: RewardConfig
    include: tuple[str, ...]

    @property
    def _plays(self) -> bool:
        return changes.plays(self.config) and self.interface.agent_loop

    @property
    def _own_dataset(self) -> bool:
        return changes.own_dataset(self.config)

    def files(
        self,
        overrides: Sequence[str],
        keys: Sequence[Key],
        edits: tuple[UpstreamEdit, ...],
        remarks: Sequence[str],
    ) -> dict[str, bytes]:
        """Return all files, by path."""
        reached = needed(self.project, self.lock, self._roots())
        texts = self._adapters(bool(edits), remarks)
        texts.update(self._aliases(reached.vendored))
        texts["run.sh"] = documents.script(self.lock, keys, overrides, self.target)
        texts["env.sh"] = documents.environment(changes.HOOKS if self.interface.modules else None)
        texts["KEYS.md"] = documents.table(keys, self.target)
        texts["requirements.txt"] = documents.requirements(self.target, self.config)
        if edits:
            texts["UPSTREAM.md"] = documents.upstream(edits, self.target)
        files = {path: text.encode() for path, text in texts.items()}
        files.update({path: readers.read_bytes(self.project / path) for path in reached.own})
        unknown = self.project / UNKNOWN
        if unknown.is_file() and any(unknown.name.encode() in files[path] for path in reached.own):
            files[UNKNOWN] = readers.read_bytes(unknown)  # copies of a fork's code read it
        if edits:
            files["upstream.patch"] = b"".join(edit.patch for edit in edits)
        return files

    def _roots(self) -> list[str]:
        roots = ["custom/__init__.py", *self.include]
        roots += ["data/toy.py"] if self.config.toy else []
        roots += [self.reward.adapted.path.partition("/")[2]] if self.reward.adapted else []
        roots += ["episodes/environments.py", "episodes/observations.py"] if self._plays else []
        return roots

    def _adapters(self, edited: bool, remarks: Sequence[str]) -> dict[str, str]:
        package, own = self.lock.options.package, self.reward.own
        custom = self.project / package / "custom"
        context = {
            "package": package,
            "verl": self.target.release,
            "own_manager": own,
            "manager_module": self.reward.adapted.module if self.reward.adapted else "",
            "manager_class": self.reward.adapted.name if self.reward.adapted else "",
            "manager_interface": self.interface.manager.value,
            "dataset_class": _class(custom / "env_dataset.py", "Dataset", self._own_dataset),
            "multi_turn": self._plays,
            "messages_first": self.interface.messages_first,
            "toy": self.config.toy,
            "qwen_tokens": self.interface.qwen_tokens,
            "prepares_data": not self.config.flat.get("data.train_files"),
            "edits": edited,
            "remarks": remarks,
            "adapters": ", ".join(
                name
                for name, made in (("reward", own), ("dataset", self._own_dataset), ("environment loop", self._plays))
                if made
            ),
        }
        names = ["README.md", "prepare.py", "adapters/settings.py", "adapters/hooks.py"]
        names += ["adapters/dataset.py"] if self._own_dataset else []
        names += ["adapters/reward.py"] if own else []
        names += ["adapters/environment.py"] if self._plays else []
        texts = {name: str(_template(f"{name}.jinja").render(context)).rstrip("\n") + "\n" for name in names}
        init = resources.templates() / "export/adapters/__init__.py"
        texts["adapters/__init__.py"] = init.read_text(encoding="utf-8")
        texts["adapters/settings.json"] = _as_json(_settings(self.config, self.reward))
        if self._plays:
            texts["adapters/agent_loops.yaml"] = (
                f"- name: {changes.AGENT}\n  _target_: adapters.environment.EnvironmentLoop\n"
            )
        return texts

    def _aliases(self, vendored: Mapping[str, str]) -> dict[str, str]:
        """verl's own modules in place of the vendored ones."""
        alias, texts = _template("alias.py.jinja"), {}
        for path, upstream in vendored.items():
            module = module_name(upstream)
            texts[path] = alias.render(module=module, verl=self.target.release, present=self.target.has(upstream))
        return texts


def _class(path: Path, suffix: str, wanted: bool) -> str:
    """Return the name of the class in a hook's file whose name ends so: the last one."""
    if not wanted:
        return ""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file, and the config uses it", hint="restore the hook, or name data.train_files"
        )
    body = python_of(path).body
    names = [node.name for node in body if isinstance(node, ast.ClassDef) and node.name.endswith(suffix)]
    if not names:
        raise UsageError(f"{path}: no class whose name ends in {suffix}", hint="rename it so that the export finds it")
    return names[-1]


def _settings(config: ProjectConfig, reward: RewardConfig) -> dict[str, Any]:
    """Return what the adapters read."""
    flat, tree = config.flat, config.config
    local = tree.get("local", {})
    rollout = tree["actor_rollout_ref"]["rollout"].get("multi_turn", {})
    files = ("debug_log", "log_dir")
    offered = {name: value for name, value in local.get("reward", {}).items() if name not in files}
    return {
        "agent_name": changes.AGENT,
        "apply_chat_template_kwargs": tree["data"].get("apply_chat_template_kwargs") or {},
        "env": tree["data"].get("env") or {},
        "env_loop": local.get("env", {}),
        "max_assistant_turns": rollout.get("max_assistant_turns"),
        "max_user_turns": rollout.get("max_user_turns"),
        "offered": {
            **offered,
            "max_resp_len": flat["data.max_response_length"],
            "overlong_buffer_cfg": reward.overlong or None,
        },
        "reward_kwargs": dict(reward.arguments),
    }


def _as_json(settings: Mapping[str, Any]) -> str:
    """Return the text of settings.json.

    Raises:
        UsageError: a key is no text, and would come back as one.
    """
    if (key := _key_of_no_text(settings)) is not None:
        raise UsageError(
            f"the key {key!r} of a setting is no text, and what adapters read is JSON, which has no other keys",
            hint=f'write it "{key}", and have what reads it expect that',
        )
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"


def _key_of_no_text(value: Any) -> Any:
    """Return the first key in a value that is no text; None: there is none."""
    if isinstance(value, Mapping):
        own = next((key for key in value if not isinstance(key, str)), None)
        return own if own is not None else _key_of_no_text(list(value.values()))
    if isinstance(value, list):
        return next((key for item in value if (key := _key_of_no_text(item)) is not None), None)
    return None


def _template(name: str) -> Any:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string((resources.templates() / "export" / name).read_text(encoding="utf-8"))
