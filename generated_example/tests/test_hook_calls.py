# vextract:template base/tests/test_hook_calls.py - edit freely
"""A hook that cannot be imported, or a loss of one's own that is wrong, is named with file and line."""

import importlib
import sys

import pytest

from generated_example import custom
from generated_example.training import hook_calls, registries
from generated_example.training.hook_errors import HookError


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("x = 1\ndef f(:\n", "not valid Python: SyntaxError: invalid syntax\n  def f(:", 2),
        ("def f():\nreturn 1\n", "not valid Python: IndentationError", 2),
        ("\nimport no_such_module\n", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'", 2),
        ("from ..vendored.algorithms.core_algos import nothing\n", "vextract explain says where", 1),
        (
            "try:\n    from ..vendored.algorithms.core_algos import nothing\n"
            "except ImportError:\n    from verl.trainer.ppo.core_algos import nothing\n",
            "cannot import name 'nothing'",
            2,
        ),
        ("x = 1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero", 1),
    ],
)
def test_a_hook_that_cannot_be_imported_is_named(tmp_path, monkeypatch, text, message, line):
    (tmp_path / "broken_hook.py").write_text(text)
    monkeypatch.setattr(custom, "__path__", [*custom.__path__, str(tmp_path)])
    sys.dont_write_bytecode = True
    with pytest.raises(HookError) as caught, hook_calls.importing_hooks():
        importlib.import_module("generated_example.custom.broken_hook")
    assert message in str(caught.value) and caught.value.hook_file == f"{tmp_path / 'broken_hook.py'}:{line}"


@pytest.mark.skipif(len(registries.POLICY_LOSS_REGISTRY) == 1, reason="this release of verl has no registry of losses")
@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda log_prob, **others: {}["x"], "raised KeyError: 'x'"),
        (lambda log_prob: None, "cannot be called: "),
        (lambda log_prob, **others: None, "does not return the loss"),
    ],
)
def test_a_loss_that_cannot_be_used_is_named(train, monkeypatch, capsys, loss, message):
    monkeypatch.setitem(registries.POLICY_LOSS_REGISTRY, "mine", loss)
    train("actor_rollout_ref.actor.policy_loss.loss_mode=mine", "data.env.task=succ2", code=1)
    shown = capsys.readouterr().err
    assert f"error: the policy loss 'mine' {message}" in shown and f"hook: {__file__}:" in shown
    assert "Traceback" not in shown
