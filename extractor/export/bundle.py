"""The files of an export, made in memory."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from extractor import base as emitted_base
from extractor import diff, resources
from extractor.errors import UsageError
from extractor.export.closure import needed
from extractor.export.edits import UpstreamEdit, upstream_edits
from extractor.export.keys import Key, Status, map_key
from extractor.export.project import ProjectConfig, load, read_files
from extractor.export.target import Defaults, Target
from extractor.hydra import write_override
from extractor.lock import Lock
from extractor.source import Source

HERE = "$HERE"
LOCAL_NOTE = "# vextract:"
AGENT = "project_environment"


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


@dataclass(frozen=True)
class _Way:
    """How a release takes a project's hooks.

    Attributes:
        manager: Its interface for reward managers: "function" (none of the project's: only its scoring function),
            "registered", "class" or "loop".
        spmd: Whether rollouts can run inside the workers.
        agent_loop: Whether it has agent loops, and their first argument is the messages.
    """

    manager: str
    spmd: bool
    agent_loop: bool
    messages_first: bool


def export(
    project: Path,
    lock: Lock,
    source: Source,
    renamed: Callable[[str], str | None],
    settings: Sequence[str] = (),
) -> Export:
    """Make an export.

    Args:
        project: The project's directory.
        lock: Its lock.
        source: verl, of the target release.
        renamed: What a key of the project's release is called in the target release, as manifests know.
        settings: Overrides of the project's config.

    Raises:
        UsageError: the project's config cannot be composed, or it has no hooks.
    """
    target = Target.of(source)
    defaults = Defaults.of(target)
    config = load(read_files(project), settings)
    way = _way(target)
    remarks: list[str] = []
    changed = _changes(config, target, defaults, way, remarks)
    keys = [map_key(key, value, target, defaults, renamed, changed) for key, value in sorted(config.flat.items())]
    keys = _reward_keys(keys, config, way)
    own = config.flat.get("reward_model.reward_manager") == "env"
    further = _further(project, lock, config, way, defaults, own)
    overrides = [write_override(key.target or "", key.target_value, key.mark) for key in keys if key.written]
    overrides = [item for item in overrides if item.partition("=")[0].lstrip("+") not in further]
    overrides += [_further_override(name, value, defaults) for name, value in further.items()]
    keys = [_replaced(key, further) for key in keys]
    edits = _edits(project, lock, source)
    if edits:
        fit = sum(edit.applies for edit in edits)
        remarks.append(
            f"{len(edits)} vendored files are edited, and verl does not have these edits. upstream.patch has those of "
            f"{fit} of them: apply it to a checkout of verl (`patch -p1`). UPSTREAM.md lists all"
        )
    files = _files(project, lock, target, config, way, own, tuple(sorted(overrides)), keys, edits, remarks)
    return Export(files, tuple(keys), tuple(sorted(overrides)), edits, tuple(remarks))


def _way(target: Target) -> _Way:
    loader = target.function("verl/trainer/ppo/reward.py", "load_reward_manager")
    if "RewardManagerBase" in loader and "num_examine" not in loader.partition(":")[0]:
        manager = "loop"
    elif "reward_manager_cfg.source" in loader:
        manager = "class"
    elif 0 <= loader.find("get_custom_reward_fn(") < loader.find("get_reward_manager_cls("):
        manager = "registered"
    else:
        manager = "function"
    loops = "verl/experimental/agent_loop/agent_loop.py"
    text = target.source.read(loops) if target.has(loops) else ""
    return _Way(
        manager,
        target.has("verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"),
        "agent_loop_config_path" in text,
        "agent_loop.run(messages" in text,
    )


def _changes(
    config: ProjectConfig, target: Target, defaults: Defaults, way: _Way, remarks: list[str]
) -> dict[str, tuple[Any, str]]:
    """Values that have to be others in full verl."""
    flat = config.flat
    found: dict[str, tuple[Any, str]] = {}
    for key, value in flat.items():
        if value is None and key.endswith((".fsdp_config.dtype", "rollout.dtype")):
            found[key] = ("bfloat16", "local.dtype is null: what it is on a GPU")
    found.update(_made(config))
    if flat.get("actor_rollout_ref.rollout.name") == "hf":
        found["actor_rollout_ref.rollout.name"] = ("vllm", "verl has no rollout by transformers that runs")
    multi_turn = bool(flat.get("actor_rollout_ref.rollout.multi_turn.enable"))
    if multi_turn and not way.agent_loop:
        remarks.append(f"verl {target.release} has no agent loops: the environment loop is not part of this export")
    if flat.get("actor_rollout_ref.rollout.mode") == "sync" and (not way.spmd or multi_turn):
        why = "environment loops need verl's servers" if way.spmd else "its rollouts come from servers"
        found["actor_rollout_ref.rollout.mode"] = ("async", f"{why} in verl {target.release}")
    if multi_turn and way.agent_loop:
        found["actor_rollout_ref.rollout.multi_turn.enable"] = (
            False,
            "the episode is played by adapters/environment.py, which is an agent loop of its own",
        )
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    elif flat.get("data.return_raw_chat") is False and not way.spmd:
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    return found


def _made(config: ProjectConfig) -> dict[str, tuple[Any, str]]:
    """Paths of what prepare.py makes."""
    flat = config.flat
    found: dict[str, tuple[Any, str]] = {}
    if config.toy:
        found["actor_rollout_ref.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
        if flat.get("critic.model.path") is None and "critic.model.path" in flat:
            found["critic.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
    if not flat.get("data.train_files"):
        found["data.train_files"] = (f"{HERE}/data/train.parquet", "made by prepare.py from the project's rows")
        found["data.val_files"] = (f"{HERE}/data/val.parquet", "made by prepare.py from the project's rows")
    if "data.cache_dir" in flat and flat["data.cache_dir"] is None:
        found["data.cache_dir"] = ("~/.cache/verl/rlhf", "what null stands for")
    return found


def _reward_keys(keys: list[Key], config: ProjectConfig, way: _Way) -> list[Key]:
    """The reward manager's arguments, as far as the release passes them on."""
    result = []
    for key in keys:
        if key.key.startswith(("reward_model.overlong_buffer.", "reward_model.reward_kwargs")):
            reason = "adapters/settings.json, from where the adapter hands it to the reward manager"
            key = Key(key.key, key.value, Status.DROPPED, reason=reason)
        result.append(key)
    if config.flat.get("reward_model.reward_manager") != "env" and way.manager in ("registered", "function"):
        result = [_kwarg(key) for key in result]
    return result


def _kwarg(key: Key) -> Key:
    """For verl's own managers: verl passes reward_kwargs to them."""
    if not key.key.startswith(("reward_model.overlong_buffer.", "reward_model.reward_kwargs.")):
        return key
    name = key.key.replace("reward_model.overlong_buffer.", "reward_model.reward_kwargs.overlong_buffer_cfg.")
    return Key(key.key, key.value, Status.RENAMED, name, key.value, "+", "argument of the reward manager")


def _further(
    project: Path, lock: Lock, config: ProjectConfig, way: _Way, defaults: Defaults, own: bool
) -> dict[str, Any]:
    """What verl must be told besides: where the adapters are."""
    found: dict[str, Any] = {"trainer.nnodes": "$NNODES", "trainer.n_gpus_per_node": "$GPUS"}
    if own:
        reward = f"{HERE}/adapters/reward.py"
        if way.manager == "loop":
            section = "reward.reward_manager"
        elif way.manager == "class":
            section = "reward_manager"
        else:
            section = ""
        if section:
            found[f"{section}.source"] = "importlib"
            found[f"{section}.name"] = "ProjectRewardManager"
            found[f"{section}.module.path"] = reward
        else:
            found["custom_reward_function.path"] = reward
            found["custom_reward_function.name"] = "compute_score"
            found["reward_model.reward_manager"] = "env" if way.manager == "registered" else "naive"
        if way.manager == "class":
            found["reward_model.use_reward_loop"] = False
    if not config.flat.get("data.train_files") and not config.flat.get("data.custom_cls.path"):
        found["data.custom_cls.path"] = f"{HERE}/adapters/dataset.py"
        found["data.custom_cls.name"] = "ProjectDataset"
    if config.flat.get("actor_rollout_ref.rollout.multi_turn.enable") and way.agent_loop:
        found["actor_rollout_ref.rollout.agent.agent_loop_config_path"] = f"{HERE}/adapters/agent_loops.yaml"
        found["actor_rollout_ref.rollout.agent.num_workers"] = 1 if config.toy else 8
    if config.flat.get("algorithm.use_kl_in_reward") is False and "critic.enable" in defaults:
        estimator = config.flat.get("algorithm.adv_estimator")
        found["critic.enable"] = estimator == "gae"
    return {key: value for key, value in found.items() if key in defaults}


def _further_override(name: str, value: Any, defaults: Defaults) -> str:
    if value in ("$NNODES", "$GPUS"):
        return f"{name}={value}"  # a number when the script runs
    return write_override(name, value, "" if name in defaults else "+")


def _replaced(key: Key, further: Mapping[str, Any]) -> Key:
    if key.target is None or key.target not in further:
        return key
    return Key(key.key, key.value, Status.CHANGED, key.target, further[key.target], reason="names the adapter")


def _edits(project: Path, lock: Lock, source: Source) -> tuple[UpstreamEdit, ...]:
    base = emitted_base.read(project, lock)
    found = diff.edits(project, lock, base)
    ours = {edit.path: (project / edit.path).read_bytes() for edit in found if (project / edit.path).is_file()}
    return upstream_edits(found, lock, base, ours, source)


def _files(
    project: Path,
    lock: Lock,
    target: Target,
    config: ProjectConfig,
    way: _Way,
    own: bool,
    overrides: tuple[str, ...],
    keys: Sequence[Key],
    edits: tuple[UpstreamEdit, ...],
    remarks: list[str],
) -> dict[str, bytes]:
    package = lock.options.package
    multi_turn = bool(config.flat.get("actor_rollout_ref.rollout.multi_turn.enable")) and way.agent_loop
    context = {
        "package": package,
        "verl": target.release,
        "own_manager": own,
        "manager_class": _class(project / package / "custom/reward_manager.py", "RewardManager", own),
        "manager_interface": way.manager,
        "dataset_class": _class(project / package / "custom/env_dataset.py", "Dataset", True),
        "multi_turn": multi_turn,
        "messages_first": way.messages_first,
        "toy": config.toy,
        "prepares_data": not config.flat.get("data.train_files"),
        "gpus": 1,
        "nodes": 1,
        "edits": bool(edits),
        "remarks": remarks,
        "adapters": "reward, dataset" + (", environment loop" if multi_turn else ""),
    }
    texts = _rendered(context, multi_turn)
    texts["adapters/settings.json"] = json.dumps(_settings(config), indent=2, sort_keys=True) + "\n"
    if multi_turn:
        texts["adapters/agent_loops.yaml"] = f"- name: {AGENT}\n  _target_: adapters.environment.EnvironmentLoop\n"
    roots = ["custom/__init__.py"]
    roots += ["data/toy.py", "data/toy_size.py"] if config.toy else []
    roots += ["training/environments.py", "training/observations.py"] if multi_turn else []
    roots += ["export.py"] if (project / package / "export.py").is_file() else []
    reached = needed(project, lock, roots)
    alias = _template("alias.py.jinja")
    for path, upstream in reached.vendored.items():
        module = upstream.removesuffix(".py").replace("/", ".")
        texts[path] = alias.render(module=module, verl=target.release, present=target.has(upstream))
    texts["run.sh"] = _script(lock, config, keys, overrides, target)
    texts["KEYS.md"] = _table(keys, target)
    texts["requirements.txt"] = _requirements(target, config)
    if edits:
        texts["UPSTREAM.md"] = _upstream(edits, target)
    files = {path: text.encode() for path, text in texts.items()}
    files.update({path: (project / path).read_bytes() for path in reached.own})
    if edits:
        files["upstream.patch"] = b"".join(edit.patch for edit in edits)
    return dict(sorted(files.items()))


def _class(path: Path, suffix: str, wanted: bool) -> str:
    """The name of the class in a hook's file whose name ends so: the last one."""
    if not wanted:
        return ""
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file, and the config uses it", hint="restore the hook, or name data.train_files"
        )
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith(suffix)]
    if not names:
        raise UsageError(
            f"{path}: no class whose name ends in {suffix}", hint="name it so, that the export can find it"
        )
    return names[-1]


