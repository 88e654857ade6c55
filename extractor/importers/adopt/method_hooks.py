"""A fork's own advantage estimators and policy losses, as hooks of a project."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from extractor.importers.adopt.find_methods import ESTIMATOR, LOSS, Method, list_parameters
from extractor.importers.adopt.fork_code import Closure, ForkCode, ForkModule, prune
from extractor.importers.adopt.segments import split
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.runs.copied_code.code import required_by
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import readers
from extractor.values.modules import module_name

FILE = "custom/algorithms.py"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHOOSER = "def get_policy_loss_fn"
_REGISTER = {ESTIMATOR: "register_adv_est", LOSS: "register_policy_loss"}
_CHOSEN_BY = {ESTIMATOR: "algorithm.adv_estimator", LOSS: "actor_rollout_ref.actor.policy_loss.loss_mode"}
# What a project's trainer has put into the batch when advantages are computed.
_COLUMNS = frozenset(
    [
        "advantages",
        "attention_mask",
        "data_source",
        "entropys",
        "extra_info",
        "input_ids",
        "loss_mask",
        "old_log_probs",
        "position_ids",
        "prompts",
        "ref_log_prob",
        "response_mask",
        "responses",
        "returns",
        "reward_model",
        "rollout_log_probs",
        "token_level_rewards",
        "token_level_scores",
        "uid",
        "values",
    ]
)
# What a trainer's names are in a project: `now` is what the hook finds at hand.
_TRAINERS = {
    "self.config": "now.config",
    "self.global_steps": "now.step",
    "self.total_training_steps": "now.total_steps",
    "batch": "now.batch",
    "self.tokenizer": "now.tokenizer",
}
# The same of an actor, and of the function that calls registered estimators.
_OF_A_LOSS = ("old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode")
_ACTORS = {"self.config": "config", **{name: name for name in _OF_A_LOSS}}
_CALLERS = {"data": "now.batch", "config": "now.config.algorithm"}
# What every estimator is offered, and only upstream's own take.
_OF_OTHERS = ("reward_baselines",)
# The mask of a whole row, which trainers of turns had before 0.6.0.
_LOSS_MASK = """    mask, row = (now.batch.batch[name] for name in ("response_mask", "attention_mask"))
    now.batch.batch["loss_mask"] = torch.nn.functional.pad(mask, (row.shape[-1] - mask.shape[-1], 0))
