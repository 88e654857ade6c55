"""Segments, and merging a symbol."""

import ast
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from extractor.importers.adopt.assemble import list_lacking
from extractor.importers.adopt.carry import combine
from extractor.importers.adopt.differences import Compared
from extractor.importers.adopt.findings import Copy, ForkEdit, ForkFile, Outcome
from extractor.importers.adopt.method_states import (
    MethodState,
    Runs,
    judge_overall,
    list_new_managers,
    list_others,
    summarize,
)
from extractor.importers.adopt.own_keys import carry_defaults, find_asked_by_hooks, select_read
from extractor.importers.python_text.segments import Segment, decode, restore_upstream_names, split
from tests.importers.adopt.forks import Fork
from tests.releases import newest_release, source_of


def join(segments: tuple[Segment, ...]) -> str:
    return "".join(item.lead + item.core for item in segments)


@pytest.mark.parametrize("release", newest_release("0.6.1"))
def test_segments_make_the_text_again(release: str) -> None:
    files = source_of(release).files
    for path in sorted(files)[::4]:
        text = decode(files[path])
        if path.endswith(".py") and text is not None:
            assert join(split(text)).rstrip("\n") == text.rstrip("\n"), path


def test_segments() -> None:
    text = "# top\n\nimport a\nx = 1; y = 2\n\n\n# about f\n@dec\ndef f():\n    pass\n\n\nx = 3\nprint(x)\n# end\n"
    found = split(text)
    keys = ["`import a`", "x", "f", "x (2)", "`print(x)`"]
    assert [item.key for item in found] == ["comments at the top", *keys, "comments at the end"]
    assert found[3].core == "# about f\n@dec\ndef f():\n    pass\n"
    assert join(found) == text


def test_a_setting_is_read_where_a_section_of_the_forks_own_is() -> None:
    new = {"actor_rollout_ref.rollout.hard_kwargs.n": 100, "trainer.own_loss": "x", "actor_rollout_ref.rollout.n": 2}
    code = ["def f(config):\n    return config.rollout.n, config.trainer.own_loss\n"]
    assert select_read(new, code).keys() == {"trainer.own_loss", "actor_rollout_ref.rollout.n"}
    assert select_read(new, [*code, "kwargs = rollout.hard_kwargs\n"]).keys() == new.keys()
    assert select_read({"trainer.own_loss": "x"}, ["def f(trainer, own_loss=None):\n    return own_loss\n"]) == {}


