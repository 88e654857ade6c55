"""The owner's settings, carried to where a release has them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from extractor.pipeline.plan import Reason, Verdict
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.settings import CarriedSettings, LostSetting, MovedSetting, carry, rename_own_settings
from extractor.values.tree import Tree
from tests.lifecycle.worlds import NEW, OLD, create, files_of, ready, template, vendored

MAIN = "config/ppo_trainer.yaml"
REWARD = "config/reward/reward.yaml"
GRPO = "config/preset/grpo.yaml"
OLD_FILES = {
    MAIN: """\
defaults:
  - reward@_global_: reward
  - _self_
  - preset@_global_: grpo
data:
  # How many.
  size: 8
  seed: null
actor:
  gone: 1
local:
  env: {}
""",
    REWARD: """\
# What responses are worth.
judge:
  # The function.
  path: null
  name: score
  arguments: {}
buffer:
  len: 0  # tokens
  # Two words.
  words: [a, b]
""",
    GRPO: "algorithm: grpo\n",
    "config/preset/ppo.yaml": "algorithm: ppo\n",
}
NEW_FILES = {
    MAIN: """\
defaults:
  - reward@_global_: reward
  - _self_
  - preset@_global_: grpo
data:
  # How many there are.
  size: 8
  seed: null
local:
  env: {}
""",
    REWARD: """\
# What responses are worth.
reward:
  function:
    # The function.
    path: null
    name: score
  arguments:
    buffer:
      # How long.
      len: 0  # tokens
      words: [a, b]
""",
    GRPO: "algorithm: grpo\n",
    "config/preset/ppo.yaml": "algorithm: ppo\n",
}
BEFORE, AFTER = ({path: text.encode() for path, text in side.items()} for side in (OLD_FILES, NEW_FILES))
RENAMES = {
    "judge.path": "reward.function.path",
    "judge.name": "reward.function.name",
    "judge.arguments": "reward.arguments",
    "buffer": "reward.arguments.buffer",
}
BACK = {new: old for old, new in RENAMES.items()}


def renamed(key: str, table: dict[str, str] = RENAMES) -> str | None:
    for old in sorted(table, key=len, reverse=True):
        if key == old or key.startswith(f"{old}."):
            return table[old] + key.removeprefix(old)
    return None


def renamed_back(key: str) -> str | None:
    return renamed(key, BACK)


def carried(edits: dict[str, tuple[str, str]]) -> tuple[CarriedSettings, dict[str, str]]:
    """Carry edits, of a file each; what is left of the owner's files, and the new ones."""
    ours = {}
    for path, (old, new) in edits.items():
        assert old in OLD_FILES[path]
        ours[path] = OLD_FILES[path].replace(old, new, 1).encode()
    found = carry(BEFORE, ours, AFTER, renamed, set(AFTER))
    for path in edits:
        assert found.ours.get(path, BEFORE[path]) == BEFORE[path] or path in (MAIN,)
    return found, {path: data.decode() for path, data in found.theirs.items()}


def test_a_value_goes_where_its_key_is_now() -> None:
    found, new = carried({REWARD: ("path: null", "path: mine.py")})
    assert found.moved == (MovedSetting("judge.path", "reward.function.path", "mine.py", REWARD, REWARD),)
    assert new == {REWARD: NEW_FILES[REWARD].replace("path: null", "path: mine.py")}
    # Where nothing else changed the rest is left to the merge.
    found, new = carried({MAIN: ("size: 8", "size: 16")})
    assert found.moved == found.lost == ()
    assert new == {MAIN: NEW_FILES[MAIN].replace("size: 8", "size: 16")}
    assert found.ours[MAIN].decode() == OLD_FILES[MAIN]
    # Remarks of the owner's go along, others stay.
    _, new = carried({REWARD: ("  path: null", "  # Mine.\n  path: mine.py  # see there")})
    assert "    # The function.\n    # Mine.\n    path: mine.py  # see there\n    name: score\n" in new[REWARD]
    _, new = carried({REWARD: ("len: 0", "len: 4")})
    assert "      len: 4  # tokens\n" in new[REWARD]


