"""What the code of a release that trains reads of its config, and which words it compares a setting with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from extractor.pipeline.source import Source
from extractor.values import readers

# Code that an export does not run: other engines than FSDP, other trainers, what is no training, and config classes,
# whose fields nobody need read.
_ELSEWHERE = re.compile(
    r"megatron|mcore|mindspeed|veomni|torchtitan|automodel|trtllm|tensorrt|nemo|bumblebee|/npu|_npu"
    r"|sft|main_eval|main_generation|model_merger|diagnos|/tests?/|recipe|/models/|/third_party/"
    r"|/experimental/(?!agent_loop|reward_loop)|fully_async|one_step_off|/config/|config\.py\Z"
)
# A section is handed over as `config` to code of its own, by path and class; elsewhere that is some other section.
_ANY = frozenset({"cfg", "conf", "config"})
_OF_ITS_OWN = {
    "actor": r"actor|core_algos|losses",
    "actor_rollout_ref": r"ActorRolloutRef",
    "algorithm": r"core_algos|trainer/ppo",
    "critic": r"critic|losses",
    "data": r"data",
    "ref": r"actor|losses",
    "reward": r"reward",
    "reward_model": r"reward",
    "rollout": r"rollout|agent_loop",
}
_ALSO = {"fsdp_config": "engine_config", "optim": "optimizer_config"}
# What is called after another role reads that role's settings.
_OF_OTHERS = {
    "actor_rollout_ref": re.compile(r"critic|reward", re.IGNORECASE),
    "critic": re.compile(r"actor|rollout|reward", re.IGNORECASE),
    "reward_model": re.compile(r"actor|rollout|critic", re.IGNORECASE),
}
_ARGUMENTS = "_kwargs"
_METHODS = frozenset({"get", "pop", "setdefault"})
_Words = frozenset[str]


def is_read(source: Source, key: str, known: int) -> bool:
    """Tell whether code of a release that trains reads a key, and each section of it.

    Args:
        source: The release.
        key: Dotted.
        known: How many of its parts are sections of the release's config, which need not be looked for.
    """
    parts = key.split(".")
    # Arguments of a function of one's own have names of one's own.
    end = next((at + 1 for at, part in enumerate(parts) if part.endswith(_ARGUMENTS)), len(parts))
    return all(_is_read(source, parts[: at + 1]) for at in range(max(known, 1), end))


@dataclass(frozen=True)
class _Read:
    """One place where a setting of some name is read.

    Attributes:
        owner: What it is read from: `optim` of `self.config.optim.betas`.
        where: The path of the file, and the class.
    """

    owner: str
    where: str

    def is_of(self, parts: Sequence[str]) -> bool:
        """Tell whether it is that of a key's section."""
        section, others = parts[-2], _OF_OTHERS.get(parts[0])
        if others is not None and others.search(self.where) and not re.search(parts[0], self.where, re.IGNORECASE):
            return False
        if self.owner in _ANY:
            return section in _OF_ITS_OWN and bool(re.search(_OF_ITS_OWN[section], self.where, re.IGNORECASE))
        stem, owner = section.removesuffix("_config"), self.owner.removesuffix("_config")
        return owner == stem or owner.endswith(f"_{stem}") or self.owner == _ALSO.get(section)


_CACHE: dict[tuple[str, str], frozenset[_Read]] = {}


def _is_read(source: Source, parts: Sequence[str]) -> bool:
    name = parts[-1]
    if (source.sha256, name) not in _CACHE:
        _CACHE[source.sha256, name] = frozenset(
            _Read(owner, f"{path} {role}")
            for path, tree in _modules(source, name)
            for role, node in _roles(tree)
            for owner in _with_aliases(_owners(node, name), node)
        )
    return any(item.is_of(parts) for item in _CACHE[source.sha256, name])