def _settings(config: ProjectConfig) -> dict[str, Any]:
    """What the adapters read."""
    flat, tree = config.flat, config.config
    local = tree.get("local", {})
    overlong = tree.get("reward_model", {}).get("overlong_buffer", {})
    rollout = tree["actor_rollout_ref"]["rollout"].get("multi_turn", {})
    reward = {name: value for name, value in local.get("reward", {}).items() if name != "log_dir"}
    return {
        "agent_name": AGENT,
        "apply_chat_template_kwargs": tree["data"].get("apply_chat_template_kwargs") or {},
        "env": tree["data"].get("env") or {},
        "env_loop": local.get("env", {}),
        "max_assistant_turns": rollout.get("max_assistant_turns"),
        "max_user_turns": rollout.get("max_user_turns"),
        "offered": {
            **reward,
            "max_resp_len": flat["data.max_response_length"],
            "overlong_buffer_cfg": overlong or None,
        },
        "reward_kwargs": tree.get("reward_model", {}).get("reward_kwargs") or {},
    }


def _template(name: str) -> Any:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.from_string((resources.templates() / "export" / name).read_text(encoding="utf-8"))


def _rendered(context: Mapping[str, Any], multi_turn: bool) -> dict[str, str]:
    names = ["README.md", "prepare.py", "adapters/settings.py", "adapters/reward.py", "adapters/dataset.py"]
    names += ["adapters/environment.py"] if multi_turn else []
    texts = {name: str(_template(f"{name}.jinja").render(context)) for name in names}
    texts["adapters/__init__.py"] = (resources.templates() / "export/adapters/__init__.py").read_text(encoding="utf-8")
    return {name: text.rstrip("\n") + "\n" for name, text in texts.items()}