"""
# What functions of estimators and losses are called with, by the name of the argument.
_ESTIMATORS_OWN = {
    "token_level_rewards": 'now.batch.batch["token_level_rewards"]',
    "response_mask": 'now.batch.batch["response_mask"]',
    "eos_mask": 'now.batch.batch["response_mask"]',
    "index": 'now.batch.non_tensor_batch["uid"]',
    "values": 'now.batch.batch["values"]',
    "gamma": "now.config.algorithm.gamma",
    "lam": "now.config.algorithm.lam",
    "config": "now.config.algorithm",
    "norm_adv_by_std_in_grpo": "now.config.algorithm.norm_adv_by_std_in_grpo",
    "num_repeat": "now.config.actor_rollout_ref.rollout.n",
}
_LOSSES_OWN = {
    **{name: name for name in (*_OF_A_LOSS, "config")},
    "eos_mask": "response_mask",
    "rollout_is_weights": "rollout_is_weights",
    "rollout_log_probs": "rollout_is_weights",
    "cliprange": "config.clip_ratio",
    "cliprange_low": "config.clip_ratio_low",
    "cliprange_high": "config.clip_ratio_high",
    "clip_ratio_c": 'config.get("clip_ratio_c", 3.0)',
}


@dataclass(frozen=True)
class Hook:
    """A method as a hook.

    Attributes:
        method: The method.
        name: What the project's config calls it.
        text: The file that has it.
        outside: Packages that it imports.
        needs: Columns of the batch that the project's trainer does not write.
        rows: Columns that the fork's data have.
        left: Arguments that stay at their default, since a project has not what the fork gives.
        functions: What of the fork it has, as module and name.
    """

    method: Method
    name: str
    text: str = field(repr=False)
    outside: frozenset[str]
    needs: tuple[str, ...]
    rows: tuple[str, ...]
    left: tuple[str, ...]
    functions: tuple[tuple[str, str], ...] = ()

    @property
    def setting(self) -> str:
        """Return the setting that chooses it."""
        return f"{_CHOSEN_BY[self.method.kind]}={self.name}"


def make_hook(fork: ForkCode, method: Method, files: Mapping[str, str], package: str) -> Hook:
    """Return a method as a hook, in the text of the project's file of algorithms.

    Args:
        fork: The fork.
        method: Of it.
        files: The project's Python files, by path.
        package: Its package.

    Raises:
        NoPlace: it needs what no project has.
    """
    path = f"{package}/{FILE}"
    before = files.get(path)
    if before is None:
        raise NoPlace(f"the project has no {path}")
    if "at_hand" not in files.get(f"{package}/hooks.py", ""):
        raise NoPlace("the project was made by an older vextract: `vextract sync` brings what the hook asks")
    segments = split(before)
    taken = frozenset(name for item in segments for name in item.binds)
    closure = Closure(fork, project_names(files, package), package, taken)
    if method.kind == LOSS and not chooses_losses(files.values()):
        raise NoPlace("this release of verl has one policy loss, which no setting replaces: upgrade the project first")
    known = _names_registered(files, package)
    name = method.name if method.name not in known else f"{method.name}_fork"
    if name in known:
        raise NoPlace(f"the project has a {method.kind} {name} already")
    left: list[str] = []
    make = _estimator if method.kind == ESTIMATOR else _loss
    body = make(fork, method, closure, left)
    code = "\n\n\n".join([*(text.strip("\n") for text in closure.texts.values()), *body.pieces])
    columns = sorted(set().union(*columns_of(code)))
    rows = tuple(name for name in columns if _is_of_data(fork, name, code))
    needs = tuple(name for name in columns if name not in rows)
    decorator = _REGISTER[method.kind]
    wanted = {**closure.imports, "at_hand": f"from {package}.hooks import at_hand"}
    if method.kind == LOSS:
        del wanted["at_hand"]
    lines = [line for local, line in sorted(wanted.items(), key=lambda item: item[1]) if local not in taken]
    if decorator not in taken:
        raise NoPlace(f"{path} does not import {decorator}")
    said = f"Compute {name} as {method.module.path} of the fork does."
    asks = (
        f"\n\n    The batch has to have {', '.join(needs)}: what a reward reports, or a column of the data.\n    "
        if needs
        else ""
    )
    hook = f'@{decorator}("{name}")\n{body.head}\n    """{said}{asks}"""\n{body.tail}'
    text = _with_imports(before, lines) + f"\n\n{code}\n\n\n{hook}\n"
    readers.python(text)
    return Hook(method, name, text, frozenset(closure.outside), needs, rows, tuple(left), tuple(closure.texts))


def arguments_of(fork: ForkCode, method: Method) -> tuple[list[str], str]:
    """Return what a method is called with, in a hook's words, and the fork's text of it.

    Raises:
        NoPlace: it is called with what no project has.
    """
    node = readers.python(method.module.by_name[method.function].core).body[0]
    assert isinstance(node, _FUNCTIONS)
    code = "\n".join(
        module.by_name[name].core
        for where, name in ((method.module.name, method.function), *method.functions)
        if (module := fork.find(where)) is not None
    )
    if method.branch is not None:
        text = "\n".join(ast.unparse(item) for item in method.branch[0])
        return _arguments_of_call(fork, method, node, []), code.replace(
            method.module.by_name[method.function].core, text
        )
    return _arguments_by_name(fork, method, node, []), code


def columns_of(code: str) -> tuple[set[str], set[str]]:
    """Return the columns that code reads and no project's trainer writes: tensors, and arrays of anything."""
    code = ast.unparse(readers.python(code))
    arrays = set(re.findall(r"""non_tensor_batch(?:\[|\.get\()\s*["'](\w+)["']""", code))
    own = _columns(code) - _COLUMNS - _written(code)
    return own - arrays, own & arrays


