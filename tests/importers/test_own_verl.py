"""A checkout that changed its copy of verl: what scores comes along, and what else was changed is said."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from extractor.importers.runs.copied_code import managers
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.fingerprint import fingerprint, load_upstream_files
from extractor.values.tree import File, FileKind, Tree
from tests.importers import test_managers
from tests.importers.conftest import imported, put
from tests.importers.test_managers import KEY, TREE, checkout, recipient, registered
from tests.releases import ALL, NEWEST, source_of

NAIVE = "verl/workers/reward_manager/naive.py"
ACTOR, LOSSES = "verl/workers/actor/dp_actor.py", "verl/trainer/ppo/core_algos.py"
AGG = "actor_rollout_ref.actor.loss_agg_mode"
GSM8K = "verl/utils/reward_score/gsm8k.py"
CLASS = """
from verl.workers.reward_manager.registry import register


@register("naive")
class Shorter:
    def __init__(self, tokenizer, num_examine, size, end, judge=None, compute_score=None):
        self.given = (size, end, judge)

    def __call__(self, data, return_dict=False):
        return [item / self.given[0] for item in data]
"""
PROGRAM = """
def main(config, tokenizer):
    reward_manager_cls = choose(config)
    judge = start_a_judge(config)
    reward_fn = reward_manager_cls(
        tokenizer=tokenizer, num_examine=0, size=config.own.get("more", 0), end="<end>", judge=judge
    )
"""

OWN_PROGRAM = """
from grading import grade


def _select():
    return grade


class RewardManager:
    def __init__(self, tokenizer, num_examine):
        self.function = _select()

    def __call__(self, data):
        return [self.function(item) for item in data]


def main(config, tokenizer):
    reward_fn = RewardManager(tokenizer=tokenizer, num_examine=0)