def test_values_of_several_lines_and_sections() -> None:
    for written, expected in (
        ("words:\n  - a\n  - c  # more", "      words:\n      - a\n      - c  # more\n"),
        ("words: |\n    a\n\n    b", "      words: |\n        a\n\n        b\n"),
        ("words: [a,\n    c]", "      words: [a,\n        c]\n"),
        ('words: "a: # b"', '      words: "a: # b"\n'),
        ("words:", "      words:\n"),
    ):
        _, new = carried({REWARD: ("words: [a, b]", written)})
        assert new[REWARD].endswith(f"      len: 0  # tokens\n{expected}"), written
    for written, weights in (
        ("arguments:\n    weights:\n      form: 0.2", "    weights:\n      form: 0.2\n"),
        ("arguments: {weights: {form: 0.2}}", "    weights: {form: 0.2}\n"),
    ):
        _, new = carried({REWARD: ("arguments: {}", written)})
        assert new[REWARD] == NEW_FILES[REWARD] + weights


def test_keys_that_the_owner_added() -> None:
    found, new = carried({GRPO: ("algorithm: grpo\n", "algorithm: grpo\nbuffer:\n  # Longer.\n  len: 7\n")})
    assert new[GRPO] == "algorithm: grpo\nreward:\n  arguments:\n    buffer:\n      # Longer.\n      len: 7\n"
    assert [item.new_key for item in found.moved] == ["reward.arguments.buffer.len"]
    assert found.ours[GRPO].decode() == OLD_FILES[GRPO]
    # Those that are nobody else's stay under their names.
    found, new = carried({REWARD: ("  words: [a, b]\n", "  words: [a, b]\n  mine:\n    deep: 1\n")})
    assert "reward.arguments.buffer.mine.deep" in [item.new_key for item in found.moved]
    found, new = carried({MAIN: ("  gone: 1\n", "  gone: 1\n  mine: 2\n")})
    assert new[MAIN].endswith("actor:\n  mine: 2\n")
    assert found.lost == ()
    found, new = carried({MAIN: ("data:", "mine: 1\ndata:")})
    assert new == found.ours == {}


def test_what_stands_in_several_places_of_the_config_takes_nothing_that_is_for_one() -> None:
    """The actor's schedule would be the critic's as well."""
    main = "defaults:\n  - optim@actor.optim: adamw\n  - optim@critic.optim: adamw\n  - _self_\nactor:\n  size: 8\n"
    optim = "config/optim/adamw.yaml"
    base = {MAIN: main.encode(), optim: b"lr: 1\nwarmup_style: constant\n"}
    new = {MAIN: main.encode(), optim: b"lr: 1\nschedule: constant\n"}
    table = {f"{part}.optim.warmup_style": f"{part}.optim.schedule" for part in ("actor", "critic")}
    ours = {MAIN: main.replace("actor:\n", "actor:\n  optim:\n    warmup_style: cosine\n").encode()}
    found = carry(base, ours, new, lambda key: renamed(key, table), set(new))
    assert [(item.new_key, item.new_file) for item in found.moved] == [("actor.optim.schedule", MAIN)]
    assert optim not in found.theirs
    assert "    schedule: cosine\n" in found.theirs[MAIN].decode()


def test_what_a_recipe_says_stays_in_it() -> None:
    """Where it wins over presets, also if there is no other recipe."""
    recipe = "config/recipe/toy.yaml"
    main = "defaults:\n  - reward@_global_: reward\n  - _self_\n  - preset@_global_: grpo\n  - recipe@_global_: toy\n"
    base = {**OLD_FILES, MAIN: main, recipe: "# Nothing to change.\n"}
    new = {**NEW_FILES, MAIN: main, recipe: "# Nothing to change.\n"}
    before, after = ({path: text.encode() for path, text in side.items()} for side in (base, new))
    ours = {recipe: before[recipe] + b"buffer:\n  len: 7\n"}
    found = carry(before, ours, after, renamed, set(after))
    assert [(item.new_key, item.new_file) for item in found.moved] == [("reward.arguments.buffer.len", recipe)]
    assert list(found.theirs) == [recipe]


def test_what_has_no_place_is_lost_and_references_follow() -> None:
    found, new = carried({MAIN: ("gone: 1", "gone: 2")})
    assert found.lost == (LostSetting("actor.gone", "2", MAIN),)
    assert new == {}
    assert found.ours[MAIN].decode() == OLD_FILES[MAIN]
    found, new = carried({REWARD: ("name: score", "name: ${judge.path}")})
    assert "    name: ${reward.function.path}\n" in new[REWARD]
    found, _ = carried({MAIN: ("env: {}", "env: {}\n  mine: ${oc.select:judge.path,3}")})
    assert "  mine: ${oc.select:reward.function.path,3}\n" in found.ours[MAIN].decode()
    assert found.moved[0].referring
    found, _ = carried({MAIN: ("data:", "# Mine.\nmine: ${judge.path}\ndata:")})
    assert "# Mine.\nmine: ${reward.function.path}\ndata:" in found.ours[MAIN].decode()
    # Another default is left to the owner.
    assert carry({MAIN: b"a: 1\n"}, {MAIN: b"a: 2\n"}, {MAIN: b"a: 3\n"}, renamed, {MAIN}) == CarriedSettings()