def _script(lock: Lock, config: ProjectConfig, keys: Iterable[Key], overrides: Sequence[str], target: Target) -> str:
    """run.sh: it keeps what verl has no key for in comments, from where `new --from-verl-run` takes it back."""
    options = lock.options
    lines = [
        "#!/usr/bin/env bash",
        f"# {options.package} on verl {target.release}. Generated by `vextract export`; README.md says how to use it.",
        "set -euo pipefail",
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
        'export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"',
        'NNODES="${NNODES:-1}"',
        'GPUS="${GPUS:-1}"',
        'python "$HERE/prepare.py"',
        "",
        "python -m verl.trainer.main_ppo \\",
    ]
    lines += [f"    {_quoted(item)} \\" for item in overrides]
    lines += ['    "$@"', "", "# What verl has no key for, or another value, as the project has it."]
    head = {
        "verl": target.release,
        "project": options.verl,
        "package": options.package,
        "engine": options.engine,
        "algorithm": options.algorithm,
        "recipe": options.recipe,
        "features": list(options.features),
    }
    lines += [f"{LOCAL_NOTE} {name}: {json.dumps(value)}" for name, value in head.items()]
    for key in keys:
        if key.status in (Status.DROPPED, Status.CHANGED):
            lines.append(f"{LOCAL_NOTE} {key.key}={json.dumps(key.value)}")
    return "\n".join(lines) + "\n"