"""


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from test_managers.imports.__wrapped__(tmp_path, monkeypatch)


def taken_from(project: TargetProject) -> CopyResult:
    return managers.take_unnamed(project, "verl.trainer.main_ppo", test_managers.PROJECT)


def of(text: str) -> str:
    return fingerprint(ast.parse(text))


def test_only_what_is_computed_makes_a_difference() -> None:
    for other, same in (
        ('"""Says."""\nimport os\ndef f(a: int = 1) -> int:\n    "says"\n    print(a)\n    return a', True),
        ("import logging\ndef f(a=1):\n    logging.info(a)  # says\n    return (a)", True),
        ("def f(a=2):\n    return a", False),
        ("def f(a=1):\n    g(a)\n    return a", False),
        ("def f(a=1):\n    return -a", False),
    ):
        assert (of("def f(a=1):\n    return a") == of(other)) == same, other


def test_every_file_of_a_release_is_known() -> None:
    for release in ALL:
        source = source_of(release)
        watched = [path for path in load_upstream_files() if path in source.files]
        assert {ACTOR, LOSSES, NAIVE} - set(watched) <= {ACTOR}, "the actor goes after 0.7.1"
        for path in watched:
            assert fingerprint(ast.parse(source.read(path))) in load_upstream_files()[path], (release, path)


def test_changed_files_are_named_in_one_line(tmp_path: Path) -> None:
    source = source_of("0.4.0")
    texts = {path: source.read(path) for path in (ACTOR, LOSSES, GSM8K)}
    places = checkout(tmp_path, **texts)
    assert managers.remark_on_changed(recipient(TREE, places, {}), ()) == []
    said = {path: f"{text}\nFURTHER = 1\n" for path, text in texts.items()}
    places = checkout(tmp_path, **said, **{"verl/trainer/ppo/own.py": "A = 1\n"})
    project = recipient(TREE, places, {})
    assert sorted(managers.find_changed(project)) == sorted(texts)
    (remark,) = managers.remark_on_changed(project, ("verl/utils/reward_score/",))
    assert remark.what == "not carried over"
    assert "trainer/ppo/core_algos.py, workers/actor/dp_actor.py" in remark.why
    assert "gsm8k" not in remark.why


def test_a_changed_class_scores_as_its_program_makes_it(tmp_path: Path, imports: Path) -> None:
    places = checkout(tmp_path, **{NAIVE: CLASS, "verl/trainer/main_ppo.py": PROGRAM})
    project = recipient(TREE, places, {KEY: "naive"})
    taken = taken_from(project)
    assert taken.settings == {KEY: "of_the_run"}
    assert taken.places[0] == NAIVE
    assert [item.what for item in taken.remarks] == ["changed", "to do"]
    assert "judge" in taken.remarks[1].why

    put(imports, {"config/unknown.yaml": "own.more: 2\n"})
    cls = registered(taken.tree, imports, "of_the_run")
    manager = cls(tokenizer=None, num_examine=0, config=OmegaConf.create({"own": {}}))
    assert manager.given == (2, "<end>", None)
    assert manager([1, 2]) == [0.5, 1.0]


@pytest.mark.parametrize("own", ["@register('naive')\nclass Judged", "class NaiveRewardManager"])
def test_of_several_classes_of_a_file_the_one_of_that_name_scores(tmp_path: Path, imports: Path, own: str) -> None:
    other = "\n\n@register('naive_code')\nclass Coded:\n    def __call__(self, data):\n        raise AssertionError\n"
    text = CLASS.replace('@register("naive")\nclass Shorter', own)
    assert text != CLASS
    places = checkout(tmp_path, **{NAIVE: f"{text}{other}", "verl/trainer/main_ppo.py": "import ray\n"})
    taken = taken_from(recipient(TREE, places, {KEY: "naive"}))
    cls = registered(taken.tree, imports, "of_the_run")
    assert own.rpartition(" ")[2] in {base.__name__ for base in cls.__mro__}


def test_the_class_of_a_program_that_scores_all_by_a_function_of_its_own(tmp_path: Path, imports: Path) -> None:
    """No source of data is named: what was changed is where the answer comes from."""
    places = checkout(
        tmp_path, **{"verl/trainer/main_ppo.py": OWN_PROGRAM, "grading.py": "def grade(x):\n    return x\n"}
    )
    project = recipient(TREE, places, {})
    taken = taken_from(project)
    assert taken.settings == {KEY: "of_the_run"}
    assert [item.what for item in taken.remarks] == ["changed"]
    assert "rules of its own" in taken.remarks[0].why
    cls = registered(taken.tree, imports, "of_the_run")
    assert cls(tokenizer=None, num_examine=0)([3]) == [3]


def test_what_a_programs_manager_uses_counts() -> None:
    def of_manager(text: str) -> str:
        manager = managers.find_program_managers(ast.parse(text))
        assert manager is not None
        return fingerprint(manager)

    text = f"{OWN_PROGRAM}\n\ndef unused():\n    return 0\n"
    for used in ("_select", "unused"):
        changed = text.replace(f"def {used}():\n    return", f"def {used}():\n    return 1 +")
        assert changed != text
        assert (of_manager(changed) == of_manager(text)) == (used == "unused")


def test_a_class_as_some_version_of_verl_had_it_stays(tmp_path: Path) -> None:
    places = checkout(tmp_path, **{NAIVE: f"# Of 0.4.0\n{source_of('0.4.0').read(NAIVE)}"})
    assert taken_from(recipient(TREE, places, {KEY: "naive"})) == CopyResult(TREE)


def test_a_scorer_that_was_changed_comes_along(tmp_path: Path) -> None:
    source = source_of(NEWEST[-1])
    path = "verl/utils/reward_score/__init__.py"
    texts = {path: source.read(path), GSM8K: source.read(GSM8K)}
    project = recipient(TREE, checkout(tmp_path, **texts), {})
    assert taken_from(project).settings == {}
    texts[GSM8K] += "\n\ndef half(score):\n    return score / 2\n"
    project = recipient(TREE, checkout(tmp_path, **texts), {})
    taken = taken_from(project)
    assert taken.settings == {"reward.custom_reward_function.path": "pkg_of_run/custom/verl_reward.py"}
    copied = {file.path: file.data.decode() for file in taken.tree}
    assert "def half" in copied[f"pkg_of_run/custom/from_run/{GSM8K}"]
    # A run may say that no function scores, in which case its verl's own does.
    project = recipient(TREE, checkout(tmp_path, **texts), {"reward.custom_reward_function.name": None})
    taken = taken_from(project)
    assert taken.settings["reward.custom_reward_function.name"] == "compute_score"


def test_a_function_finds_the_module_beside_it(tmp_path: Path) -> None:
    """Also where it asks for it relatively, as a part of its package."""
    folder = "verl/verl/utils/reward_score"
    function = "try:\n    from .own_grader import grade\nexcept ImportError:\n    grade = None\n\n\n"
    function += "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
    function += "    return grade(solution_str)\n"
    files = {f"{path}/__init__.py": "" for path in ("verl/verl", "verl/verl/utils", folder)}
    files |= {".git/config": "", f"{folder}/own_grader.py": "def grade(text):\n    return float(text == '4')\n"}
    repo = put(tmp_path / "repo", {**files, f"{folder}/own_score.py": function})
    launch = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.rollout.n=4 "
    put(repo, {"run.sh": f"{launch} custom_reward_function.path={repo}/{folder}/own_score.py\n"})
    made = imported(tmp_path / "proj", repo / "run.sh", "--engine", "hf")
    assert "def grade" in made.read("proj/custom/from_run/verl/utils/reward_score/own_grader.py")
    taken = "from proj.custom.from_run.verl.utils.reward_score.own_grader import grade"
    assert taken in made.read("proj/custom/verl_reward.py")


def test_of_a_programs_managers_the_last_is_what_trains() -> None:
    program = (
        "class Trains: ...\n\nclass Watches: ...\n\nclass Other: ...\n\n\n"
        "def main(config):\n    reward_fn = Trains(num_examine=0)\n"
        "    if config.watch:\n        for kind in config.kinds:\n"
        "            found = Watches(num_examine=0, kind=kind)\n"
        "    Elsewhere(num_examine=1)\n"
    )
    assert managers.find_program_classes(ast.parse(program)) == ["Watches", "Trains"]
    assert managers.find_program_classes(ast.parse(program.replace("reward_fn", "score")))[-1] == "Watches"


def test_settings_that_only_the_checkouts_config_has_come_with_the_scorer_that_reads_them(tmp_path: Path) -> None:
    """The class hands its config on to a function of another file, and no script says what that reads there."""
    config = source_of("0.4.0").read("verl/trainer/config/ppo_trainer.yaml")
    naive = CLASS.replace("size, end, judge=None, compute_score=None", "compute_score=None, config=None")
    naive = naive.replace("self.given = (size, end, judge)", "self.config = config")
    scores = "from verl.utils.reward_score import _default_compute_score as score\n"
    fork = {
        "verl/trainer/config/ppo_trainer.yaml": config.replace(
            "\ntrainer:\n", "\ntrainer:\n  weights: {kind: linear, peak: 0.5}\n"
        ),
        NAIVE: scores + naive.replace("item / self.given[0]", "score('mine', item, 'a', config=self.config)"),
        "verl/utils/reward_score/__init__.py": (
            "def _default_compute_score(data_source, solution_str, ground_truth, config=None):\n"
            "    return config.trainer.weights.peak if config.trainer.weights.kind == 'linear' else 0.0\n"
        ),
    }
    checkout(tmp_path, **fork)
    launch = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo actor_rollout_ref.model.path=m\n"
    script = put(tmp_path / "fork", {"run.sh": launch}) / "run.sh"
    unknown = imported(tmp_path / "own", script, "--engine", "hf").read("config/unknown.yaml")
    assert "trainer.weights.kind: linear\ntrainer.weights.peak: 0.5\n" in unknown
    assert "ray" not in unknown, "which nothing that was copied reads"


def test_what_a_project_dropped_of_a_class_comes_along_where_it_is_inherited() -> None:
    """A project's copy of a class is without the methods that the project itself does not use."""
    path = "verl/workers/reward_manager/abstract.py"
    source = source_of(NEWEST[-1])
    base, _, dropped = source.read(path).rpartition("    def ")
    name = dropped.partition("(")[0]
    texts = {"abstract": (base, path), "protocol": ("class DataProto:\n    pass\n", "verl/protocol.py")}
    files = {f"pkg_of_run/vendored/{module}.py": found for module, found in texts.items()}
    vendored = [File(here, FileKind.VENDORED, text.encode(), there) for here, (text, there) in files.items()]
    tree = Tree.of([*TREE, *vendored])
    text = (
        "from verl.workers.reward_manager.abstract import AbstractRewardManager\n\n\n"
        "class Own(AbstractRewardManager):\n    def __call__(self, data):\n        return self.{}()\n"
    )
    for method, module in (
        (name, "custom.from_run.verl.workers.reward_manager.abstract"),
        ("own", "vendored.abstract"),
    ):
        copying = recipient(tree, RunFolders(()), {}).copying()
        copied = copying.copy(text.format(method), ["Own"])
        assert copied.text.splitlines()[0] == f"from pkg_of_run.{module} import AbstractRewardManager"
        assert any(f"def {name}" in content for content in copying.files.values()) == (method == name)
