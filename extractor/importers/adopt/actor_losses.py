"""Find what a fork's actor computes around its policy loss, and make one loss of it."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from extractor.importers.adopt.find_methods import LOSS, ForkMethod
from extractor.importers.adopt.fork_code import ForkCode, ForkModule
from extractor.importers.config.templates import render
from extractor.importers.python_text.backward import BackwardSlicer, list_items, list_needed
from extractor.importers.python_text.segments import split
from extractor.importers.python_text.unset_branches import drop_unset_branches

OWN_TERMS = "own_terms"  # a loss has entropy and KL terms of its own, where a project's actor adds upstream's
_NAME, _LOSS = "compute_loss_of_the_actor", "policy_loss"
_UPDATE, _FORWARD = "update_policy", "self._forward_micro_batch("
_HANDED = ["old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "rollout_is_weights"]
_METRICS = ["pg_clipfrac", "ppo_kl", "pg_clipfrac_lower"]
_OUTPUTS = {"log_probs": "log_prob", "entropys": "entropy", "entropy": "entropy"}
# What actors call the rows of a pass, and how they read these.
_ROWS = {"data", "micro_batch", "model_inputs", "mini_batch"}
_HOLDER = rf"\b(?:{'|'.join(sorted(_ROWS))})(?:\.(?:non_tensor_batch|batch|meta_info))?"
_READ = re.compile(
    rf"(?m)^(?P<before>(?P<indent> *).*?)(?:'(?P<asked>\w+)' in {_HOLDER}(?:\.keys\(\))?(?![.\w])"
    rf"|{_HOLDER}(?:\['(?P<key>\w+)'\]|\.get\('(?P<got>\w+)'(?:, (?P<default>[\w.]+))?\)))"
)
_LOSS_CALL = re.compile(r"\b(compute_policy_loss\w*|policy_loss_fn)\(")
_LOSS_MODE = re.compile(r"self\.config\.policy_loss(\.get\('loss_mode'[^)]*\)|\.loss_mode\b)")
# What a project's actor adds to a loss itself, and of what it makes that.
_TERMS = re.compile(r"entropy_coeff|kl_loss_coef")
_OF_TERMS = {"entropy_loss", "entropy_agg", "kl_loss", "kld", "entropy"}
_SLICER = BackwardSlicer("", (), re.compile("(?!)"), lambda node: False, lambda node: node)


def find_actor_loss(fork: ForkCode, upstream: Iterable[str], losses: Sequence[ForkMethod]) -> ForkMethod | None:
    """Return the loss that a fork's actor computes itself."""
    known = {_normalize(leaf) for text in upstream for leaf in ast.walk(ast.parse(text)) if isinstance(leaf, ast.stmt)}
    for module in sorted(fork.mentions(f"def {_UPDATE}"), key=lambda item: not item.name.endswith(".dp_actor")):
        for segment in module.segments if module.name.startswith("verl.workers.actor.") else ():
            for update in getattr(segment.node, "body", ()) if isinstance(segment.node, ast.ClassDef) else ():
                if getattr(update, "name", "") == _UPDATE and _FORWARD in ast.unparse(update):
                    actor = _ActorSlice(drop_unset_branches(ast.unparse(update), fork.is_set), known)
                    if actor.is_own:
                        return actor.make_method(fork, module, segment.key, losses)
    return None


def _normalize(node: ast.AST) -> str:
    text = re.sub(rf"\b({'|'.join(_ROWS)})\b", "data", ast.unparse(node))
    return re.sub(r"\b(core_algos|verl_F|self\.config(?=\.loss_agg_mode))\.|\s", "", text)