def _is_of_data(fork: ForkCode, name: str, code: str) -> bool:
    """Tell whether a column is one of the fork's rows: an array that its datasets alone write, if anything does."""
    if name not in columns_of(code)[1]:
        return False
    written = re.compile(
        rf"""\[["']{name}["']\](?:\s*=[^=]|\.append\()|non_tensor\w*=\{{[^}}]*["']{name}["']""".encode()
    )
    return not any(written.search(data) for where, data in fork.texts("verl.") if ".dataset." not in where)


def _written(code: str) -> frozenset[str]:
    """Return the columns that code writes itself."""
    return frozenset(re.findall(r"""batch\[["'](\w+)["']\] = """, code))


@dataclass(frozen=True)
class _Body:
    """A hook in parts: functions before it, its first line, and its statements."""

    pieces: list[str]
    head: str
    tail: str


def _estimator(fork: ForkCode, method: Method, closure: Closure, left: list[str]) -> _Body:
    """Return the estimator's hook: it calls the fork's function with what the project has at hand."""
    slug = re.sub(r"\W", "_", method.name)
    node = method.module.by_name[method.function].node
    assert isinstance(node, _FUNCTIONS)
    head = f"def advantages_of_{slug}(**given):"
    if method.branch is None:
        name = closure.add(method.module, method.function)
        arguments = _arguments_by_name(fork, method, node, left)
        text = f"    now = at_hand.get()\n    return {name}({', '.join(arguments)})"
        return _Body([], head, _with_loss_mask(text, closure.texts.values()))
    body, chain = method.branch
    text = prune(method.module.by_name[method.function].core, f"_{slug}", f"of {method.name}", body, chain)
    piece = closure.rewrite(method.module, text).strip("\n")
    arguments = _arguments_of_call(fork, method, node, left)
    call = ",\n        ".join(["now.batch", *arguments])
    tail = f"    now = at_hand.get()\n    data = _{slug}(\n        {call},\n    )\n"
    if any(isinstance(part.value, ast.Tuple) for part in ast.walk(node) if isinstance(part, ast.Return)):
        tail += "    data = data[0]  # the fork returns more, for its own metrics\n"
    tail += '    return data.batch["advantages"], data.batch["returns"]'
    return _Body([piece], head, _with_loss_mask(tail, [piece, *closure.texts.values()]))


def _with_loss_mask(text: str, pieces: Iterable[str]) -> str:
    """Return a hook's statements with the mask of whole rows put into the batch, where its code reads that."""
    if not any("loss_mask" in _columns(piece) for piece in (dedent(text), *pieces)):
        return text
    return text.replace("    now = at_hand.get()\n", f"    now = at_hand.get()\n{_LOSS_MASK}", 1)


def _loss(fork: ForkCode, method: Method, closure: Closure, left: list[str]) -> _Body:
    """Return the loss's hook: it calls the fork's function, and returns what the project's actor takes."""
    node = method.module.by_name[method.function].node
    assert isinstance(node, _FUNCTIONS)
    arguments = _arguments_by_name(fork, method, node, left)
    name = closure.add(method.module, method.function)
    slug = re.sub(r"\W", "_", method.name)
    head = (
        f'def loss_of_{slug}(\n    old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean",'
        " config=None, rollout_is_weights=None\n):"
    )
    tail = (
        f"    found = {name}({', '.join(arguments)})\n"
        "    loss, *rest = found if isinstance(found, tuple) else (found,)\n"
        "    if rest and isinstance(rest[0], dict):\n        metrics = rest[0]\n    else:\n"
        '        names = ("actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower")\n'
        "        metrics = {name: value.detach().item() for name, value in zip(names, rest)}\n"
        "    if RETURNS_METRICS:\n        return loss, metrics\n"
        "    return loss, *(torch.tensor(value) for value in [*metrics.values(), 0.0, 0.0, 0.0][:3])"
    )
    return _Body([], head, tail)


