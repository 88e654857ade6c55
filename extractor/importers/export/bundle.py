"""Make an export's files in memory, and write them."""

import ast
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from extractor.importers.config.keys import Key, KeyStatus, map_key
from extractor.importers.config.project import UNKNOWN, ProjectConfig, load, map_overrides, parse_hook, read_files
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.config.templates import render, write_cell
from extractor.importers.export import changes, rewards
from extractor.importers.export.rewards import RewardConfig, VerlInterface
from extractor.pipeline import apply, merge
from extractor.pipeline.merge.files import merge_file
from extractor.pipeline.source import Source
from extractor.project import base as emitted_base
from extractor.project.lock import Lock
from extractor.usecases import diff
from extractor.values import readers
from extractor.values.configtree import BadOverride, write_override
from extractor.values.errors import UsageError
from extractor.values.modules import list_imports, name_module
from extractor.values.moved_modules import rename_dotted_name
from extractor.values.reachable import find_reachable
from extractor.values.setting_types import PATH as SHIPPED
from extractor.values.tree import FileKind


def find_needed(
    project: Path, lock: Lock, roots: Iterable[str], modules: Iterable[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Return the files that an export copies, and vendored ones -> verl's own that stands in for them.

    Args:
        project: Its directory.
        lock: Its lock: it says what is vendored.
        roots: Paths of modules to start from, below the package; those that are not there are skipped.
        modules: Paths of others, below the project.

    Raises:
        UsageError: a hook is no Python.
    """
    package = lock.options.package
    vendored = {
        file.path: file.upstream_path
        for file in lock.files
        if file.kind is FileKind.VENDORED and file.upstream_path is not None and file.path.endswith(".py")
    }

    def lead_to(path: str) -> list[str]:
        return [*_list_packages(project, path), *(() if path in vendored else _list_imports(project, path, package))]

    starts = [f"{package}/{root}" for root in roots if (project / package / root).is_file()]
    reached = find_reachable([*starts, *modules, *readers.list_python_below(project, f"{package}/custom")], lead_to)
    stubs = {path: vendored[path] for path in sorted(reached & vendored.keys()) if not path.endswith("__init__.py")}
    tables = f"{package}/{SHIPPED}"  # the package's first import reads them
    own = (reached - stubs.keys()) | ({tables} if (project / tables).is_file() else set())
    return sorted(own), stubs


def _list_packages(project: Path, path: str) -> Iterable[str]:
    """Return the `__init__.py` of each package that a module is in."""
    for folder in list(PurePosixPath(path).parents)[:-1]:
        init = f"{folder}/__init__.py"
        if (project / init).is_file() and init != path:
            yield init


def _walk_runtime_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Yield a module's nodes, except blocks for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from _walk_runtime_nodes(ast.Module(node.orelse, []))
        else:
            yield node
            yield from _walk_runtime_nodes(node)


def _list_imports(project: Path, path: str, package: str) -> list[str]:
    """Return the package's files that a module imports at run time."""
    imports = list_imports(_walk_runtime_nodes(parse_hook(project / path)), path)
    found = [place for module, name, _ in imports for place in (f"{module}.{name}", module)]
    files = [item.replace(".", "/") for name in found for item in (name, rename_dotted_name(name, package))]
    candidates = [name for item in files for name in (f"{item}.py", f"{item}/__init__.py")]
    return [name for name in candidates if name.startswith(f"{package}/") and (project / name).is_file()]


@dataclass(frozen=True)
class UpstreamEdit:
    """The edits of one vendored file."""

    path: str
    upstream_path: str
    why: str
    patch: bytes = field(repr=False)
    edit: bytes = field(repr=False)

    @property
    def applies(self) -> bool:
        """Tell whether the edits fit verl's file without a conflict."""
        return not self.why


def merge_edits(project: Path, lock: Lock, source: Source) -> tuple[UpstreamEdit, ...]:
    """Merge each vendored file's edits into verl's original file."""
    base = emitted_base.read(project, lock)
    found = []
    for path, edit in diff.list_edits(project, lock, base).items():
        entry = lock.file(path)
        if entry is not None and entry.kind is FileKind.VENDORED and entry.upstream_path is not None:
            ours = readers.read_bytes(project / path) if (project / path).is_file() else None
            why, patch = _try_patch(entry.upstream_path, base[path], ours, source)
            found.append(UpstreamEdit(path, entry.upstream_path, why, patch, edit))
    return tuple(found)


def _try_patch(upstream_path: str, base: bytes, ours: bytes | None, source: Source) -> tuple[str, bytes]:
    """Return why an edit does not fit, otherwise its patch."""
    theirs = source.files.get(upstream_path)
    if theirs is None:
        return f"verl {source.release} has no such file", b""
    if ours is None:
        return "the file was removed from the project", b""
    if not merge.is_mergeable(base, ours, theirs):
        return "not text", b""
    labels = merge.Labels("project", "emitted", f"verl {source.release}")
    merged = merge_file(upstream_path, base, ours, theirs, labels)
    if merged.conflicts:
        return f"changes lines that verl's file has otherwise, in {merged.conflicts} places", b""
    return "", diff.write_unified_diff(upstream_path, theirs, merged.data)


@dataclass(frozen=True)
class Export:
    """An export's files, keys, overrides and remarks."""

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
    config = replace(config, flat=map_overrides(config.config))
    package, interface = lock.options.package, VerlInterface.of(target)
    changes.check(config, map_overrides(load(written).config) if settings else config.flat, project / package)
    for name in include:
        if not (project / package / name).is_file():
            raise UsageError(f"--include {name}: no such file in {package}", hint="give a path such as rewards/text.py")
    reward = RewardConfig.of(config, project, package, target, interface)
    copied = changes.find_named_files(project, config)
    changed = changes.change_values(config, target.release, interface, reward, copied)
    keys = [map_key(key, value, target, defaults, changed) for key, value in sorted(config.flat.items())]
    keys = [rewards.map_argument(key, reward, interface) for key in keys]
    told = changes.add_settings(config, interface, reward, defaults)
    overrides = _list_overrides(keys, told, defaults)
    keys = [
        Key(key.key, key.value, KeyStatus.CHANGED, key.target, told[key.target], reason="names the adapter")
        if key.target in told
        else key
        for key in keys
    ]
    remarks = changes.list_lost_settings(keys)
    edits = merge_edits(project, lock, source)
    if edits:
        fit = sum(edit.applies for edit in edits)
        remarks.append(
            f"{len(edits)} vendored files are edited, and verl does not have these edits. upstream.patch has those of "
            f"{fit} of them: apply it to a checkout of verl (`patch -p1`). UPSTREAM.md lists all"
        )
    bundle = _Bundle(project, lock, target, config, interface, reward)
    files = bundle.copies(include) | bundle.texts(overrides, keys, edits, remarks)
    files |= {path: readers.read_bytes(project / path) for path in copied.values()}
    if edits:
        files["upstream.patch"] = b"".join(edit.patch for edit in edits)
    return Export(dict(sorted(files.items())), tuple(keys), tuple(overrides), edits, tuple(remarks))


def write(target: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new directory, all or none.

    Raises:
        UsageError: the place is taken, or cannot be written.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target}: exists already", hint="pass another directory with -o, or remove it")
    apply.write_new(target, files)
    for path in files:
        if path.endswith(".sh"):
            (target / path).chmod(0o755)


def _list_overrides(keys: Sequence[Key], told: Mapping[str, Any], defaults: VerlDefaults) -> list[str]:
    """Return the launch script's overrides, sorted and without duplicates.

    Raises:
        UsageError: Hydra's grammar has no words for one.
    """
    found = set()
    for key in keys:
        if not key.written or key.target in told:
            continue
        try:
            if not key.target:
                raise BadOverride("a key of the config that is no plain word")
            found.add(write_override(key.target, key.target_value, key.mark))
        except BadOverride as error:
            raise UsageError(
                f"{key.key or 'config'}={key.value!r}: {error}",
                hint="Hydra takes ASCII in keys, and no empty ones: rename it, and what reads it",
            ) from None
    for name, value in told.items():
        # A count is a number when the script runs.
        is_count = value in ("$NNODES", "$GPUS")
        found.add(f"{name}={value}" if is_count else write_override(name, value, "" if name in defaults else "+"))
    return sorted(found)


@dataclass(frozen=True)
class _Bundle:
    """The inputs of an export's files."""

    project: Path
    lock: Lock
    target: ReleaseConfig
    config: ProjectConfig
    interface: VerlInterface
    reward: RewardConfig

    def copies(self, include: Sequence[str]) -> dict[str, bytes]:
        """Return the modules hooks and adapters need, with aliases for verl's."""
        roots = ["custom/__init__.py", *include]
        roots += ["data/toy.py"] if self.config.toy else []
        roots += [self.reward.adapted.path.partition("/")[2]] if self.reward.adapted else []
        roots += ["episodes/environments.py", "episodes/observations.py"] if changes.is_multi_turn(self.config) else []
        tools = changes.find_tool_modules(self.project, self.config)
        own, vendored = find_needed(self.project, self.lock, roots, tools)
        files = {path: readers.read_bytes(self.project / path) for path in own}
        unknown = self.project / UNKNOWN
        if unknown.is_file() and any(unknown.name.encode() in data for data in files.values()):
            files[UNKNOWN] = readers.read_bytes(unknown)  # copies of a fork's code read it
        for path, upstream in vendored.items():
            has = self.target.has(upstream)
            text = render("alias.py", "export", module=name_module(upstream), verl=self.target.release, present=has)
            files[path] = text.encode()
        return files

    def texts(
        self, overrides: Sequence[str], keys: Sequence[Key], edits: tuple[UpstreamEdit, ...], remarks: Sequence[str]
    ) -> dict[str, bytes]:
        """Render the export's templates: launch script, adapters and tables."""
        package, adapted = self.lock.options.package, self.reward.adapted
        dataset = changes.uses_own_dataset(self.config)
        parts = {"reward": adapted is not None, "dataset": dataset, "environment": changes.is_multi_turn(self.config)}
        made = [name for name, is_made in parts.items() if is_made]
        context = {
            "package": package,
            "verl": self.target.release,
            "own_manager": adapted is not None,
            "manager_module": adapted.module if adapted else "",
            "manager_class": adapted.name if adapted else "",
            "manager_interface": self.interface.manager.value,
            "dataset_class": _find_dataset_class(self.project / package / "custom/env_dataset.py") if dataset else "",
            "multi_turn": changes.is_multi_turn(self.config),
            "toy": self.config.toy,
            "qwen_tokens": self.interface.qwen_tokens,
            "prepares_data": not self.config.flat.get("data.train_files"),
            "edits": edits,
            "remarks": remarks,
            "adapters": ", ".join("environment loop" if name == "environment" else name for name in made),
            "overrides": [_quote(item) for item in overrides],
            "keys": [(key, _show_target(key)) for key in keys],
            "serving": "sglang" if self.config.flat.get("actor_rollout_ref.rollout.name") == "sglang" else "vllm",
        }
        names = ["README.md", "KEYS.md", "run.sh", "env.sh", "requirements.txt", "prepare.py"]
        names += [f"adapters/{name}.py" for name in ("__init__", "settings", "hooks", *made)]
        names += ["UPSTREAM.md"] if edits else []
        texts = {name: render(name, "export", **context).rstrip("\n") + "\n" for name in names}
        texts["adapters/settings.json"] = _write_json(_collect_settings(self.config, self.reward))
        if changes.is_multi_turn(self.config):
            loop = f"- name: {changes.AGENT}\n  _target_: adapters.environment.EnvironmentLoop\n"
            texts["adapters/agent_loops.yaml"] = loop
        return {path: text.encode() for path, text in texts.items()}


def _quote(override: str) -> str:
    """Quote an override for bash, keeping the script's own variables."""
    if "$" not in override:
        return shlex.quote(override)
    escaped = override.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    escaped = re.sub(r"\$(?!(HERE|NNODES|GPUS)\b)", r"\\$", escaped)
    return f'"{escaped}"'


def _show_target(key: Key) -> str:
    """Return a key's override in verl; "" if unchanged or absent."""
    if key.target is None or (key.target == key.key and key.target_value == key.value and not key.mark):
        return ""
    return f"`{key.mark}{key.target}={write_cell(key.target_value)}`"


def _find_dataset_class(path: Path) -> str:
    """Return the hook's last class whose name ends in Dataset."""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file, and the config uses it", hint="restore the hook, or name data.train_files"
        )
    body = parse_hook(path).body
    names = [node.name for node in body if isinstance(node, ast.ClassDef) and node.name.endswith("Dataset")]
    if not names:
        raise UsageError(f"{path}: no class whose name ends in Dataset", hint="rename it so that the export finds it")
    return names[-1]


def _collect_settings(config: ProjectConfig, reward: RewardConfig) -> dict[str, Any]:
    """Return the settings that the adapters read."""
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


def _write_json(settings: Mapping[str, Any]) -> str:
    """Return the text of settings.json.

    Raises:
        UsageError: a key is no text, and would come back as one.
    """
    text = json.dumps(settings, indent=2)
    if json.loads(text) != settings:
        raise UsageError(
            "a key of a setting is no text, and what adapters read is JSON, which has no other keys",
            hint="write it in quotation marks, and have what reads it expect that",
        )
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"
