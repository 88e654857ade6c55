"""Algorithms of a run's own, called as their own trainer calls them: with a decorator that a project brings along."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from extractor.importers.runs import templates
from extractor.importers.runs.files.needed import with_first
from extractor.pipeline.index.syntax import attribute_chain
from extractor.values import readers

# The module that has the decorator, and what that is called.
MODULE, NAME = "of_the_run", "of_the_run"
# The module that knows the run's settings which no release has.
OWN_SETTINGS = "own_settings"
# What a loss gets as its config is this section of a run's.
LOSSES = "actor_rollout_ref.actor"
# What a project has at hand for losses and estimators that take it: the names that trainers have for it.
AT_HAND = {
    "entropys": ("entropy", "entropies", "token_entropys", "token_entropy", "token_level_entropy", "old_entropy"),
    "old_log_probs": ("old_log_prob", "token_level_logp"),
    "ref_log_prob": ("ref_log_probs",),
    "rollout_log_probs": ("rollout_log_prob",),
    "response_mask": ("eos_mask",),
    "sum_pi_squared": (),
    "rollout_is_weights": (),
    "token_level_scores": (),
    "responses": (),
    "prompts": (),
    "input_ids": (),
    "attention_mask": (),
    "non_tensor_batch": (),
    "data": (),
    "gamma": (),
    "lam": (),
}


def modules() -> dict[str, str]:
    """Return the texts of the modules that have it, and what it needs, by name."""
    same = [f"{name!r}: {others!r},".replace("'", '"') for name, others in AT_HAND.items() if others]
    own = templates.render(f"{OWN_SETTINGS}.py")
    return {MODULE: templates.render(f"{MODULE}.py", same="\n    ".join(same)), OWN_SETTINGS: own}


def at_hand(name: str) -> str | None:
    """Return what a project calls an argument that it has at hand; None: it has it not."""
    return next((own for own, same in AT_HAND.items() if name in (own, *same)), None)


def called_as_here(
    text: str,
    definition: str,
    section: str,
    package: str,
    given: Collection[str],
    *,
    lends: bool,
) -> str:
    """Return a module's text with the decorator at a function that a project calls otherwise than its own trainer does.

    That is any loss: what verl takes behind one, and whether it adds up what one is of each pass, changes from release
    to release, and the project is upgraded. The decorator finds it out.

    Args:
        text: Of the module.
        definition: The function.
        section: What its `config` is a part of the run's.
        package: The module that has the decorator, without its name.
        given: The arguments that the project calls it with.
        lends: Whether it takes what the project has at hand, and does not pass.
    """
    body = readers.python(text).body
    node = next((item for item in body if isinstance(item, ast.FunctionDef) and item.name == definition), None)
    if node is None:
        return text
    taken = {item.arg for item in (*node.args.args, *node.args.kwonlyargs)}
    fits = (node.args.kwarg is not None or taken.issuperset(given)) and not lends and section != LOSSES
    whole = any(chain[1:2] == (section.partition(".")[0],) for chain, _ in _reads_of_config(text))
    if fits and not whole and not settings_read(text, section):
        return text
    lines = text.split("\n")
    more = ", whole=True" if whole else ""
    lines.insert(node.lineno - 1, f'@{NAME}("{section}"{more})')
    return with_first("\n".join(lines), [f"from {package}.{MODULE} import {NAME}"])


def settings_read(text: str, section: str) -> set[str]:
    """Return the settings that a module's functions read of their `config`, by the keys of the run's whole config."""
    whole = section.partition(".")[0]
    return {
        ".".join([*([] if chain[1:2] == (whole,) else [section]), *chain[1:], *([name] if name else [])])
        for chain, name in _reads_of_config(text)
    } - {section}


def read_of_the_whole(texts: Iterable[str]) -> set[str]:
    """Return the settings that modules read of the run's whole config, as far as one expression names them."""
    found = {
        ".".join([*chain[1:], *([name] if name else [])]) for text in texts for chain, name in _reads_of_config(text)
    }
    return {key for key in found if not any(other.startswith(f"{key}.") for other in found)}


def among(said: Iterable[str], read: Iterable[str]) -> set[str]:
    """Return the settings that are read, perhaps with all that is below one."""
    names = [*read]
    return {key for key in said if any(key == name or key.startswith(f"{name}.") for name in names)}


def _reads_of_config(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what a module reads of `config` or `self.config`: the names from that on, and what it is asked for."""
    for node in ast.walk(readers.python(text)):
        name, chain = "", attribute_chain(node) if isinstance(node, ast.Attribute) else None
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            chain, name = attribute_chain(node.func.value), _text(node.args[0])
        elif isinstance(node, ast.Subscript):
            chain, name = attribute_chain(node.value), _text(node.slice)
        chain = tuple(chain or ())
        chain = chain[:-1] if chain[-1:] == ("get",) else chain
        chain = chain[1:] if chain[:2] == ("self", "config") else chain
        if chain[:1] == ("config",) and (name or len(chain) > 1):
            yield chain, name


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