@pytest.mark.parametrize(
    "text", ["judge: [\n", "judge: &a\n  path: 1\n", "a: 1\na: 2\n", "- 1\n", "{judge: {path: 1}}\n", "\ud800"]
)
def test_what_cannot_be_taken_apart_is_left_to_the_merge(text: str) -> None:
    data = text.encode(errors="surrogatepass")
    assert carry(BEFORE, {REWARD: data}, AFTER, renamed, set(AFTER)) == CarriedSettings()


def test_lines_that_end_as_on_windows() -> None:
    mine = OLD_FILES[REWARD].replace("path: null", "path: mine.py").replace("\n", "\r\n").encode()
    found = carry(BEFORE, {REWARD: mine}, AFTER, renamed, set(AFTER))
    assert found.ours[REWARD] == OLD_FILES[REWARD].replace("\n", "\r\n").encode()
    assert b"path: mine.py\n" in found.theirs[REWARD]


def trees() -> Iterator[Tree]:
    return (Tree.of([template(path, data) for path, data in side.items()]) for side in (BEFORE, AFTER))


def upgraded(project: Path, new: Tree, back: bool = False) -> dict[str, tuple[Verdict, Reason, str]]:
    entry = ready(project, new, OLD if back else NEW, {}, renamed_back if back else renamed)
    entry.run()
    return {action.path: (action.verdict, action.reason, action.note) for action in entry.plan.actions}


EDITS = {
    REWARD: [("  path: null", "  # Mine.\n  path: mine.py  # see there"), ("len: 0", "len: 4")],
    MAIN: [("size: 8", "size: 16"), ("env: {}", "env:\n    mine: 1")],
}


def test_there_and_back_is_as_it_was(tmp_path: Path) -> None:
    old, new = trees()
    project = create(tmp_path / "toy", old, OLD)
    for path, edits in EDITS.items():
        text = (project / path).read_text()
        for was, now in edits:
            text = text.replace(was, now, 1)
        (project / path).write_text(text)
    before = files_of(project)
    verdicts = upgraded(project, new)
    assert verdicts[REWARD] == (Verdict.MERGE, Reason.BOTH, "")
    assert "    path: mine.py  # see there\n" in (project / REWARD).read_text()
    upgraded(project, old, back=True)
    after = files_of(project)
    assert {path: after[path] for path in OLD_FILES} == {path: before[path] for path in OLD_FILES}


def test_the_file_of_a_lost_setting_is_parked(tmp_path: Path) -> None:
    old, new = trees()
    project = create(tmp_path / "toy", old, OLD)
    edited = OLD_FILES[MAIN].replace("gone: 1", "gone: 2")
    (project / MAIN).write_text(edited)
    verdicts = upgraded(project, new)
    note = f"a setting of yours has no place; your version is orphaned/{MAIN}"
    assert verdicts[MAIN] == (Verdict.MERGE, Reason.BOTH, note)
    assert (project / MAIN).read_text() == NEW_FILES[MAIN]
    assert (project / "orphaned" / MAIN).read_text() == edited
    assert "  actor.gone: 2\n" in (project / f"orphaned/{MAIN}.note").read_text()


def test_a_config_file_that_is_gone(tmp_path: Path) -> None:
    old = Tree.of([template(MAIN, b"defaults:\n  - x\n"), template("config/x.yaml", b"judge:\n  path: 1\n  old: 2\n")])
    new = Tree.of([template(MAIN, b"defaults: []\nreward:\n  function:\n    path: 1\n")])
    project = create(tmp_path / "toy", old, OLD)
    (project / "config/x.yaml").write_text("judge:\n  path: 3\n  old: 2\n")
    verdicts = upgraded(project, new)
    assert verdicts["config/x.yaml"] == (Verdict.DELETE, Reason.CARRIED, "your settings are in other files")
    assert "    path: 3\n" in (project / MAIN).read_text()
    project = create(tmp_path / "other", old, OLD)
    (project / "config/x.yaml").write_text("judge:\n  path: 3\n  old: 4\n")
    verdicts = upgraded(project, new)
    assert verdicts["config/x.yaml"][:2] == (Verdict.ORPHAN, Reason.GONE)
    assert "    path: 3\n" in (project / MAIN).read_text()


