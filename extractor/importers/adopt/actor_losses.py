"""Find what a fork's actor computes around its policy loss, and make one loss of it."""

import ast
import builtins
import re
from collections.abc import Iterable, Sequence

from extractor.importers.adopt.find_methods import LOSS, ForkMethod
from extractor.importers.adopt.fork_code import ForkCode, ForkModule
from extractor.importers.adopt.forward_passes import (
    FORWARD,
    FORWARDED,
    GIVEN,
    ROWS,
    SLICER,
    ForwardPasses,
    list_leaves,
    normalize,
)
from extractor.importers.config.templates import render
from extractor.importers.python_text.backward import list_needed
from extractor.importers.python_text.segments import split
from extractor.importers.python_text.unset_branches import drop_unset_branches
from extractor.values.fingerprint import load_upstream_key_names

OWN_TERMS = "own_terms"  # a loss has entropy and KL terms of its own, where a project's actor adds upstream's
OF_LOGITS = "make_columns_of_the_actor"  # what makes columns of logits for a loss
_NAME = "compute_loss_of_the_actor"
_UPDATE, _BACKWARD, _FEW = "update_policy", ".backward(", 200  # a choice of that length is between two calls of it
_HANDED = ["old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "rollout_is_weights"]
_METRICS = ["pg_clipfrac", "ppo_kl", "pg_clipfrac_lower"]
# How actors read the rows of a pass.
_HOLDER = rf"\b(?:{'|'.join(sorted(ROWS))})(?:\.(?:non_tensor_batch|batch|meta_info))?"
_READ = re.compile(
    rf"(?m)^(?P<before>(?P<indent> *).*?)(?:'(?P<asked>\w+)' in {_HOLDER}(?:\.keys\(\))?(?![.\w])"
    rf"|{_HOLDER}(?:\['(?P<key>\w+)'\]|\.get\('(?P<got>\w+)'(?:, (?P<default>[\w.]+))?\)))"
)
_LOSS_CALL = re.compile(r"\b(compute_policy_loss\w*|policy_loss_fn)\(")
_LOSS_MODE = re.compile(r"self\.config\.policy_loss(\.get\('loss_mode'[^)]*\)|\.loss_mode\b)")
# By what a project's actor scales a loss, what it adds to it, and of what it makes that.
_SCALES = re.compile(r"gradient_accumulation|mini_batch_size|loss_scale_factor")
_TERMS = re.compile(r"entropy_coeff|kl_loss_coef")
_OF_TERMS = {"entropy_loss", "entropy_agg", "kl_loss", "kld", "entropy"}


def find_actor_loss(fork: ForkCode, upstream: Iterable[str], losses: Sequence[ForkMethod]) -> ForkMethod | None:
    """Return the loss that a fork's actor computes itself."""
    known = {normalize(leaf) for text in upstream for leaf in ast.walk(ast.parse(text)) if isinstance(leaf, ast.stmt)}
    for module in sorted(fork.mentions(f"def {_UPDATE}"), key=lambda item: not item.name.endswith(".dp_actor")):
        for segment in module.segments if module.name.startswith("verl.workers.actor.") else ():
            if isinstance(segment.node, ast.ClassDef) and (update := _find_update(segment.node)) is not None:
                actor = _ActorSlice(fork, segment.node, update, known)
                if actor.is_own:
                    return actor.make_method(fork, module, segment.key, losses)
    return None


def _find_update(actor: ast.ClassDef) -> str | None:
    """Return the method that updates an actor, or the one that it calls for a mini-batch."""
    texts = {item.name: ast.unparse(item) for item in actor.body if isinstance(item, ast.FunctionDef)}
    called = [name for name in texts if f"self.{name}(" in texts.get(_UPDATE, "") and _BACKWARD in texts[name]]
    return next((texts[name] for name in (_UPDATE, *called) if FORWARD.search(texts.get(name, ""))), None)


class _ActorSlice:
    """The statements of an actor's update that make its loss.

    Attributes:
        is_own: Whether upstream has not all of them.
    """

    def __init__(self, fork: ForkCode, actor: ast.ClassDef, update: str, known: set[str]) -> None:
        self._lacking, passes = list[str](), ForwardPasses(actor, known)
        body = ast.parse(drop_unset_branches(update, fork.is_set)).body[0].body  # type: ignore[attr-defined]
        before, after = self._open_loops(body)
        self._loss = self._find_loss(before, after)
        around = [node for node in before if not FORWARD.search(ast.unparse(node))]
        before = [item for node in before for item in passes.replace(node)]
        self._known = known | passes.known | {f"{self._loss}=pg_loss"}
        statements = [node for node in [*before, *after] if not self._is_handed(node)]
        leaves = list(list_leaves(statements))
        terms = [node for node in leaves if self._is_term(node)]
        terms += [node for node in leaves if SLICER.find_made([node])[0] & _OF_TERMS] if terms else []
        has_all = len({word for node in terms for word in _TERMS.findall(ast.unparse(node))}) > 1
        self._has_own_terms = not has_all or not all(map(self._is_known, terms))
        statements, changes, self._kept = self._drop_terms(statements), SLICER.find_made(statements)[0], set[str]()
        while True:  # what an actor keeps from pass to pass comes along
            self._asked = {self._loss, *self._kept}
            self._body = SLICER.run(statements, self._asked, ())
            is_asked = bool(passes.made.keys() & self._asked)
            self._of_logits, more = passes.slice(around) if is_asked else ([], set[str]())
            self._asked |= more - ROWS
            kept = {name for name in self._asked & changes if name.startswith("self.")}
            if kept <= self._kept:
                break
            self._kept |= kept
        begins = [item for item in actor.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
        asked = {name for name in self._asked if name.startswith("self.")} - {"self.config"}
        self._asked -= asked
        self._first = SLICER.run(begins[0].body if begins else [], asked, ())
        self._asked |= asked - self._kept - SLICER.find_made(self._first)[0] - {"config"}
        self._made, self._old = passes.made if is_asked else {}, passes.map_old_columns(fork)
        self.is_own = not self._body or not all(map(self._is_known, list_leaves(self._body)))
        self._lacking += [] if self._body else [f"its actor has no {self._loss}"]
        extra = {name.removeprefix(FORWARDED) for name in self._asked if name.startswith(FORWARDED)}
        text = "\n".join(map(ast.unparse, self._body))
        extra |= {key for name in passes.holders for key in re.findall(rf"\b{name}(?:\[|\.get\()'(\w+)'", text)}
        extra -= {"log_probs", "entropys", "entropy", "sum_pi_squared"}
        self._lacking += [f"its actor's forward pass has {', '.join(sorted(extra))}"] if extra else []

    def _open_loops(self, body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return the statements for one pass before its backward pass, and those from there on."""
        found: list[ast.stmt] = []
        for place, node in enumerate(body):
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            blocks = [block for block in blocks if any(_BACKWARD in ast.unparse(item) for item in block)]
            if blocks and len(ast.unparse(node)) > _FEW:
                self._lacking += ["its actor updates in several ways"] if len(blocks) > 1 else []
                before, after = self._open_loops(blocks[0])
                return [*found, *before], [*after, *body[place + 1 :]]
            if _BACKWARD in ast.unparse(node):
                return found, list(body[place:])
            found.append(node)
        return found, []

    def _find_loss(self, before: Sequence[ast.stmt], after: Sequence[ast.stmt]) -> str:
        """Return what the actor calls the loss that it scales as upstream does."""
        name = next(iter(re.findall(r"(\w+)\)?\.backward\(", ast.unparse(after[0]))), "") if after else ""
        leaves = [leaf for leaf in list_leaves(before) if isinstance(leaf, ast.Assign)]
        values = [leaf.value for leaf in leaves if ast.unparse(leaf.targets[0]) == name]
        scaled = [item for item in values if isinstance(item, ast.BinOp) and _SCALES.search(ast.unparse(item.right))]
        found = {ast.unparse(item.left) for item in scaled}
        if len(found) == 1 and len(scaled) == len(values) and next(iter(found)).isidentifier():
            return found.pop()
        self._lacking.append("its actor scales its loss in a way of its own")
        return name or "policy_loss"

    def _is_known(self, leaf: ast.stmt) -> bool:
        """Tell whether a statement is upstream's, a read or a loss."""
        plain = {"self.config", *ROWS, *dir(builtins), "get_policy_loss_fn", "loss_mode"}
        is_read = isinstance(leaf, ast.Assign) and list_needed(leaf.value) <= plain
        return is_read or _LOSS_CALL.search(ast.unparse(leaf)) is not None or normalize(leaf) in self._known

    def _is_handed(self, node: ast.stmt) -> bool:
        """Tell whether a statement makes only what a loss is handed, as upstream does."""
        made = SLICER.find_made([node])[0]
        is_plain = made <= ROWS or all(normalize(leaf) in self._known for leaf in list_leaves([node]))
        return bool(made) and made <= {*_HANDED, *ROWS, "entropy"} and is_plain

    def _is_term(self, node: ast.stmt) -> bool:
        return self._loss in SLICER.find_made([node])[0] and _TERMS.search(ast.unparse(node)) is not None

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
                found += ast.parse(f"{self._loss} = {left}").body if left != self._loss else []
        return found

    def make_method(self, fork: ForkCode, module: ForkModule, actor: str, losses: Sequence[ForkMethod]) -> ForkMethod:
        """Return the loss as a method, with what it lacks."""
        called = next((one for one in losses if one.registered and fork.list_scripts([("loss_mode", one.name)])), None)
        name, columns = called.name if called is not None else "vanilla", dict[str, str]()
        texts = ["\n".join(map(ast.unparse, nodes)) for nodes in (self._body, self._of_logits, self._first)]
        code = _name_columns(_LOSS_MODE.sub(repr(name), texts[0]), columns)
        imported, place = "", called.module if called is not None else fork.find("verl.trainer.ppo.core_algos")
        function = called.function if called is not None else "compute_policy_loss_vanilla"
        if place is not None and function in place.by_name and "get_policy_loss_fn(" in code:
            code = re.sub(r"get_policy_loss_fn\([^)]*\)", function, code)
            imported = f"from {place.name} import {function}\n"
        bound = {*_HANDED, *self._made, *GIVEN, *ROWS, *dir(builtins), *module.by_name, *module.imports}
        free = self._asked - bound - SLICER.find_made([*self._body, *self._of_logits])[0] - {"entropy", "self.config"}
        free |= ROWS & {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        free -= {item for item in free if item.startswith(FORWARDED)}
        self._lacking += [f"its actor has {', '.join(sorted(free))} around it"] if free else []
        names = {*re.findall(r"\bconfig\.(\w+)", text := "\n".join(texts))} - load_upstream_key_names() - {"get"}
        unset = sorted(one for one in names if f"'{one}'" not in text and not fork.is_set(one, in_code=False))
        self._lacking += [f"it reads settings that no config of yours has: {', '.join(unset)}"] if unset else []
        for column, where in columns.items():
            for key, own in self._old.items():
                columns[column] = where.replace(f'"{key}"', f'"{own}"')
        given = {**({"entropy": 'now["entropy"]'} if re.search(r"\bentropy\b", code) else {}), **columns}
        made = {column: value for column, value in self._made.items() if column in f"{code}{columns}"}
        given |= {column: f'now.get("{column}")' for column in made if re.search(rf"\b{column}\b", code)}
        found = "pg_metrics" if "pg_metrics" in code else ", ".join(_METRICS)
        texts = [text.replace("self.config", "config").replace("\n", "\n    ") for text in (code, *texts[1:])]
        parts = dict(zip(("code", "of_logits", "first"), texts, strict=True))
        parts |= {"name": _NAME, "makes": OF_LOGITS, "loss": self._loss, "found": found}
        text = render("fork_actor.py", taken=[*_HANDED, *given], made=made, **parts)
        whole = ForkModule(module.name, module.path, (*module.segments, *split(imported + text)))
        given |= {key: "" for key, has in ((OWN_TERMS, self._has_own_terms), (OF_LOGITS, made)) if has}
        places, lacking = ((module.name, actor),), "; ".join(self._lacking)
        return ForkMethod(LOSS, name, whole, _NAME, None, places, "What the actor computes.", False, given, lacking)


def _name_columns(code: str, columns: dict[str, str]) -> str:
    """Return code with names for a pass's columns; `columns` grows."""

    def name(found: re.Match[str]) -> str:
        column = re.sub("^ref_log_probs$", "ref_log_prob", found["asked"] or found["key"] or found["got"])
        line = found.string[found.start() :].partition("\n")[0]
        is_certain = found["key"] and not found["indent"] and " else " not in line
        default = f", {found['default']}" if found["default"] else ""
        where = f'now["{column}"]' if is_certain else f'now.get("{column}"{default})'
        columns[f"of_{column}"] = where if is_certain else columns.get(f"of_{column}", where)
        return f"{found['before']}of_{column}{' is not None' if found['asked'] else ''}"

    while (new := _READ.sub(name, code)) != code:
        code = new
    return code