def test_settings_that_a_loss_asks_for_come_from_any_config_of_the_fork(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("actor_rollout_ref:\n  actor:\n    own_share: 0.5\n")
    code = "\n\ndef loss_of_own(\n    log_prob, config=None\n):\n    return config.own_share\n\n\nconfig.no\n"
    assert find_asked_by_hooks(tmp_path, {}, [code]) == {"actor_rollout_ref.actor.own_share": 0.5}


def test_defaults_that_a_fork_changed_come_along(tmp_path: Path) -> None:
    source, other = source_of("0.6.1"), source_of("0.5.0")
    fork = Fork(tmp_path, source)
    data = "trainer/config/data/legacy_data.yaml"
    fork.write(data, fork.read(data).replace("train_batch_size: 1024", "train_batch_size: 96"))
    main = b"# Sizes.\ndefaults: []\ndata:\n  train_batch_size: 1024  # rows\n  val_batch_size: 7\n"
    files = {"config/ppo_trainer.yaml": main, "toy/code.py": b"print(config.data.train_batch_size)\n"}
    copy = Copy(fork.root, tmp_path, (), (), {}, {}, frozenset(), None)
    found = carry_defaults(copy, (source, other), files, "toy")
    assert found == {"config/ppo_trainer.yaml": main.replace(b"1024", b"96")}
    assert carry_defaults(copy, (source, other), {**files, "toy/code.py": b""}, "toy") == {}  # nothing reads it
    fork.write(data, fork.read(data).replace("train_batch_size: 96", "train_batch_size: 1024"))
    assert carry_defaults(copy, (source, other), files, "toy") == {}


COMBINED = {
    ("a\nb\nc\n", "a\nB\nc\n"): "a\nB\nc\n",
    ("a\nb\nnew\nc\n", "A\nb\nc\n"): "A\nb\nnew\nc\n",
    # Neighbouring lines, which git calls a conflict.
    ("a\nB\nc\n", "A\nb\nc\n"): "A\nB\nc\n",
    ("a\nB\nc\n", "A\nb\nC\n"): "A\nB\nC\n",
    ("a\nmine\nc\n", "a\ntheirs\nc\n"): None,
}


def test_combine() -> None:
    for (ours, theirs), merged in COMBINED.items():
        assert combine("a\nb\nc\n", ours, theirs) == merged
    assert combine("x = a + b\n", "x = a + c\n", "x = a + d\n") is None


def test_combine_by_statement() -> None:
    """Upstream formatted a function after it was copied; comments and layout are upstream's."""
    base = "def f(a,\n      b):\n    c = 'x'\n    d = g(a,\n          b, c=1)\n    return c, d\n"
    fork = base.replace("          b, c=1)\n    return", "          b, c=1)\n    d.append(1)\n    return")
    later = 'def f(a, b):\n    # why\n    c = "x"\n    d = g(\n        a,\n        b,\n        c=1,\n    )\n'
    later += "    return c, d\n"
    merged = later.replace("    return", "    d.append(1)\n    return")
    assert combine(base, fork.replace("'x'", "'x' "), later) == merged
    assert combine(base, fork.replace("'x'", "'mine'"), later.replace('"x"', '"theirs"')) is None


def test_names() -> None:
    text = "from my.copy.utils import x\nimport my.copy.protocol as p\ny = 'my.copy.utils.device'\nz = my.copy.mine\n"
    assert restore_upstream_names(text, ("my.copy",)) == (
        "from verl.utils import x\nimport verl.protocol as p\ny = 'verl.utils.device'\nz = my.copy.mine\n"
    )


LACKING = (
    ("def f(a, *, b=1): pass", "def f(a, b): pass", []),
    ("def f(a, b): pass", "def f(a): pass", ["b"]),
    ("def f(a, b): pass", "def f(a, **more): pass", []),
    ("class C(Enum):\n    X = 1\n    Y = 2", "class C(Enum):\n    X = 1\n    Z = 3", ["C.Y"]),
    ("class C:\n    x: int = 1\n    def f(self, a): pass", "class C:\n    def f(self): pass", ["C.x", "a of C.f"]),
    ("class C:\n    def _f(self): pass", "class C:\n    pass", []),
    ("X = 1", "X = 2", []),
    ('@register_policy_loss("x")\ndef f(a):\n    pass\n', "def f(a):\n    pass\n", ["registration"]),
)


def test_what_a_version_of_another_day_lacks() -> None:
    for ours, theirs, lacks in LACKING:
        assert list_lacking(ast.parse(ours).body[0], theirs) == lacks, ours


def test_a_fork_is_about_its_estimators_and_losses() -> None:
    parked = MethodState("advantage estimator", "mine", Runs.NO, "orphaned/")
    scorer = MethodState("reward function", "compute_score", Runs.YES, "toy/custom/verl_reward.py")
    assert summarize([parked, scorer]) == "your method is parked: mine (is parked), compute_score (runs)"
    assert judge_overall([parked, scorer]) is Runs.NO
    assert summarize([scorer]) == "your method runs: compute_score"
    assert judge_overall([replace(parked, runs=Runs.YES), scorer]) is Runs.YES
    trainer = MethodState("trainer", "Mine", Runs.NO, "recipe/own/trainer.py")
    assert summarize([scorer, trainer]).startswith(
        "your method runs: compute_score; what you changed in Mine is parked"
    )
    assert (judge_overall([scorer, trainer]), judge_overall([trainer])) == (Runs.YES, Runs.NO)


def _list_others(compared: Any, edits: list[ForkEdit]) -> list[MethodState]:
    target: Any = SimpleNamespace(compared=compared, sides={})
    return list(list_others(target, edits))


def test_a_helper_is_no_method_beside_what_calls_it() -> None:
    texts = {
        "compute_score": "def compute_score(a):\n    return helper(a)\n",
        "helper": "def helper(a):\n    return a\n",
    }
    segments = split("\n\n".join(texts.values()))
    paths = [f"verl/utils/reward_score/{name}.py" for name in ("code", "math")]
    compared = dict.fromkeys(paths, Compared(segments, segments))
    math, code = (
        [ForkEdit(path, name, Outcome.CARRIED, path, "", is_symbol=True, new=text) for name, text in texts.items()]
        for path in paths
    )
    assert [item.name for item in _list_others(compared, math)] == ["compute_score"]
    assert [item.name for item in _list_others(compared, math[1:])] == ["compute_score"]
    assert [item.name for item in _list_others(compared, math + code)] == [f"compute_score of {path}" for path in paths]
    circle = split("def _a():\n    b\n\n\ndef b():\n    _a\n")
    inner = ForkEdit(paths[0], "_a", Outcome.CARRIED, paths[0], "", is_symbol=True, new="def _a():\n    b\n")
    assert [item.name for item in _list_others({paths[0]: Compared(circle, circle)}, [inner])] == ["b"]
    parked = [math[0], replace(math[1], outcome=Outcome.ORPHANED, why="it needs Ray")]
    assert [(item.runs, item.why) for item in _list_others(compared, parked)] == [(Runs.NO, "it needs Ray")]


def test_managers_in_files_of_a_fork_whose_copy_lies_deeper(tmp_path: Path) -> None:
    own = {"verl/workers/reward_manager/own.py": b'@register("own")\nclass Own:\n    pass\n'}
    copy = Copy(tmp_path / "deep/verl", tmp_path, (), (), {}, own, frozenset(), None)
    files = [ForkFile(f"deep/{path}", None, is_upstreams=False) for path in own]
    (found,) = list_new_managers(copy, files)
    assert (found.name, found.runs, found.where) == ("own", Runs.NO, *own)