def test_nothing_is_put_where_something_of_the_owners_lies(tmp_path: Path) -> None:
    old = Tree.of([template(MAIN, b"defaults:\n  - x\na: 1\njudge:\n  path: 1\n")])
    new = Tree.of(
        [template(MAIN, b"defaults:\n  - x\na: 1\n"), template("config/x.yaml", b"reward:\n  function:\n    path: 1\n")]
    )
    project = create(tmp_path / "toy", old, OLD)
    (project / MAIN).write_text("defaults:\n  - x\na: 1\njudge:\n  path: 3\n")
    (project / "config/x.yaml").write_text("mine: 1\n")
    verdicts = upgraded(project, new)
    assert verdicts["config/x.yaml"][:2] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (project / "config/x.yaml").read_text() == "mine: 1\n"
    assert (project / MAIN).read_text().endswith("a: 1\nreward:\n  function:\n    path: 3\n")


def test_all_that_has_taken_the_part_of_a_file_is_named(small: Path) -> None:
    (small / "toy/gone.py").write_bytes(b"gone\n1\nmine\n")
    new = Tree.of(
        [vendored("engine.py", b"engine\n"), vendored("losses.py", b"losses\n"), vendored("pad.py", b"pad\n")]
    )
    places = {"toy/gone.py": Successor(("toy/engine.py", "toy/losses.py", "toy/pad.py"), same=False)}
    entry = ready(small, new, NEW, places)
    assert not any(action.verdict is Verdict.MERGE for action in entry.plan.actions)
    entry.run()
    note = (small / "orphaned/toy/gone.py.note").read_text()
    said = (
        "Its part is now in toy/engine.py, toy/losses.py, toy/pad.py, but your edits cannot be merged automatically.\n"
    )
    assert said in note


OWN = """\
# @package _global_
# What I tried.

judge:
  # Of mine.
  path: 1  # the first
data:
  size: ${judge.path}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            OWN,
            "# @package _global_\n# What I tried.\n\ndata:\n  size: ${reward.function.path}\n"
            "reward:\n  function:\n    # Of mine.\n    path: 1  # the first\n",
        ),
        ("judge:\n  path: 1\n  mine: 2\n", "judge:\n  mine: 2\nreward:\n  function:\n    path: 1\n"),
        ("mine: 1\ndata:\n  size: 3\n", None),  # nothing of it has another name
        ("judge: {path: 1}\n", None),  # keys in braces share a line
        ("a: &x 1\njudge:\n  path: *x\n", None),
        ("judge:\n  path: 1\nreward:\n  function:\n    path: 2\n", None),  # which of the two is meant?
        (  # two names that became one
            "judge:\n  path: 1\n  other: 2\n",
            "judge:\n  other: 2\nreward:\n  function:\n    path: 1\n",
        ),
        ("judge:\n  path: 1\n  other: 1\n", "reward:\n  function:\n    path: 1\n"),
        ("judge:\r\n  path: 1\r\n", None),
        ("judge: [\n", None),
    ],
)
def test_files_of_the_owners_own_get_new_names(text: str, expected: str | None) -> None:
    old = {MAIN: b"judge:\n  path: null\n  other: null\ndata:\n  size: 1\n"}
    new = Tree.of([template(MAIN, b"reward:\n  function:\n    path: null\ndata:\n  size: 1\n")])
    renamed = {"judge.path": "reward.function.path", "judge.other": "reward.function.path"}.get
    files, moved = rename_own_settings({"config/mine.yaml": text.encode()}, old, new, renamed)
    assert files == ({"config/mine.yaml": expected.encode()} if expected is not None else {})
    assert {item.new_key for item in moved if not item.referring} == set(files and ["reward.function.path"])
    # What is left is the owner's to decide.
    assert rename_own_settings(files, old, new, renamed)[0] == {}


def test_what_stands_in_a_section_that_takes_anything_goes_along() -> None:
    old = {MAIN: b"judge:\n  more: {}\n"}
    new = Tree.of([template(MAIN, b"reward:\n  more: {}\n")])
    text = "judge:\n  more:\n    seconds: 3\n    weights:\n      score: 1.0\n"

    def renamed(key: str) -> str | None:
        return f"reward.{key.removeprefix('judge.')}" if key.startswith("judge.") else None

    files, _ = rename_own_settings({"config/mine.yaml": text.encode()}, old, new, renamed)
    assert files == {"config/mine.yaml": text.replace("judge", "reward").encode()}
