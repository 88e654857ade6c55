# vextract:hook  yours: written once, never touched by an upgrade
"""The environment of this project, as the trainer will call it. Change these with the hooks."""

from __package__.custom.env_dataset import environment_rows
from __package__.custom.env_wrapper import make_env
from __package__.rewards.scoring import resolved


def played(options, turns=3):
    """Return what an episode says and gives to the same nonsense."""
    env = make_env({})
    seen = [resolved(env.reset(seed=options.get("env_seed"), options=options))[0]]
    for _ in range(turns if hasattr(env, "step") else 0):  # an agent program plays it otherwise
        observation, reward, terminated, truncated, _ = resolved(env.step("?"))
        seen.append((observation, float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            break
    if hasattr(env, "close"):
        resolved(env.close())
    return seen


def test_a_row_begins_and_goes_on_the_same_way_each_time():
    row = environment_rows("train", {})[0]
    options = row["extra_info"]
    assert played(options)[0] == row["prompt"][0]["content"]
    assert played(options) == played(options)


def test_no_row_is_in_both_splits():
    train, val = ([dict(row["extra_info"]) for row in environment_rows(split, {})] for split in ("train", "val"))
    for row in (*train, *val):
        del row["index"], row["split"]
    assert [row for row in val if row in train] == []