def _arguments_by_name(
    fork: ForkCode, method: Method, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return the arguments that a function is called with, each by its name.

    Raises:
        NoPlace: it has to be given something that nobody has.
    """
    known = _ESTIMATORS_OWN if method.kind == ESTIMATOR else _LOSSES_OWN
    found, needed, given = [], set(required_by(node)), find_given(fork, method)
    for item in list_parameters(node):
        text = known.get(item.arg) or given.get(item.arg)
        if text is not None:
            found.append(f"{item.arg}={text}")
        elif item.arg in needed and method.kind == ESTIMATOR:
            found.append(f'{item.arg}=now.column("{item.arg}")')
        elif item.arg in needed:
            raise NoPlace(f"a policy loss is not given {item.arg}, which {node.name} needs")
        elif item.arg in given:
            left.append(item.arg)
    return found


def find_given(fork: ForkCode, method: Method) -> dict[str, str | None]:
    """Return what a fork gives a method besides what a project does: by argument, in a hook's words or None."""
    node = method.module.by_name[method.function].node
    if method.branch is not None or not isinstance(node, _FUNCTIONS):
        return {}
    known, words = (_ESTIMATORS_OWN, _CALLERS) if method.kind == ESTIMATOR else (_LOSSES_OWN, _ACTORS)
    names = [item.arg for item in list_parameters(node)]
    found: dict[str, str | None] = {}
    for name, value, around in _handed(fork, method, names):
        if name in names and name not in known and name not in (*found, *_OF_OTHERS):
            is_default = isinstance(value, ast.Constant) and value.value is None
            found |= {} if is_default else {name: _in_words_of_hook(value, around, words)}
    return found


def _handed(fork: ForkCode, method: Method, names: list[str]) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield what a fork hands to a function by name or place, each with the function that does."""
    callers = {method.function} | ({"policy_loss_fn"} if method.kind == LOSS and method.registered else set())
    for module in {item.name: item for word in callers for item in fork.mentions(f"{word}(")}.values():
        for call, around in _calls(module, callers):
            yield from ((name, value, around) for name, value in zip(names, call.args, strict=False))
            yield from ((item.arg, item.value, around) for item in call.keywords if item.arg)
    for module in fork.mentions("adv_kwargs[") if method.kind == ESTIMATOR else ():
        for caller in (item.node for item in module.segments if "compute_advantage" in item.binds and item.node):
            for part in ast.walk(caller):
                target = part.targets[0] if isinstance(part, ast.Assign) else None
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    assert isinstance(part, ast.Assign)
                    yield str(target.slice.value), part.value, caller


def _calls(module: ForkModule, names: Collection[str]) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield the calls of functions of some names in a module, each with the function that it is in."""
    for segment in module.segments:
        for around in ast.walk(segment.node) if segment.node is not None else ():
            if isinstance(around, _FUNCTIONS):
                for part in ast.walk(around):
                    if isinstance(part, ast.Call) and (attribute_chain(part.func) or ("",))[-1] in names:
                        yield part, around


def _arguments_of_call(
    fork: ForkCode, method: Method, node: ast.FunctionDef | ast.AsyncFunctionDef, left: list[str]
) -> list[str]:
    """Return how compute_advantage is called by the fork's trainer, in the words of a hook.

    Raises:
        NoPlace: it is called with something that a project has not.
    """
    names = [item.arg for item in list_parameters(node)]
    call, trainer = _call_of(fork, method)
    given = dict(zip(names, call.args, strict=False)) | {item.arg: item.value for item in call.keywords if item.arg}
    needed = set(required_by(node))
    used = {
        part.id for body in (method.branch or ([], None))[0] for part in ast.walk(body) if isinstance(part, ast.Name)
    }
    used |= {
        part.id
        for item in node.body
        if not isinstance(item, ast.If) or item is not (method.branch or (0, 0))[1]
        for part in ast.walk(item)
        if isinstance(part, ast.Name)
    }
    found = []
    for place, name in enumerate(names[1:]):
        if place == 0:
            found.append(f'{name}="{method.name}"')
        elif name in given and (name in used or name in needed):
            text = _in_words_of_hook(given[name], trainer, _TRAINERS)
            if text is not None:
                found.append(f"{name}={text}")
            elif name in needed and name in used:
                raise NoPlace(f"its trainer gives it {name}={ast.unparse(given[name])}, which no project has")
            elif name in needed:
                found.append(f"{name}=None")
            else:
                left.append(name)
        elif name in needed:
            found.append(f"{name}={_ESTIMATORS_OWN.get(name, 'None')}")
    return found


def _call_of(fork: ForkCode, method: Method) -> tuple[ast.Call, ast.AST]:
    """Return the call of compute_advantage with most arguments, and the function that it is in."""
    for module in (method.module, *fork.mentions("compute_advantage(")):
        calls = list(_calls(module, (method.function,)))
        if calls:
            return max(calls, key=lambda item: len(item[0].args) + len(item[0].keywords))
    return ast.Call(ast.Name(method.function), [], []), ast.Module([], [])


def _in_words_of_hook(value: ast.expr, trainer: ast.AST, words: Mapping[str, str], depth: int = 0) -> str | None:
    """Return an expression of a trainer's as a hook can say it; None where it cannot."""
    text = ast.unparse(value)
    for own, ours in words.items():
        text = re.sub(rf"(?<![\w.]){re.escape(own)}\b", ours, text)
    known = {"True", "int", "float", "bool", *(ours.partition(".")[0] for ours in words.values())}
    free = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} - known
    for name in sorted(free):
        values = [
            item.value
            for item in ast.walk(trainer)
            if isinstance(item, ast.Assign) and len(item.targets) == 1 and ast.unparse(item.targets[0]) == name
        ]
        inner = _in_words_of_hook(values[0], trainer, words, depth + 1) if len(values) == 1 and depth < 4 else None
        if inner is None:
            return None
        text = f"({inner})".join(re.split(rf"(?<![\w.]){name}\b(?!=)", text))
    return text


