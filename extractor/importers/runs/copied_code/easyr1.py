"""Copy EasyR1 reward functions and prompt text into a project's hooks."""

import ast

from extractor.importers.config import templates
from extractor.importers.python_text.definitions import list_required_arguments
from extractor.importers.runs.copied_code.managers import IMPORTED_BY
from extractor.importers.runs.copied_code.target import HEAD, CopyResult, TargetProject, remark_on_copy
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run import PromptTemplate, ScoringFunction
from extractor.values import readers
from extractor.values.errors import UsageError

_PROMPT, _DATASET, _DATASET_CLASS = "data.format_prompt", "custom/easyr1_dataset", "EasyR1Prompts"
_KEY, _NAME = "worker.reward.reward_function", "easyr1"
_FUNCTIONS, _MANAGER = "custom/easyr1_rewards", "custom/easyr1_reward_manager"
_WRITE = (
    "write compute_score(data_source, solution_str, ground_truth, extra_info), and name its file with "
    "custom_reward_function.path"
)
_OF_ANOTHER_FORM = f"it takes neither reward_inputs, reward_input, nor a response and a ground_truth: {_WRITE}"
# How a function takes responses: a batch as a list, or one; in earlier releases beside the ground truth.
_BATCH, _ONE = "{name}([response], **SETTINGS)[0]", "{name}(response, **SETTINGS)"
_CALLS = {"reward_inputs": _BATCH, "reward_input": _ONE}
_WITH_TRUTH = {
    "ground_truth": "{name}(solution_str, ground_truth, **SETTINGS)",
    "ground_truths": "{name}([solution_str], [ground_truth], **SETTINGS)[0]",
}
# What a file says of how its function takes them.
_TYPE, _TYPES = "REWARD_TYPE", {"batch": _BATCH, "sequential": _ONE}


def take_prompts(project: TargetProject, written: PromptTemplate | None) -> CopyResult:
    """Write a dataset class that adds the run's text to prompts."""
    if written is None or not project.has("data/datasets") or project.settings.get("data.custom_cls.path"):
        return CopyResult(project.tree)
    text = templates.render(
        "easyr1_dataset.py",
        package=project.package,
        template=repr(written.template.strip()),
        system=repr(written.system),
        answer=repr(written.answer),
    )
    target = f"{project.package}/{_DATASET}.py"
    why = f"written into prompts that are text by {_DATASET_CLASS} in {target}"
    settings = {"data.custom_cls.path": target, "data.custom_cls.name": _DATASET_CLASS}
    tree = project.add_hooks({f"{_DATASET}.py": text}, {})
    return CopyResult(tree, [Remark(_PROMPT, written.place, "changed", why)], settings)


def take_rewards(project: TargetProject, scored_by: ScoringFunction | None) -> CopyResult:
    """Copy the scoring function and a reward manager that calls it."""
    if scored_by is None or not project.has(IMPORTED_BY) or not project.has("rewards/manager"):
        return CopyResult(project.tree)
    name, place = scored_by.function, scored_by.place
    copying = project.copying(scored_by.folder)
    call, further = _find_call_form(readers.parse_python_or_nothing(scored_by.text), name)
    unknown = [item for item in further if item not in scored_by.settings]
    why = ""
    try:
        copied = copying.copy(scored_by.text, (name,))
    except (SyntaxError, UsageError, OSError) as error:
        return CopyResult(project.tree, [Remark(_KEY, place, "to do", f"not copied: {error}")])
    if call is None:
        why = _OF_ANOTHER_FORM
    elif unknown:
        why = f"it asks for {', '.join(unknown)}, which its own trainer hands it: {_WRITE}"
    elif copied.missing:
        why = f"it cannot be imported here: {'; '.join(dict.fromkeys(copied.missing))}"
    if call is None or why:
        return CopyResult(project.tree, [Remark(_KEY, place, "to do", why)])
    manager = templates.render(
        "easyr1_reward_manager.py",
        place=place,
        name=name,
        settings=repr(dict(scored_by.settings)),
        call=call.format(name=name),
        manager=_NAME,
    )
    functions = f"{HEAD}# The function that scores, from {place}.\n{copied.text.strip()}\n"
    hooks = {f"{_FUNCTIONS}.py": functions, f"{_MANAGER}.py": manager, **copying.files}
    tree = project.add_hooks(hooks, {_MANAGER: IMPORTED_BY})
    remarks = remark_on_copy(_KEY, name, place, f"{project.package}/{_FUNCTIONS}.py", copied)
    return CopyResult(tree, remarks, project.choose_manager(_NAME))


def _find_call_form(tree: ast.Module, name: str) -> tuple[str | None, list[str]]:
    """Return how to call a function, and extra arguments it needs."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _TYPE]
    said = ast.unparse(assigned[-1].value).strip("'") if assigned else ""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            taken = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
            with_truth = _WITH_TRUTH.get(taken[1]) if len(taken) > 1 else None
            further = [name for name in list_required_arguments(node) if name not in taken[: 2 if with_truth else 1]]
            return with_truth or _CALLS.get("".join(taken[:1])) or _TYPES.get(said), further
    return None, []