def _quoted(override: str) -> str:
    """An argument for bash, in which the script's own variables stay variables."""
    if "$" not in override:
        return shlex.quote(override)
    escaped = override.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    escaped = re.sub(r"\$(?!(HERE|NNODES|GPUS)\b)", r"\\$", escaped)
    return f'"{escaped}"'


def _table(keys: Iterable[Key], target: Target) -> str:
    lines = [
        f"# The project's config in verl {target.release}",
        "",
        "| key | value | what became of it | there | why |",
        "|---|---|---|---|---|",
    ]
    for key in keys:
        there = ""
        if key.target is not None and (key.target != key.key or key.target_value != key.value or key.mark):
            there = f"`{key.mark}{key.target}={_short(key.target_value)}`"
        lines.append(f"| `{key.key}` | `{_short(key.value)}` | {key.status.value} | {there} | {key.reason} |")
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    return json.dumps(value).replace("|", "\\|")


def _requirements(target: Target, config: ProjectConfig) -> str:
    engine = config.flat.get("actor_rollout_ref.rollout.name")
    extra = "sglang" if engine == "sglang" else "vllm"
    return f"# verl's own extra names the releases of the engine that it works with.\nverl[{extra}]=={target.release}\n"


def _upstream(edits: Iterable[UpstreamEdit], target: Target) -> str:
    lines = [
        f"# Edits to vendored files, and where they belong in verl {target.release}",
        "",
        "| in the project | in verl | lines | in upstream.patch |",
        "|---|---|---|---|",
    ]
    for item in edits:
        fits = "yes" if item.applies else f"no: {item.why}"
        lines.append(f"| `{item.path}` | `{item.upstream_path}` | +{item.edit.added} -{item.edit.removed} | {fits} |")
    for item in edits:
        if not item.applies:
            text = item.edit.text.decode(errors="replace")
            lines += ["", f"## {item.path}", "", "```diff", text.rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"