def _roles(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of a module, each with the name of the class that it is."""
    for node in tree.body:
        yield (node.name if isinstance(node, ast.ClassDef) else ""), node


def _modules(source: Source, word: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that train in which a word stands, by path."""
    for path, data in sorted(source.files.items()):
        if path.endswith(".py") and word.encode() in data and not _ELSEWHERE.search(path):
            yield path, _module(data)


@lru_cache(maxsize=512)
def _module(data: bytes) -> ast.Module:
    try:
        return readers.python(data)
    except SyntaxError:  # of a fork's tree
        return ast.Module([], [])


def _with_aliases(owners: Iterable[str], tree: ast.AST) -> Iterator[str]:
    """Yield names, and what variables of these names were set to: `settings = config.reward.get("function") or {}`."""
    found = set(owners)
    yield from found
    for node in ast.walk(tree) if found else ():
        if isinstance(node, ast.Assign) and any(_last(target) in found for target in node.targets):
            yield _last(node.value)


def _owners(tree: ast.AST, name: str) -> Iterator[str]:
    """Yield what a setting of this name is read from: `optim` of `self.config.optim.get("betas")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield from [_last(node.value)] if node.attr == name and isinstance(node.ctx, ast.Load) else ()
        elif isinstance(node, ast.Subscript):
            yield from [_last(node.value)] if _is(node.slice, name) else ()
        elif isinstance(node, ast.Call) and node.args:
            yield from _owners_of_call(node, name)
        elif isinstance(node, ast.Compare) and _is(node.left, name) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            yield _last(node.comparators[0])


def _owners_of_call(node: ast.Call, name: str) -> Iterator[str]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and _is(node.args[0], name):
        yield _last(node.func.value)
    elif len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str):
        function = _last(node.func)
        path = node.args[1].value.split(".")
        if function in ("getattr", "hasattr") and path == [name]:
            yield _last(node.args[0])
        elif function == "select" and name in path:
            at = path.index(name)
            yield path[at - 1] if at else _last(node.args[0])


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == name


def _last(node: ast.expr) -> str:
    """Return the last name of an expression: `optim` of `self.config.optim`, of `config.get("optim", {})`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else _last(node.value)
    if isinstance(node, ast.BoolOp):
        return _last(node.values[0])
    if isinstance(node, ast.Call):
        asked = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and node.args
        return str(node.args[0].value) if asked and isinstance(node.args[0], ast.Constant) else _last(node.func)
    return ""


def words(source: Source, names: Sequence[str], registers: Sequence[str] = ()) -> _Words:
    """Return the words that code of a release that trains compares variables with, or settings, of these names.

    Args:
        source: The release.
        names: Of variables and settings.
        registers: Decorators whose argument is such a word, and classes and lists whose members are.
    """
    found: set[str] = set()
    for path, data in sorted(source.files.items()):
        if not path.endswith(".py") or _ELSEWHERE.search(path):
            continue
        if any(name.encode() in data for name in (*names, *registers)):
            found.update(_words(_module(data), frozenset(names), frozenset(registers)))
    return frozenset(found)


def _words(tree: ast.Module, names: _Words, registers: _Words) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _last(node.left) in names:
            yield from _texts(*node.comparators)
        elif isinstance(node, ast.Call) and _last(node.func) in registers:
            yield from _texts(*node.args)
        elif isinstance(node, ast.Call) and _last(node.func) == "endswith" and isinstance(node.func, ast.Attribute):
            if _last(node.func.value) in names:  # kl_penalty.endswith("+")
                yield from _texts(*node.args)
        elif isinstance(node, ast.ClassDef) and node.name in registers:
            yield from _texts(*(item.value for item in node.body if isinstance(item, ast.Assign)))
        elif isinstance(node, ast.Assign) and any(_last(target) in registers for target in node.targets):
            yield from _texts(node.value)


def _texts(*nodes: ast.expr) -> Iterator[str]:
    for node in nodes:
        for item in ast.walk(node):
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.value
