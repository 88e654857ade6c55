"""The loop: who goes on, when an episode ends, and what each environment is told."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.environments.support import Project, prompts_of, rollouts_of

PROMPT = "<user>?<assistant>"


class Env:
    """Ends after as many turns as the row says; answers with a digit; remembers what it was told."""

    made: ClassVar[list[Env]] = []

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.actions: list[str] = []
        self.closed = False
        Env.made.append(self)

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.seed, self.options = seed, options
        return "?", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        turn = len(self.actions)
        return str(turn), 1.0, turn == self.options.get("turns"), turn == self.options.get("cut"), {"acc": 1.0}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _no_environments() -> None:
    Env.made = []


@pytest.fixture
def prompts(episodic: Project, tokenizer: Any) -> Any:
    """A function from the rows' extra_info to prompts."""

    def make(*infos: dict[str, Any], **meta: Any) -> Any:
        return prompts_of(episodic, [tokenizer(PROMPT)["input_ids"]] * len(infos), list(infos), **meta)

    return make


def always(text: str) -> Any:
    return lambda contexts: [text] * len(contexts)


def text_of(tokenizer: Any, batch: Any, row: int, mask: str = "attention_mask") -> str:
    length = batch.batch["responses"].shape[1]
    return str(tokenizer.decode(batch.batch["responses"][row][batch.batch[mask][row, -length:].bool()]))


def test_finished_episodes_drop_out_of_the_next_turn(play: Any, prompts: Any, tokenizer: Any) -> None:
    batch, engine = play(always("7<eos>"), Env, prompts({"turns": 2}, {"turns": 1}, {"cut": 3}, {"turns": 1}))
    assert [len(contexts) for contexts, _ in engine.calls] == [4, 2, 1]
    assert [len(env.actions) for env in Env.made] == [2, 1, 3, 1]
    assert all(env.closed for env in Env.made)
    assert list(batch.non_tensor_batch["env_end"]) == ["terminated", "terminated", "truncated", "terminated"]
    assert batch.non_tensor_batch["turns"].tolist() == [2, 1, 3, 1]
    assert batch.non_tensor_batch["__num_turns__"].tolist() == [4, 2, 6, 2]
    assert text_of(tokenizer, batch, 2) == "7<eos><user>1<assistant>7<eos><user>2<assistant>7<eos>"
    assert text_of(tokenizer, batch, 2, "response_mask") == "7<eos>7<eos>7<eos>"
    assert batch.batch["rm_scores"].sum(-1).tolist() == [2, 1, 3, 1]


LIMITS = (
    ("actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2", "turns_spent", 2, 7),
    ("actor_rollout_ref.rollout.multi_turn.max_user_turns=2", "turns_spent", 3, 12),
    ("data.max_response_length=12", "budget_spent", 3, 12),
    ("data.max_response_length=11", "budget_spent", 3, 11),  # the third turn has one token left
    ("data.max_response_length=10", "budget_spent", 2, 7),  # an answer that nothing can follow is left out
)


def test_turns_and_tokens_are_limited(play: Any, prompts: Any) -> None:
    for setting, end, turns, length in LIMITS:
        Env.made = []
        batch, engine = play(always("7<eos>"), Env, prompts({}, {"turns": 1}), setting)
        assert batch.non_tensor_batch["env_end"].tolist() == [end, "terminated"], setting
        assert len(engine.calls) == turns == len(Env.made[0].actions)  # the last action is played too
        budget = batch.batch["responses"].shape[1]
        assert batch.batch["attention_mask"][0, -budget:].sum() == length, setting
        assert batch.batch["response_mask"][0, length - 1] == 1


def test_a_long_turn_is_cut_at_the_budget_of_its_own_episode(play: Any, prompts: Any, tokenizer: Any) -> None:
    """Both rows get the same limit from the engine; the one with less left does not run over."""

    def say(contexts: list[str]) -> list[str]:
        first = len(contexts[0]) == len(PROMPT)
        return ["1111<eos>", "1<eos>"] if first else ["22222222222222"] * len(contexts)

    batch, engine = play(say, Env, prompts({}, {}), "data.max_response_length=10")
    assert [meta["response_length"] for _, meta in engine.calls] == [10, 5]
    assert batch.batch["attention_mask"][:, -10:].sum(-1).tolist() == [10, 10]
    assert text_of(tokenizer, batch, 0) == "1111<eos><user>1<assistant>22"
    assert text_of(tokenizer, batch, 1) == "1<eos><user>1<assistant>22222"
    assert [env.actions[1] for env in Env.made] == ["22", "22222"]


def test_a_turn_has_a_limit_of_its_own(play: Any, prompts: Any, tokenizer: Any) -> None:
    batch, engine = play(always("123<eos>"), Env, prompts({"turns": 2}), "local.env.max_turn_tokens=2")
    assert [meta["response_length"] for _, meta in engine.calls] == [2, 2]
    assert text_of(tokenizer, batch, 0) == "12<eos><user>1<assistant>12"  # the end of the turn was added
    assert batch.batch["response_mask"][0, :8].tolist() == [1, 1, 0, 0, 0, 0, 1, 1]


def test_the_reward_manager_may_score_the_text_instead(play: Any, prompts: Any) -> None:
    batch, _ = play(always("7<eos>"), Env, prompts({"turns": 1}), "local.env.is_reward=false")
    assert "rm_scores" not in batch.batch
    assert "reward_extra_keys" not in batch.meta_info
    assert batch.non_tensor_batch["turn_scores"][0] == [1.0]


def test_environments_get_their_row_and_a_seed_of_prompt_and_step(play: Any, prompts: Any) -> None:
    def seeds(*settings: str, **meta: Any) -> list[int]:
        Env.made = []
        play(always("7<eos>"), Env, prompts({"turns": 1}, {"turns": 1, "board": 9}, **meta), *settings)
        assert [env.options for env in Env.made] == [{"turns": 1}, {"turns": 1, "board": 9}]
        assert Env.made[0].settings["max_turns"] == 4
        return [env.seed for env in Env.made]

    first = seeds()
    assert first == seeds()
    assert first[0] != first[1]
    assert set(first).isdisjoint(seeds(global_steps=2))
    assert set(first).isdisjoint(seeds("local.seed=2"))
    assert seeds(validate=True, global_steps=20) == seeds(validate=True, global_steps=40)
    # Samples of one prompt meet the same environment.
    Env.made = []
    play(always("7<eos>"), Env, prompts({"turns": 1}, {"turns": 1}).repeat(3, interleave=True))
    again = [env.seed for env in Env.made]
    assert len({*again[:3]}) == len({*again[3:]}) == 1
    assert again[0] != again[3]


def test_a_hook_without_make_env_is_named(episodic: Project, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(episodic.module("custom.env_wrapper"), "make_env")
    with pytest.raises(ValueError, match="needs a function make_env") as caught:
        rollouts_of(episodic, episodic.config(), tokenizer, None, None)
    assert "hint:" in str(caught.value)