def _list_leaves(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements without bodies."""
    for node in nodes:
        if isinstance(node, (ast.If, ast.With)):
            yield from _list_leaves([*node.body, *getattr(node, "orelse", [])])
        elif not isinstance(node, ast.Pass):
            yield node


class _ActorSlice:
    """The statements of an actor's update that make its loss.

    Attributes:
        is_own: Whether upstream has not all of them.
    """

    def __init__(self, text: str, known: set[str]) -> None:
        self._known, self._lacking = known | {"policy_loss=pg_loss"}, list[str]()
        before, forward, after = _find_pass(ast.parse(text).body[0].body)  # type: ignore[attr-defined]
        after = list(takewhile(lambda node: ".backward(" not in ast.unparse(node), after))
        given = self._open_outputs(forward, text)
        statements = [node for node in [*before, *given, *after] if not self._is_handed(node)]
        leaves = list(_list_leaves(statements))
        terms = [node for node in leaves if self._is_term(node)]
        terms += [node for node in leaves if _SLICER.find_made([node])[0] & _OF_TERMS] if terms else []
        self._has_own_terms = not all(map(self._is_known, terms))
        self._asked = {_LOSS}
        self._body = _SLICER.run(self._drop_terms(statements), self._asked, ())
        self.is_own = not self._body or not all(map(self._is_known, _list_leaves(self._body)))
        self._lacking += [] if self._body else [f"its actor has no {_LOSS}"]
        self._lacking += ["its actor has several forward passes"] if text.count(f"= {_FORWARD}") > 1 else []

    def _is_known(self, leaf: ast.stmt) -> bool:
        """Tell whether a statement is upstream's, a read or a loss."""
        plain = {"self.config", *_ROWS, *dir(builtins), "get_policy_loss_fn", "loss_mode"}
        is_read = isinstance(leaf, ast.Assign) and list_needed(leaf.value) <= plain
        return is_read or _LOSS_CALL.search(ast.unparse(leaf)) is not None or _normalize(leaf) in self._known

    def _is_handed(self, node: ast.stmt) -> bool:
        """Tell whether a statement makes only what a loss is handed, as upstream does."""
        made = _SLICER.find_made([node])[0]
        is_plain = made <= _ROWS or all(_normalize(leaf) in self._known for leaf in _list_leaves([node]))
        return bool(made) and made <= {*_HANDED, *_ROWS, "entropy"} and is_plain

    def _open_outputs(self, forward: ast.Assign | None, text: str) -> list[ast.stmt]:
        """Return statements that stand for a forward pass."""
        target = forward.targets[0] if forward is not None else ast.Tuple([])
        names = [ast.unparse(item) for item in list_items(target)]
        taken = {str(item.arg) for item in getattr(getattr(forward, "value", None), "keywords", [])}
        extra = names[2:] + sorted(taken - {"micro_batch", "temperature", "calculate_entropy"})
        lines = [f"{name} = {own}" for name, own in zip(names, ("entropy", "log_prob"), strict=False) if name != own]
        if not isinstance(target, ast.Tuple):
            lines = [f"{names[0]} = {{{', '.join(f'{key!r}: {value}' for key, value in _OUTPUTS.items())}}}"]
            extra += sorted({*re.findall(rf"\b{names[0]}(?:\[|\.get\()'(\w+)'", text)} - {*_OUTPUTS, "sum_pi_squared"})
        if extra and forward is not None and _normalize(forward) not in self._known:
            self._lacking.append(f"its actor's forward pass has {', '.join(extra)}")
        found = ast.parse("\n".join(lines)).body
        self._known |= {*map(_normalize, found)}
        return found

    def _is_term(self, node: ast.stmt) -> bool:
        return _LOSS in _SLICER.find_made([node])[0] and _TERMS.search(ast.unparse(node)) is not None

    def _drop_terms(self, nodes: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return statements without the terms that a project's actor adds itself."""
        found: list[ast.stmt] = []
        for node in nodes:
            if isinstance(node, ast.If):
                body, orelse = self._drop_terms(node.body), self._drop_terms(node.orelse)
                found.append(ast.If(node.test, body or [ast.Pass()], orelse))
            elif not self._is_term(node) or self._has_own_terms:
                found.append(node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                left = ast.unparse(node.value.left)
                found += ast.parse(f"{_LOSS} = {left}").body if left != _LOSS else []
        return found

    def make_method(self, fork: ForkCode, module: ForkModule, actor: str, losses: Sequence[ForkMethod]) -> ForkMethod:
        """Return the loss as a method, with what it lacks."""
        called = next((one for one in losses if one.registered and fork.list_scripts([("loss_mode", one.name)])), None)
        name, columns = called.name if called is not None else "vanilla", dict[str, str]()
        code = _LOSS_MODE.sub(repr(name), "\n".join(map(ast.unparse, self._body)))
        code = _name_columns(code, columns).replace("self.config", "config")
        imported, place = "", called.module if called is not None else fork.find("verl.trainer.ppo.core_algos")
        function = called.function if called is not None else "compute_policy_loss_vanilla"
        if place is not None and function in place.by_name and "get_policy_loss_fn(" in code:
            code = re.sub(r"get_policy_loss_fn\([^)]*\)", function, code)
            imported = f"from {place.name} import {function}\n"
        bound = {*_HANDED, "entropy", "self.config", *_ROWS, *dir(builtins), *module.by_name, *module.imports}
        free = self._asked - bound - _SLICER.find_made(self._body)[0]
        free |= _ROWS & {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        self._lacking += [f"its actor has {', '.join(sorted(free))} around it"] if free else []
        given = {**({"entropy": 'now["entropy"]'} if re.search(r"\bentropy\b", code) else {}), **columns}
        found = f"{_LOSS}, {'pg_metrics' if 'pg_metrics' in code else ', '.join(_METRICS)}"
        code = code.replace("\n", "\n    ")
        text = render("fork_actor.py", name=_NAME, taken=[*_HANDED, *given], code=code, found=found)
        made = ForkModule(module.name, module.path, (*module.segments, *split(imported + text)))
        given |= {OWN_TERMS: ""} if self._has_own_terms else {}
        places, lacking = ((module.name, actor),), "; ".join(self._lacking)
        return ForkMethod(LOSS, name, made, _NAME, None, places, "What the actor computes.", False, given, lacking)


def _name_columns(code: str, columns: dict[str, str]) -> str:
    """Return code with names for a pass's columns; `columns` grows."""

    def name(found: re.Match[str]) -> str:
        column = found["asked"] or found["key"] or found["got"]
        line = found.string[found.start() :].partition("\n")[0]
        is_certain = found["key"] and not found["indent"] and " else " not in line
        default = f", {found['default']}" if found["default"] else ""
        where = f'now["{column}"]' if is_certain else f'now.get("{column}"{default})'
        columns[f"of_{column}"] = where if is_certain else columns.get(f"of_{column}", where)
        return f"{found['before']}of_{column}{' is not None' if found['asked'] else ''}"

    while (new := _READ.sub(name, code)) != code:
        code = new
    return code


def _find_pass(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], ast.Assign | None, list[ast.stmt]]:
    """Return an actor's forward pass, between what surrounds it."""
    for place, node in enumerate(body):
        if _FORWARD in ast.unparse(node) and isinstance(node, ast.Assign):
            return list(body[:place]), node, list(body[place + 1 :])
        for inner in (getattr(node, name, []) for name in ("body", "orelse") if _FORWARD in ast.unparse(node)):
            before, forward, after = _find_pass(inner)
            if forward is not None:
                ends = any(".backward(" in ast.unparse(item) for item in after)
                return [*body[:place], *before], forward, after if ends else [*after, *body[place + 1 :]]
    return [], None, []
