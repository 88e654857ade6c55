"""Put in the place of an actor's forward passes what a project hands a loss: outputs, and columns made of logits."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from extractor.importers.adopt.fork_code import ForkCode
from extractor.importers.python_text.backward import BackwardSlicer, list_items

FORWARD = re.compile(r"self\._forward_micro_batch\w*\(")
# What actors call the rows of a pass, and what a pass returns, by a project's names for it.
ROWS = {"data", "micro_batch", "model_inputs", "mini_batch"}
_OUTPUTS = {"log_probs": "log_prob", "entropys": "entropy", "entropy": "entropy"}
FORWARDED = "forwarded_"  # begins what stands for outputs that a loss cannot have
_OLD = "compute_log_prob"
# The conditions of ways of a forward pass: one is taken or not, the others never are here.
_PADDING, _NOT_HERE = "use_remove_padding", re.compile(r"use_ulysses|use_fused_kernels|is_mask_all_zero|use_pg|grouper")
# What a function of logits has, and how a forward pass makes it.
GIVEN = {"logits", "logits_rmpad", "input_ids_rmpad_rolled", "indices", "batch_size", "seqlen", "response_length"}
_ALSO_GIVEN = {"responses", "response_length", *ROWS}
_MAKES_GIVEN = re.compile(
    r"\.logits|div_\(|temperature|unpad_input\(|roll\(|ulysses_pad|squeeze\(0\)|size\(|\.shape$|-response_length - 1"
)
_UPSTREAMS = re.compile(r"= (logprobs_from_logits|(self\.compute_|verl_F\.)entropy_from_logits)\([^()]*\)$")
_OF_PASS = {"output", "hidden_states", "input_ids_rmpad", "input_ids", "attention_mask", "position_ids"}
SLICER = BackwardSlicer("", (), re.compile("(?!)"), lambda node: False, lambda node: node)


def normalize(node: ast.AST) -> str:
    """Return a statement's text as it is compared with upstream's."""
    text = re.sub(rf"\b({'|'.join(ROWS)})\b", "data", ast.unparse(node))
    return re.sub(r"\b(core_algos|verl_F|self\.config(?=\.loss_agg_mode))\.|\s", "", text)


def list_leaves(nodes: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements without bodies."""
    for node in nodes:
        if isinstance(node, (ast.If, ast.With)):
            yield from list_leaves([*node.body, *getattr(node, "orelse", [])])
        elif not isinstance(node, ast.Pass):
            yield node


