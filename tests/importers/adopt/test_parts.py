"""Segments, and merging a symbol."""

import ast
from dataclasses import replace
from pathlib import Path

from extractor.importers.adopt.assemble import list_lacking
from extractor.importers.adopt.carry import combine
from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.fork_code import ForkCode
from extractor.importers.adopt.method_states import (
    MethodState,
    Runs,
    judge_overall,
    mark_idle,
    summarize,
)
from extractor.importers.adopt.own_keys import carry_defaults, find_asked_by_hooks
from extractor.importers.adopt.recognised import Recognised
from extractor.importers.python_text.segments import Segment, split
from tests.importers.adopt.forks import Fork
from tests.releases import source_of


def join(segments: tuple[Segment, ...]) -> str:
    return "".join(item.lead + item.core for item in segments)


def test_segments() -> None:
    text = "# top\n\nimport a\nx = 1; y = 2\n\n\n# about f\n@dec\ndef f():\n    pass\n\n\nx = 3\nprint(x)\n# end\n"
    found = split(text)
    keys = ["`import a`", "x", "f", "x (2)", "`print(x)`"]
    assert [item.key for item in found] == ["comments at the top", *keys, "comments at the end"]
    assert found[3].core == "# about f\n@dec\ndef f():\n    pass\n"
    assert join(found) == text


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


LACKING = (
    ("def f(a, *, b=1): pass", "def f(a, b): pass", []),
    ("def f(a, b): pass", "def f(a): pass", ["b"]),
    ("class C(Enum):\n    X = 1\n    Y = 2", "class C(Enum):\n    X = 1\n    Z = 3", ["C.Y"]),
    ("class C:\n    x: int = 1\n    def f(self, a): pass", "class C:\n    def f(self): pass", ["C.x", "a of C.f"]),
    ("class C:\n    def _f(self): pass", "class C:\n    pass", []),
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


def test_settings_of_classes_and_of_sections_called_otherwise_have_their_values(tmp_path: Path) -> None:
    fields = "\n    own: float = 3.0\n    made: str = field(default='a')\n"
    (tmp_path / "config.py").write_text(f"@dataclass\nclass ActorConfig:{fields}")
    (tmp_path / "run.yaml").write_text("worker: {actor: {other: 2, made: null}, ref: {made: 5}}\n")
    found = find_asked_by_hooks(tmp_path, {}, ["def loss_of_it():\n    return config.own, config.other, config.made\n"])
    values = {"own": 3.0, "other": 2, "made": None}
    assert found == {f"actor_rollout_ref.actor.{name}": value for name, value in values.items()}


def test_what_no_script_or_config_chooses_does_not_count(tmp_path: Path) -> None:
    source = source_of("0.6.1")
    fork = Fork(tmp_path, source)
    copy = Copy(fork.root, fork.top, (), (), {}, {}, frozenset(), None)
    states = [MethodState("advantage estimator", name, Runs.IN_PART, "") for name in ("gae", "remax", "mine")]
    found = mark_idle(Recognised(copy, (), source, (), (), None, (), ()), states)
    assert [state.name for state in found if state.is_idle] == ["remax"]  # the default is gae, and mine is the fork's


def test_a_section_that_is_only_turned_off_is_found_in_a_long_file(tmp_path: Path) -> None:
    lines = "".join(f"    {'a' * 30} {number}: 1\n" for number in range(60))
    (tmp_path / "long.yaml").write_text(f"mine:\n{lines}    enable_mine: false\nother:\n{lines}")
    code = ForkCode(Copy(tmp_path / "verl", tmp_path, (), (), {}, {}, frozenset(), None))
    assert [code.is_off(section, "enable_mine") for section in ("mine", "other")] == [True, False]
