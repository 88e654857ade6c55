"""Let a project's actor hand columns and the entropy to a fork's loss."""

import ast
from collections.abc import Collection, Mapping

from extractor.importers.adopt.target_project import NoPlace
from extractor.values import readers

NAME, ENTROPY = "of_pass", "entropy"
DEFINITION = f'''# What the actor has of the rows whose loss is computed. Its `update_policy` sets it.
{NAME}: ContextVar[dict[str, Any]] = ContextVar("{NAME}")
'''
IMPORTS = {"ContextVar": "from contextvars import ContextVar", "Any": "from typing import Any"}
_ARRAYS = frozenset({"uid", "data_source", "extra_info", "reward_model"})
_LOSSES = ("policy_loss_fn", "compute_policy_loss")


def hand_columns(files: Mapping[str, str], package: str, names: Collection[str]) -> dict[str, str]:
    """Return the actor's file, changed to hand columns to losses.

    Args:
        files: The project's Python files, by path.
        package: Its package.
        names: Columns of the batch; ENTROPY is the policy's, per token.

    Raises:
        NoPlace: the release has no actor that selects its columns by name, or one is no tensor.
    """
    if arrays := sorted(_ARRAYS & {*names}):
        raise NoPlace(f"its loss reads {', '.join(arrays)}, and an actor hands tensors alone")
    found = [(path, text) for path, text in files.items() if path.startswith(f"{package}/vendored/")]
    for path, text in found:
        nodes = [*ast.walk(readers.parse_python(text))] if "def update_policy" in text else []
        update = next((node for node in nodes if getattr(node, "name", "") == "update_policy"), None)
        parts = _find_parts(update) if update is not None else None
        if update is not None and parts is not None:
            selected, forward, loss = parts
            chosen = [selected, *(node for node in ast.walk(update) if isinstance(node, ast.AugAssign))]
            known = {part.value for node in chosen for part in ast.walk(node) if isinstance(part, ast.Constant)}
            lines, is_there = text.split("\n"), f"{NAME}.set(" in text
            asks = f"calculate_{ENTROPY} = True"
            is_asked = ENTROPY not in names or lines[forward.lineno - 2] == " " * forward.col_offset + asks
            call = next(node for node in ast.walk(forward) if isinstance(node, ast.Call))
            batch = ast.unparse(call.args[0] if call.args else call.keywords[0].value)
            put = [] if is_there else [(loss.lineno, loss, f'{NAME}.set({{**{batch}, "{ENTROPY}": {ENTROPY}}})')]
            put += [] if is_asked else [(forward.lineno, forward, asks)]
            keys = ", ".join(f'"{name}"' for name in sorted({*names} - known - {ENTROPY}))
            after = (selected.end_lineno or 0) + 1
            put += [(after, selected, f"select_keys += [{keys}]  # for the fork's loss")] if keys else []
            put += [] if is_there else [(after, selected, f"from {package}.custom.algorithms import {NAME}\n")]
            for number, node, line in put:
                lines[number - 1 : number - 1] = (" " * node.col_offset + line).split("\n")
            return {path: "\n".join(lines)}
    raise NoPlace(
        f"the actor of this release hands a loss no {', '.join(sorted(names))}: make the project with verl 0.7.1"
    )


def _find_parts(update: ast.AST) -> tuple[ast.Assign, ast.stmt, ast.stmt] | None:
    """Return where columns are selected, the forward pass and the loss."""
    selected = forward = None
    for node in ast.walk(update):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "select_keys":
            selected = node
        body = getattr(node, "body", None)
        for place, item in enumerate(statements := body if isinstance(body, list) else []):
            if isinstance(item, ast.Assign) and "._forward_micro_batch(" in ast.unparse(item):
                forward, behind = item, statements[place + 1 :]
    if selected is None or forward is None:
        return None
    loss = next((item for item in behind if any(f"{name}(" in ast.unparse(item) for name in _LOSSES)), None)
    return None if loss is None else (selected, forward, loss)
