"""The owner's settings, carried to where a release has them."""

from pathlib import Path

from extractor.pipeline.plan import Reason, Verdict
from extractor.usecases.upgrade.settings import CarriedSettings, LostSetting, MovedSetting, carry, rename_own_settings
from extractor.values.tree import Tree
from tests.lifecycle.worlds import NEW, OLD, create, files_of, ready, replace_once, templates

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
}
NEW_FILES = {
    MAIN: OLD_FILES[MAIN].replace("# How many.", "# How many there are.").replace("actor:\n  gone: 1\n", ""),
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


def carried(edits: dict[str, tuple[str, str]]) -> tuple[CarriedSettings, dict[str, str]]:
    """Carry edits, of a file each; what is left of the owner's files, and the new ones."""
    ours = {}
    for path, (old, new) in edits.items():
        assert old in OLD_FILES[path]
        ours[path] = OLD_FILES[path].replace(old, new, 1).encode()
    found = carry(BEFORE, ours, AFTER, renamed, set(AFTER))
    assert all(found.ours.get(path, BEFORE[path]) == BEFORE[path] for path in edits if path != MAIN)
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


def test_values_of_several_lines_and_sections() -> None:
    for written, expected in (
        ("words:\n  - a\n  - c  # more", "      words:\n      - a\n      - c  # more\n"),
        ("words: |\n    a\n\n    b", "      words: |\n        a\n\n        b\n"),
        ("words:", "      words:\n"),
    ):
        _, new = carried({REWARD: ("words: [a, b]", written)})
        assert new[REWARD].endswith(f"      len: 0  # tokens\n{expected}"), written
    _, new = carried({REWARD: ("arguments: {}", "arguments: {weights: {form: 0.2}}")})
    assert new[REWARD] == NEW_FILES[REWARD] + "    weights: {form: 0.2}\n"


def test_keys_that_the_owner_added() -> None:
    found, new = carried({GRPO: ("algorithm: grpo\n", "algorithm: grpo\nbuffer:\n  # Longer.\n  len: 7\n")})
    assert new[GRPO] == "algorithm: grpo\nreward:\n  arguments:\n    buffer:\n      # Longer.\n      len: 7\n"
    assert [item.new_key for item in found.moved] == ["reward.arguments.buffer.len"]
    assert found.ours[GRPO].decode() == OLD_FILES[GRPO]
    # Those that are nobody else's stay under their names.
    found, new = carried({MAIN: ("  gone: 1\n", "  gone: 1\n  mine: 2\n")})
    assert new[MAIN].endswith("actor:\n  mine: 2\n")
    assert found.lost == ()


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


def test_what_has_no_place_is_lost_and_references_follow() -> None:
    found, new = carried({MAIN: ("gone: 1", "gone: 2")})
    assert found.lost == (LostSetting("actor.gone", "2", MAIN),)
    assert new == {}
    assert found.ours[MAIN].decode() == OLD_FILES[MAIN]
    found, new = carried({REWARD: ("name: score", "name: ${judge.path}")})
    assert "    name: ${reward.function.path}\n" in new[REWARD]
    found, _ = carried({MAIN: ("data:", "# Mine.\nmine: ${oc.select:judge.path,3}\ndata:")})
    assert "# Mine.\nmine: ${oc.select:reward.function.path,3}\ndata:" in found.ours[MAIN].decode()
    assert found.moved[0].referring
    # Another default is left to the owner.
    assert carry({MAIN: b"a: 1\n"}, {MAIN: b"a: 2\n"}, {MAIN: b"a: 3\n"}, renamed, {MAIN}) == CarriedSettings()


def test_what_cannot_be_taken_apart_is_left_to_the_merge() -> None:
    for text in ("judge: [\n", "judge: &a\n  path: 1\n", "a: 1\na: 2\n", "{judge: {path: 1}}\n", "\ud800"):
        data = text.encode(errors="surrogatepass")
        assert carry(BEFORE, {REWARD: data}, AFTER, renamed, set(AFTER)) == CarriedSettings(), text
    mine = OLD_FILES[REWARD].replace("path: null", "path: mine.py").replace("\n", "\r\n").encode()
    found = carry(BEFORE, {REWARD: mine}, AFTER, renamed, set(AFTER))
    assert found.ours[REWARD] == OLD_FILES[REWARD].replace("\n", "\r\n").encode()
    assert b"path: mine.py\n" in found.theirs[REWARD]


def upgraded(project: Path, new: Tree, back: bool = False) -> dict[str, tuple[Verdict, Reason, str]]:
    entry = ready(project, new, OLD if back else NEW, {}, lambda key: renamed(key, BACK if back else RENAMES))
    entry.run()
    return {action.path: (action.verdict, action.reason, action.note) for action in entry.plan.actions}


def test_there_and_back_is_as_it_was(tmp_path: Path) -> None:
    old, new = templates(OLD_FILES), templates(NEW_FILES)
    project = create(tmp_path / "toy", old, OLD)
    replace_once(project / REWARD, "  path: null", "  # Mine.\n  path: mine.py  # see there")
    replace_once(project / MAIN, "env: {}", "env:\n    mine: 1")
    before = files_of(project)
    verdicts = upgraded(project, new)
    assert verdicts[REWARD] == (Verdict.MERGE, Reason.BOTH, "")
    assert "    path: mine.py  # see there\n" in (project / REWARD).read_text()
    upgraded(project, old, back=True)
    after = files_of(project)
    assert {path: after[path] for path in OLD_FILES} == {path: before[path] for path in OLD_FILES}
    # The file of a setting that is lost is parked.
    replace_once(project / MAIN, "gone: 1", "gone: 2")
    edited = (project / MAIN).read_text()
    verdicts = upgraded(project, new)
    note = f"a setting of yours has no place; your version is orphaned/{MAIN}"
    assert verdicts[MAIN] == (Verdict.MERGE, Reason.BOTH, note)
    assert "gone" not in (project / MAIN).read_text()
    assert (project / "orphaned" / MAIN).read_text() == edited
    assert "  actor.gone: 2\n" in (project / f"orphaned/{MAIN}.note").read_text()


def test_a_config_file_that_is_gone(tmp_path: Path) -> None:
    old = templates({MAIN: "defaults:\n  - x\n", "config/x.yaml": "judge:\n  path: 1\n  old: 2\n"})
    new = templates({MAIN: "defaults: []\nreward:\n  function:\n    path: 1\n"})
    for value, verdict in ((2, (Verdict.DELETE, Reason.CARRIED)), (4, (Verdict.ORPHAN, Reason.GONE))):
        project = create(tmp_path / str(value), old, OLD)
        (project / "config/x.yaml").write_text(f"judge:\n  path: 3\n  old: {value}\n")
        assert upgraded(project, new)["config/x.yaml"][:2] == verdict
        assert "    path: 3\n" in (project / MAIN).read_text()


def test_nothing_is_put_where_something_of_the_owners_lies(tmp_path: Path) -> None:
    main = "defaults:\n  - x\na: 1\n"
    project = create(tmp_path / "toy", templates({MAIN: f"{main}judge:\n  path: 1\n"}), OLD)
    replace_once(project / MAIN, "path: 1", "path: 3")
    (project / "config/x.yaml").write_text("mine: 1\n")
    new = templates({MAIN: main, "config/x.yaml": "reward:\n  function:\n    path: 1\n"})
    verdicts = upgraded(project, new)
    assert verdicts["config/x.yaml"][:2] == (Verdict.CONFLICT, Reason.IN_THE_WAY)
    assert (project / "config/x.yaml").read_text() == "mine: 1\n"
    assert (project / MAIN).read_text().endswith("a: 1\nreward:\n  function:\n    path: 3\n")


# A file of the owner's, and what becomes of it; None: it stays.
OWNERS = (
    (
        "# @package _global_\n# What I tried.\n\njudge:\n  # Of mine.\n  path: 1  # the first\n"
        "data:\n  size: ${judge.path}\n",
        "# @package _global_\n# What I tried.\n\ndata:\n  size: ${reward.function.path}\n"
        "reward:\n  function:\n    # Of mine.\n    path: 1  # the first\n",
    ),
    (
        "judge:\n  path: 1\n  more:\n    weights:\n      score: 1.0\n",
        "reward:\n  function:\n    path: 1\n  more:\n    weights:\n      score: 1.0\n",
    ),
    ("mine: 1\ndata:\n  size: 3\n", None),  # nothing of it has another name
    ("judge: {path: 1}\n", None),  # keys in braces share a line
    ("judge:\n  path: 1\nreward:\n  function:\n    path: 2\n", None),  # which of the two is meant?
    # Two names that became one.
    ("judge:\n  path: 1\n  other: 2\n", "judge:\n  other: 2\nreward:\n  function:\n    path: 1\n"),
    ("judge: [\n", None),
)


def test_files_of_the_owners_own_get_new_names() -> None:
    old = {MAIN: b"judge:\n  path: null\n  other: null\n  more: {}\ndata:\n  size: 1\n"}
    new = templates({MAIN: "reward:\n  function:\n    path: null\n  more: {}\ndata:\n  size: 1\n"})
    table = {"judge.path": "reward.function.path", "judge.other": "reward.function.path", "judge.more": "reward.more"}
    for text, expected in OWNERS:
        given = {"config/mine.yaml": text.encode()}
        files, moved = rename_own_settings(given, old, new, lambda key: renamed(key, table))
        assert files == ({"config/mine.yaml": expected.encode()} if expected is not None else {}), text
        assert ("reward.function.path" in {item.new_key for item in moved}) == bool(files)
        # What is left is the owner's to decide.
        assert rename_own_settings(files, old, new, lambda key: renamed(key, table))[0] == {}