def project_names(files: Mapping[str, str], package: str) -> dict[str, str]:
    """Return a mapping, name -> the module of the package that defines it, of what is vendored."""
    found: dict[str, str] = {}
    for path, text in files.items():
        if path.startswith(f"{package}/vendored/") and path.endswith(".py"):
            for item in split(text):
                if not item.is_import:
                    found.update(dict.fromkeys(item.binds, module_name(path.removeprefix(f"{package}/"))))
    return found


def _names_registered(files: Mapping[str, str], package: str) -> set[str]:
    """Return the names of estimators and losses that a project has."""
    text = "\n".join(
        text for path, text in files.items() if path.startswith((f"{package}/vendored/alg", f"{package}/cus"))
    )
    found = set(re.findall(r"""register_(?:adv_est|policy_loss)\(\s*["'](\w+)["']""", text))
    enum = re.search(r"class AdvantageEstimator\b.*?(?=^\S)", text, re.DOTALL | re.MULTILINE)
    return found | set(re.findall(r"""= ["'](\w+)["']""", enum[0] if enum else "")) | {"vanilla"}


def chooses_losses(texts: Iterable[str]) -> bool:
    """Tell whether code of verl's has policy losses that a setting chooses among."""
    return any(_CHOOSER in text for text in texts)


def _columns(code: str) -> set[str]:
    """Return the columns of the batch that code reads; comments do not count."""
    code = ast.unparse(readers.python(code))
    names = re.findall(r"""batch(?:\[|\.get\(|\.pop\()\s*["'](\w+)["']|column\("(\w+)"\)""", code)
    return {one or other for one, other in names}


def _with_imports(text: str, lines: list[str]) -> str:
    """Put imports behind those that a file has at its top."""
    segments = split(text)
    last = max((number for number, item in enumerate(segments) if item.is_import), default=0)
    new = "".join(f"{line}\n" for line in lines)
    return (
        "".join(item.lead + item.core + (new if number == last else "") for number, item in enumerate(segments)).rstrip(
            "\n"
        )
        + "\n"
    )