class ForwardPasses(ast.NodeTransformer):
    """Replaces forward passes in an actor's update.

    Attributes:
        made: The columns that are made of logits, and what the forward pass calls them.
        known: What stands for outputs that are upstream's, as `normalize` writes it.
        holders: What has outputs by name.
    """

    def __init__(self, actor: ast.ClassDef, known: set[str]) -> None:
        self._methods = {item.name: item for item in actor.body if isinstance(item, ast.FunctionDef)}
        self._known = known
        self._makes: tuple[ast.FunctionDef, ast.Call] | None = None  # the forward pass that has made of logits, called
        self.made: dict[str, str] = {}
        self.known: set[str] = set()
        self.holders: set[str] = set()

    def replace(self, node: ast.stmt) -> list[ast.stmt]:
        """Return a statement with what stands for the forward passes in it."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Return statements that stand for a forward pass, or what is none."""
        if not (isinstance(node.value, ast.Call) and FORWARD.match(ast.unparse(node.value))):
            return node
        names = [ast.unparse(item) for item in list_items(node.targets[0])]
        rows = [*node.value.args[:1], *(item.value for item in node.value.keywords if item.arg == "micro_batch")]
        outputs = self._open(node.value, len(names))
        if ast.unparse(rows[0]).partition(".")[0] not in ROWS:
            outputs = dict.fromkeys(outputs, f"{FORWARDED}rows_of_its_own")
        pairs = [(name, own) for name, own in zip(names, outputs.values(), strict=False) if name != own]
        lines = [f"{name} = {own}" for name, own in pairs]
        self.known |= {f"{name}={own}" for name, own in pairs if own in _OUTPUTS.values()}
        if len(names) == 1 and len(outputs) > 1:
            lines = [f"{names[0]} = {{{', '.join(f'{key!r}: {value}' for key, value in outputs.items())}}}"]
            self.holders.add(names[0])
            self.known.add(normalize(ast.parse(lines[0])))
        return ast.parse("\n".join(lines) or "pass").body

    def _open(self, call: ast.Call, count: int) -> dict[str, str]:
        """Return what a forward pass returns, and what a project's loss finds of it."""
        method = self._methods.get(str(getattr(call.func, "attr", "")))
        items = list_outputs(method, count) if method else []
        if method is None or not items or (count == 1 and not items[0].startswith("log_prob")):
            return _OUTPUTS if count == 1 else dict(list(_OUTPUTS.items())[-1::-2])
        return {key: self._stand_for(method, call, key) for key in items}

    def _stand_for(self, method: ast.FunctionDef, call: ast.Call, key: str) -> str:
        code, asked = _slice(method, [], {key})
        own = [leaf for leaf in list_leaves(code) if not _UPSTREAMS.search(ast.unparse(leaf))]
        if key in _OUTPUTS and all(normalize(leaf) in self._known for leaf in own):
            return _OUTPUTS[key]
        if not code or asked & _OF_PASS or (self._makes or (method, call))[0] is not method:
            return f"{FORWARDED}{key}"
        self._makes = (method, call)
        self.made[f"{key}_of_logits"] = key
        return f"{key}_of_logits"

    def slice(self, update: Sequence[ast.stmt]) -> tuple[list[ast.stmt], set[str]]:
        """Return the statements that make the columns, and the names that they need.

        Args:
            update: What comes before the forward pass.
        """
        if self._makes is None:
            return [], set()
        method, call = self._makes
        names = [item.arg for item in method.args.args[1:]]
        given = dict(zip(names[len(names) - len(method.args.defaults) :], method.args.defaults, strict=True))
        given |= dict(zip(names, call.args, strict=False)) | {str(item.arg): item.value for item in call.keywords}
        bound = [f"{name} = {ast.unparse(value)}" for name, value in given.items() if name not in ROWS]
        update = [node for node in update if not SLICER.find_made([node])[0] & _ALSO_GIVEN]
        return _slice(method, [*update, *ast.parse("\n".join(bound)).body], {*self.made.values()})

    def map_old_columns(self, fork: ForkCode) -> dict[str, str]:
        """Return the columns that hold what the old policy's forward pass made of logits, by the fork's key."""
        found, compute = dict[str, str](), self._methods.get(_OLD)
        for module in fork.mentions(f"self.actor.{_OLD}(") if compute is not None else ():
            code = "\n".join(segment.core for segment in module.segments)
            for node in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Assign)):
                is_it = f"self.actor.{_OLD}(" in ast.unparse(node.value)
                names = [ast.unparse(item) for item in list_items(node.targets[0])] if is_it else []
                for key, name, index in re.findall(r"""["'](\w+)["']\]?(?: =|:) (\w+)(?:\[(\d)\])?""", code):
                    place = int(index or names.index(name)) if name in names else 0
                    if place > 1 and (own := self._find_old_output(compute, place)) in self.made:  # type: ignore[arg-type]
                        found[key] = f"old_{own}"
        return found

    def _find_old_output(self, compute: ast.FunctionDef, place: int) -> str:
        """Return the column of what stands at a place of what the old policy's method returns."""
        returned = next((items for count in (3, 4, 5) if len(items := list_outputs(compute, count)) > place), [])
        for node in (node for node in ast.walk(compute) if isinstance(node, ast.Assign)):
            if returned and FORWARD.match(ast.unparse(node.value)):
                names = [ast.unparse(item) for item in list_items(node.targets[0])]
                method = self._methods[str(getattr(node.value.func, "attr", ""))]  # type: ignore[attr-defined]
                pairs = dict(zip(names, list_outputs(method, len(names)), strict=False))
                own = next((pairs[name] for name in pairs if name.rstrip("s") == returned[place].rstrip("s")), "")
                if own:
                    return f"{own}_of_logits"
        return ""


def list_outputs(method: ast.FunctionDef, count: int) -> list[str]:
    """Return what a method calls as many values as it returns."""
    values = [part.value for part in ast.walk(method) if isinstance(part, ast.Return) and part.value]
    found = [[ast.unparse(item) for item in list_items(value)] for value in values]
    return min((items for items in found if len(items) == count), key=lambda items: items.count("None"), default=[])


def _slice(method: ast.FunctionDef, before: Sequence[ast.stmt], keys: set[str]) -> tuple[list[ast.stmt], set[str]]:
    """Return what makes outputs of logits, without padding if that suffices, and the names that it needs."""
    for is_padded in (False, True):
        asked, statements = set(keys), list(_list_taken(method.body, is_padded))
        given = [node for node in statements if _MAKES_GIVEN.search(ast.unparse(node))]
        rest = [node for node in statements if node not in given or not SLICER.find_made([node])[0] & GIVEN]
        code = SLICER.run([*before, *rest], asked, ())
        if not asked & _OF_PASS and keys <= SLICER.find_made(code)[0]:
            break
    return code, asked - keys


def _list_taken(body: Sequence[ast.stmt], is_padded: bool) -> Iterator[ast.stmt]:
    """Yield the statements of a forward pass by one process, without those of other ways."""
    for node in body:
        test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
        if isinstance(node, ast.With):
            yield from _list_taken(node.body, is_padded)
        elif isinstance(node, ast.If) and (_PADDING in test or _NOT_HERE.search(test)):
            is_taken = _PADDING in test and not is_padded
            yield from _list_taken(node.body if is_taken else node.orelse, is_padded)
        else:
            yield node
