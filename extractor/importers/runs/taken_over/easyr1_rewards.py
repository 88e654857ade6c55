"""The function that scores a run of EasyR1's, among the hooks of its project, and the reward manager that calls it."""

from __future__ import annotations

import ast

from extractor.importers.runs import templates
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries.translation import FileScored
from extractor.importers.runs.taken_over.managers import IMPORTED_BY
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values import readers
from extractor.values.errors import UsageError

KEY = "worker.reward.reward_function"
NAME = "easyr1"
FUNCTIONS, MANAGER = "custom/easyr1_rewards", "custom/easyr1_reward_manager"
OF_ANOTHER_FORM = (
    "it takes neither reward_inputs, reward_input, nor a response and a ground_truth: write compute_score(data_source, "
    "solution_str, ground_truth, extra_info), and name its file with custom_reward_function.path"
)
# How a function takes responses: all of a batch as a list, or one; in earlier releases beside the ground truth.
_BATCH, _ONE = "{name}([response], **SETTINGS)[0]", "{name}(response, **SETTINGS)"
_BATCH_OF_TEXTS = "{name}([solution_str], [ground_truth], **SETTINGS)[0]"
_ONE_TEXT = "{name}(solution_str, ground_truth, **SETTINGS)"
_CALLS = {"reward_inputs": _BATCH, "reward_input": _ONE}
_TRUTHS = {"ground_truth": _ONE_TEXT, "ground_truths": _BATCH_OF_TEXTS}
# What a file says of how its function takes them.
_TYPE, _TYPES = "REWARD_TYPE", {"batch": _BATCH, "sequential": _ONE}
_HEAD = "# vextract:hook  yours: written once, never touched by an upgrade\n"


def take(project: Recipient, scored_by: FileScored | None) -> Taken:
    """Copy the function that scores, with what it needs, and have a reward manager call it."""
    if scored_by is None or not project.has(IMPORTED_BY) or not project.has("rewards/manager"):
        return Taken(project.tree)
    name = scored_by.function
    copying = project.copying((scored_by.folder,))
    try:
        call, further = _call(scored_by.text, name)
        copied = None if call is None else copying.copy(scored_by.text, (name,))
    except (SyntaxError, UsageError, OSError) as error:
        return Taken(project.tree, [Remark(KEY, scored_by.place, "to do", f"not copied: {error}")])
    if call is None or copied is None:
        return Taken(project.tree, [Remark(KEY, scored_by.place, "to do", OF_ANOTHER_FORM)])
    if unknown := [item for item in further if item not in scored_by.settings]:
        why = f"it asks for {', '.join(unknown)}, which its own trainer hands it: {OF_ANOTHER_FORM.partition(': ')[2]}"
        return Taken(project.tree, [Remark(KEY, scored_by.place, "to do", why)])
    if copied.missing:
        why = f"it cannot be imported here: {'; '.join(dict.fromkeys(copied.missing))}"
        return Taken(project.tree, [Remark(KEY, scored_by.place, "to do", why)])
    manager = templates.render(
        "easyr1_reward_manager.py",
        place=scored_by.place,
        name=name,
        settings=repr(dict(scored_by.settings)),
        call=call.format(name=name),
        manager=NAME,
    )
    tree = project.with_hooks(
        {
            f"{FUNCTIONS}.py": f"{_HEAD}# The function that scores, from {scored_by.place}.\n{copied.text.strip()}\n",
            f"{MANAGER}.py": manager,
            **copying.files,
        },
        {MANAGER: IMPORTED_BY},
    )
    target = f"{project.package}/{FUNCTIONS}.py"
    remarks = copied_remarks(KEY, name, scored_by.place, target, copied)
    return Taken(tree, remarks, project.with_manager(NAME))


def _call(text: str, name: str) -> tuple[str | None, list[str]]:
    """Return how a function is called, and what it has to be given besides.

    None: there is no such function at the top, or it takes something else.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = readers.python(text)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _TYPE]
    said = ast.unparse(assigned[-1].value).strip("'") if assigned else ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            taken = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
            beside = _TRUTHS.get(taken[1]) if len(taken) > 1 else None
            required = taken[: len(taken) - len(node.args.defaults)]
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            further = [*required[2 if beside else 1 :], *(item.arg for item, value in named if value is None)]
            return beside or _CALLS.get("".join(taken[:1])) or _TYPES.get(said), further
    return None, []
