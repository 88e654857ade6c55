"""Turn a fork's advantage estimators and policy losses into hooks."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent

from extractor.importers.adopt.actor_losses import OF_LOGITS, OWN_TERMS
from extractor.importers.adopt.find_methods import ESTIMATOR, LOSS, ForkMethod, list_arguments, list_branch_arguments
from extractor.importers.adopt.fork_code import Closure, ForkCode, prune
from extractor.importers.adopt.loop_slices import list_notes, slice_loop
from extractor.importers.adopt.target_project import NoPlace
from extractor.importers.config.templates import read_table
from extractor.importers.python_text.segments import split
from extractor.pipeline.rewrite.add_imports import add_imports
from extractor.values import readers
from extractor.values.modules import name_module

FILE = "custom/algorithms.py"
STEP_HOOKS = "step_hooks"  # the feature by which hooks have the batch at hand, or come before a phase of the step
COLUMNS = "loss_columns"  # the feature, and its module, by which a loss reads columns of the batch and the entropy
_ARRAYS = frozenset({"data_source", "extra_info", "reward_model"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WRITTEN = re.compile(r"""batch\[["'](\w+)["']\] = """)
# What the functions made of a loop keep in the batch while they run, and where a project's reward code is.
_OF_THE_HOOK = frozenset({"scores_before", "rewards_before"})
_REWARDS = re.compile(r"/custom/(verl_|from_run/)|/vendored/workers/reward_manager/")
_CHOOSER = "def get_policy_loss_fn"
# Whether the project's release of verl takes the loss and a dictionary of metrics; before, the loss and three numbers.
_RETURNS_METRICS = "RETURNS_METRICS"
_DEFINITION = f'{_RETURNS_METRICS} = "dict" in str(signature(get_policy_loss_fn("clip_cov")).return_annotation)\n'
REGISTER = {ESTIMATOR: "register_adv_est", LOSS: "register_policy_loss"}
_CHOSEN_BY = {ESTIMATOR: "algorithm.adv_estimator", LOSS: "actor_rollout_ref.actor.policy_loss.loss_mode"}
# The mask of a whole row, which trainers of turns had before 0.6.0.
_LOSS_MASK = """    mask, row = (now.batch.batch[name] for name in ("response_mask", "attention_mask"))
    now.batch.batch["loss_mask"] = torch.nn.functional.pad(mask, (row.shape[-1] - mask.shape[-1], 0))
"""


@dataclass(frozen=True)
class Hook:
    """A hook made of a fork's method.

    Attributes:
        method: The method.
        name: What the project's config calls it.
        text: The file that has it.
        outside: Packages that it imports.
        needs: Columns of the batch that the project's trainer does not write.
        rows: What it reads of the fork's data, and of what its copied rewards report.
        left: Arguments that stay at their default, since a project has not what the fork gives.
        functions: What of the fork it has, as module and name.
        features: Features of the project that it needs.
    """

    method: ForkMethod
    name: str
    text: str = field(repr=False)
    outside: frozenset[str]
    needs: tuple[str, ...]
    rows: tuple[str, ...]
    left: tuple[str, ...]
    functions: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """Return the setting that chooses it."""
        return f"{_CHOSEN_BY[self.method.kind]}={self.name}"


def make_hook(fork: ForkCode, method: ForkMethod, files: Mapping[str, str], package: str) -> Hook:
    """Return a method as a hook in the project's algorithms file."""
    if method.lacking:
        raise NoPlace(method.lacking)
    path = f"{package}/{FILE}"
    before = files.get(path)
    if before is None:
        raise NoPlace(f"the project has no {path}")
    taken = frozenset(name for item in split(before) for name in item.binds)
    closure = Closure(fork, map_project_names(files, package), package, taken)
    if method.kind == LOSS and not has_loss_choice(files.values()):
        raise NoPlace("this release of verl has one policy loss, which no setting replaces: upgrade the project first")
    known = _list_registered_names(files, package, method.kind)
    name = method.name if method.name not in known else f"{method.name}_fork"
    if name in known:
        raise NoPlace(f"the project has a {method.kind} {name} already")
    left: list[str] = []
    make = _make_estimator if method.kind == ESTIMATOR else _make_loss
    body = make(fork, method, closure, left)
    if OF_LOGITS in (method.given or ()):
        body.pieces.append(f"of_logits({closure.add(method.module, OF_LOGITS)})")
        closure.imports["of_logits"] = f"from {package}.workers.{COLUMNS} import of_logits"
    code = "\n\n\n".join([*(text.strip("\n") for text in closure.texts.values()), *body.pieces])
    whole = f"{code}\n\n\n{body.head}\n{body.tail}"
    asked, given = _find_unwritten(fork, whole, files, before)
    asked |= list_notes(fork) & set(re.findall(r"""meta_info(?:\[|\.get\()\s*["'](\w+)["']""", whole))
    asked = {name for name in asked if not name.endswith("_of_logits")}
    pieces, made = _take_loop(fork, method, closure, asked, body.tail, name)
    needs = tuple(sorted(asked - made | _list_unreturned("\n".join([*pieces, *closure.texts.values()]), files)))
    if pieces:
        code = "\n\n\n".join([*(text.strip("\n") for text in closure.texts.values()), *body.pieces, *pieces])
    decorator, wanted, of_pass = REGISTER[method.kind], dict(closure.imports), frozenset[str]()
    if method.kind == ESTIMATOR:
        wanted["at_hand"] = f"from {package}.hooks import at_hand"
    else:
        if _RETURNS_METRICS not in taken:
            wanted["signature"] = "from inspect import signature"
            wanted["get_policy_loss_fn"] = f"from {package}.registries import get_policy_loss_fn"
            code = f"{_DEFINITION}\n\n{code}"
        if OWN_TERMS in (method.given or ()):
            wanted["added_by_actor"] = f"from {package}.workers.{COLUMNS} import added_by_actor"
        if of_pass := frozenset(re.findall(r"""\bnow(?:\[|\.get\()["'](\w+)["']""", body.tail)):
            wanted["of_pass"] = f"from {package}.workers.{COLUMNS} import of_pass"
        if arrays := sorted(_ARRAYS & of_pass):
            raise NoPlace(f"its loss reads {', '.join(arrays)}, and an actor hands tensors alone")
    wanted[decorator] = f"from {package}.registries import {decorator}"
    asks = (
        f"\n\n    The batch has to have {', '.join(needs)}: what a reward reports, or a column of the data.\n    "
        if needs
        else ""
    )
    said = f"Compute {name} as {method.module.path} of the fork does.{asks}"
    hook = f'@{decorator}("{name}")\n{body.head}\n    """{said}"""\n{body.tail}'
    text = _extend(before, wanted, taken, [code, hook])
    sees_pass = bool(of_pass) or "added_by_actor" in wanted
    features = [*([COLUMNS] if sees_pass else []), *([STEP_HOOKS] if "at_hand" in wanted or of_pass or pieces else [])]
    outside, functions = frozenset(closure.outside), tuple(closure.texts)
    rows = tuple(f"{', '.join(names)} of your {origin}" for origin, names in given.items() if names)
    return Hook(method, name, text, outside, needs, rows, tuple(left), functions, tuple(features))


def _extend(before: str, imports: Mapping[str, str], taken: frozenset[str], pieces: Sequence[str]) -> str:
    """Return the algorithms file with more code and its imports."""
    lines = [line for local, line in sorted(imports.items(), key=lambda item: item[1]) if local not in taken]
    text = "\n\n\n".join([add_imports(before, lines).rstrip("\n"), *pieces]) + "\n"
    readers.parse_python(text)
    return text


def write_loop(
    fork: ForkCode,
    columns: set[str],
    files: Mapping[str, str],
    package: str,
    hooks: Sequence[Hook],
    *,
    chooses_rows: bool,
) -> tuple[str, list[str]] | None:
    """Return the algorithms file with what the fork's loop writes to the batch, and what that reads and nothing writes.

    None: that cannot come along. With `chooses_rows` it is what takes rows out of the batch as well.
    """
    before = files[f"{package}/{FILE}"]
    taken = frozenset(name for item in split(before) for name in item.binds)
    closure = Closure(fork, map_project_names(files, package), package, taken)
    loop = slice_loop(fork, columns, (), chooses_rows=chooses_rows)
    if loop is not None:  # and what that reads
        read = set().union(*find_columns("\n".join(map(ast.unparse, [*loop.before, *loop.after]))))
        loop = slice_loop(fork, columns | read, (), chooses_rows=chooses_rows) or loop
    renamed = {hook.name: hook.method.name for hook in hooks if hook.name != hook.method.name}
    try:
        pieces = [] if loop is None else loop.write(closure, "", renamed, "edits")
    except NoPlace:
        return None
    texts = [text.strip("\n") for text in closure.texts.values()]
    if not pieces:
        return None
    code = "\n".join([*pieces, *texts])
    needs = _find_unwritten(fork, code, files, before)[0] - _OF_THE_HOOK | _list_unreturned(code, files)
    return _extend(before, closure.imports, taken, [*texts, *pieces]), sorted(needs)


def _take_loop(
    fork: ForkCode, method: ForkMethod, closure: Closure, columns: set[str], tail: str, name: str
) -> tuple[list[str], set[str]]:
    """Return functions that do what the fork's loop does for a hook, and the columns that they write."""
    kept = set(re.findall(r"now\.kept\.(\w+)", tail))
    only = name if method.kind == ESTIMATOR else ""
    for wanted in (columns, set()):
        loop = slice_loop(fork, wanted, kept, method.module) if wanted or kept else None
        try:
            if loop is not None:
                slug = re.sub(r"\W", "_", f"{method.kind.split()[-1]}_{method.name}")
                renamed = {name: method.name} if only not in ("", method.name) else {}
                return loop.write(closure, only, renamed, slug), set(loop.columns)
        except NoPlace:
            if kept and not wanted:
                raise
    return [], set()


def find_arguments(fork: ForkCode, method: ForkMethod) -> tuple[list[str], str]:
    """Return a method's hook arguments and the fork's code of it."""
    node = readers.parse_python(method.module.by_name[method.function].core).body[0]
    assert isinstance(node, _FUNCTIONS)
    code = "\n".join(
        module.by_name[name].core
        for where, name in ((method.module.name, method.function), *method.functions)
        if (module := fork.find(where)) is not None
    )
    if method.branch is not None:
        text = "\n".join(ast.unparse(item) for item in method.branch[0])
        return list_branch_arguments(fork, method, node, []), code.replace(
            method.module.by_name[method.function].core, text
        )
    return list_arguments(fork, method, node, []), code


def find_columns(code: str) -> tuple[set[str], set[str]]:
    """Return columns code reads and no trainer writes: tensors, then arrays."""
    code = ast.unparse(readers.parse_python(code))
    arrays = set(re.findall(r"""non_tensor_batch(?:\[|\.get\()\s*["'](\w+)["']""", code))
    written = _WRITTEN.findall(code)
    own = _list_columns(code).difference(read_table("adopt")["columns"], written)
    return own - arrays, own & arrays


def _find_unwritten(
    fork: ForkCode, code: str, files: Mapping[str, str], before: str
) -> tuple[set[str], dict[str, list[str]]]:
    """Return the columns that code reads and nothing writes, and those of the data and of the reward.

    Args:
        before: The text of other hooks.
    """
    columns = sorted(set().union(*find_columns(code)))
    given = {"data": [name for name in columns if _is_of_data(fork, name, code)]}
    given["reward"] = [name for name in columns if _is_reported(name, files)]
    return set(columns).difference(*given.values(), _list_written(before)), given


def _list_written(text: str) -> list[str]:
    """Return the columns that other hooks write, whichever estimator is chosen."""
    pieces = text.split("\n\n\n")
    return _WRITTEN.findall("\n".join(piece for piece in pieces if "algorithm.adv_estimator != " not in piece))


def _is_of_data(fork: ForkCode, name: str, code: str) -> bool:
    """Tell whether nothing but the fork's datasets writes an array column."""
    if name not in find_columns(code)[1]:
        return False
    written = re.compile(
        rf"""\[["']{name}["']\](?:\s*=[^=]|\.append\()|non_tensor\w*=\{{[^}}]*["']{name}["']""".encode()
    )
    return not any(written.search(data) for where, data in fork.texts("verl.") if ".dataset." not in where)


def _is_reported(name: str, files: Mapping[str, str]) -> bool:
    """Tell whether reward code that was copied reports a column with its scores."""
    writes = re.compile(rf"""(?:extra|info)\w*\[["']{name}["']\](?:\s*=[^=]|\.append\()""")
    return any(writes.search(text) for path, text in files.items() if _REWARDS.search(path))


def _list_unreturned(code: str, files: Mapping[str, str]) -> set[str]:
    """Return what code takes out of a reward manager's result and no reward code returns."""
    taken = set(re.findall(r"""\breward_(?:result|dict|output)\w*(?:\[|\.get\()["'](\w+)["']""", code))
    texts = [text for path, text in files.items() if _REWARDS.search(path)]
    known = {"reward_tensor", "reward_extra_info"}
    return {name for name in taken - known if not any(re.search(f"""["']{name}["']""", text) for text in texts)}


@dataclass(frozen=True)
class _Body:
    """A hook's parts: helper functions, first line and statements."""

    pieces: list[str]
    head: str
    tail: str


def _make_estimator(fork: ForkCode, method: ForkMethod, closure: Closure, left: list[str]) -> _Body:
    """Return the hook that calls the fork's estimator."""
    slug = re.sub(r"\W", "_", method.name)
    node = method.module.by_name[method.function].node
    assert isinstance(node, _FUNCTIONS)
    head = f"def advantages_of_{slug}(**given):"
    if method.branch is None:
        name = closure.add(method.module, method.function)
        arguments = list_arguments(fork, method, node, left)
        text = f"    now = at_hand.get()\n    return {_write_call(name, arguments)}"
        return _Body([], head, _add_loss_mask(text, closure.texts.values()))
    body, chain = method.branch
    text = prune(method.module.by_name[method.function].core, f"_{slug}", body, chain)
    piece = closure.rewrite(method.module, text).strip("\n")
    arguments = list_branch_arguments(fork, method, node, left)
    tail = f"    now = at_hand.get()\n    data = {_write_call(f'_{slug}', ['now.batch', *arguments])}\n"
    if any(isinstance(part.value, ast.Tuple) for part in ast.walk(node) if isinstance(part, ast.Return)):
        tail += "    data = data[0]  # the fork returns more, for its own metrics\n"
    tail += '    return data.batch["advantages"], data.batch["returns"]'
    return _Body([piece], head, _add_loss_mask(tail, [piece, *closure.texts.values()]))


def _write_call(name: str, arguments: Sequence[str]) -> str:
    """Return a hook's call with one argument per line."""
    return "".join([f"{name}(\n", *(f"        {item},\n" for item in arguments), "    )"])


def _add_loss_mask(text: str, pieces: Iterable[str]) -> str:
    """Return a hook's text, setting loss_mask if its code reads it."""
    if not any("loss_mask" in _list_columns(piece) for piece in (dedent(text), *pieces)):
        return text
    return text.replace("    now = at_hand.get()\n", f"    now = at_hand.get()\n{_LOSS_MASK}", 1)


def _make_loss(fork: ForkCode, method: ForkMethod, closure: Closure, left: list[str]) -> _Body:
    """Return the hook that calls the fork's policy loss."""
    node = method.module.by_name[method.function].node
    assert isinstance(node, _FUNCTIONS)
    if not re.search(r"mask|\*\*", ast.unparse(node.args)):
        raise NoPlace("it returns a loss per token, and your actor makes one number of it")
    arguments = list_arguments(fork, method, node, left)
    name = closure.add(method.module, method.function)
    slug = re.sub(r"\W", "_", method.name)
    head = (
        f'def loss_of_{slug}(\n    old_log_prob, log_prob, advantages, response_mask, loss_agg_mode="token-mean",'
        " config=None, rollout_is_weights=None\n):"
    )
    now = "    now = of_pass.get()\n" if any(re.search(r"\bnow\b", item) for item in arguments) else ""
    terms = "    loss = loss - added_by_actor(config, log_prob, response_mask, loss_agg_mode)\n"
    taken_off = terms if OWN_TERMS in (method.given or ()) else ""
    tail = (
        f"{now}    found = {_write_call(name, arguments)}\n"
        "    loss, *rest = found if isinstance(found, tuple) else (found,)\n"
        f"{taken_off}"
        "    if rest and isinstance(rest[0], dict):\n        metrics = rest[0]\n    else:\n"
        '        names = ("actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower")\n'
        "        metrics = {name: value.detach().item() for name, value in zip(names, rest)}\n"
        f"    if {_RETURNS_METRICS}:\n        return loss, metrics\n"
        "    return loss, *(torch.tensor(value) for value in [*metrics.values(), 0.0, 0.0, 0.0][:3])"
    )
    return _Body([], head, tail)


def map_project_names(files: Mapping[str, str], package: str) -> dict[str, str]:
    """Return the module that defines each vendored name."""
    found: dict[str, str] = {}
    for path, text in files.items():
        if path.startswith(f"{package}/vendored/") and path.endswith(".py"):
            for item in split(text):
                if not item.is_import:
                    found.update(dict.fromkeys(item.binds, name_module(path.removeprefix(f"{package}/"))))
    return found


def _list_registered_names(files: Mapping[str, str], package: str, kind: str) -> set[str]:
    """Return the names of the estimators, or of the losses, that a project has."""
    text = "\n".join(
        text for path, text in files.items() if path.startswith((f"{package}/vendored/alg", f"{package}/cus"))
    )
    found = set(re.findall(rf"""{REGISTER[kind]}\(\s*["'](\w+)["']""", text))
    enum = re.search(r"class AdvantageEstimator\b.*?(?=^\S)", text, re.DOTALL | re.MULTILINE)
    return found | (
        set(re.findall(r"""= ["'](\w+)["']""", enum[0] if enum else "")) if kind == ESTIMATOR else {"vanilla"}
    )


def has_loss_choice(texts: Iterable[str]) -> bool:
    """Tell whether verl's code lets a setting choose the policy loss."""
    return any(_CHOOSER in text for text in texts)


def _list_columns(code: str) -> set[str]:
    """Return the batch columns that code reads; comments do not count."""
    code = ast.unparse(readers.parse_python(code))
    names = re.findall(r"""(?:batch|now)(?:\[|\.get\(|\.pop\()\s*["'](\w+)["']|column\(["'](\w+)["']\)""", code)
    return {one or other for one, other in names}
