# vextract:template - edit freely
"""An episode of several turns as the trainer sees it: which tokens are the model's, and where the rewards are."""

import asyncio
import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import object_array

from __package__.custom import env_wrapper
from __package__.episodes.outcomes import episode_metrics
from __package__.episodes.playing import play_episodes
from __package__.run.process import run_in
from __package__.settings.loading import load_config
from __package__.training.rollouts import Rollouts
from __package__.vendored.protocol import DataProto

PROMPT_LENGTH, RESPONSE_LENGTH = 5, 12


class OneProcess:
    rank, world_size = 0, 1

    def spread(self, function, batch):
        return function(batch)

    def together(self, function):
        return function()


class Says:
    """An engine that says what it is told to: a text for each episode, turn by turn. A dot ends a turn."""

    def __init__(self, tokenizer, turns):
        self.tokenizer = tokenizer
        self.turns = turns
        self.contexts = []

    def session(self):
        return contextlib.nullcontext()

    def finish(self):
        pass

    def generate_sequences(self, prompts):
        ids, mask = prompts.batch["input_ids"], prompts.batch["attention_mask"]
        self.contexts.append([self.tokenizer.decode(row[valid.bool()]) for row, valid in zip(ids, mask, strict=True)])
        length = prompts.meta_info["response_length"]
        said = [self.tokenizer(text.replace(".", "<eos>"))["input_ids"][:length] for text in self.turns.pop(0)]
        pad = self.tokenizer.pad_token_id
        responses = torch.tensor([tokens + [pad] * (length - len(tokens)) for tokens in said])
        written = torch.tensor([[1] * len(tokens) + [0] * (length - len(tokens)) for tokens in said])
        return DataProto.from_dict(
            {
                "responses": responses,
                "attention_mask": torch.cat([mask, written], dim=-1),
                "rollout_log_probs": -0.5 * written.float(),
            }
        )


class Counts:
    """Answers with how many turns are left, and rewards the first character."""

    def reset(self, *, seed=None, options=None):
        self.left = options["turns"]

    def step(self, action):
        self.left -= 1
        return str(self.left), float(action[:1] or 0), self.left == 0, False, {"acc": 1.0, "said": action}


@pytest.fixture
def rollouts(tokenizer, monkeypatch):
    """A function from what the engine says, and overrides, to the rollouts, with an environment that counts."""
    monkeypatch.setattr(env_wrapper, "make_env", lambda settings: Counts(), raising=False)

    def make(turns, *overrides):
        settings = ["actor_rollout_ref.rollout.multi_turn.enable=true", "local.env.max_turn_tokens=null"]
        settings += [f"data.max_prompt_length={PROMPT_LENGTH}", f"data.max_response_length={RESPONSE_LENGTH}"]
        config = load_config(Path(__file__).parents[1] / "config", [*settings, *overrides])
        return play_episodes(Rollouts(config, OneProcess(), Says(tokenizer, turns)), config, tokenizer)

    return make


def prompts(tokenizer, *turns):
    """`<user>?<assistant>`, padded on the left, with so many turns for each episode."""
    ids = torch.tensor([[0, 0, *tokenizer("<user>?<assistant>")["input_ids"]]] * len(turns))
    mask = torch.tensor([[0, 0, 1, 1, 1]] * len(turns))
    return DataProto.from_dict(
        {"input_ids": ids, "attention_mask": mask, "position_ids": torch.tensor([[0, 0, 0, 1, 2]] * len(turns))},
        {
            "uid": np.array(["a"] * len(turns), dtype=object),
            "extra_info": object_array([{"turns": count} for count in turns]),
            "index": np.arange(len(turns)),
        },
        {"global_steps": 1},
    )


def test_what_the_environment_says_is_seen_and_not_trained(rollouts, tokenizer):
    loop = rollouts([["1.", "5."], ["23."]])
    batch = loop.generate(prompts(tokenizer, 2, 1))
    tokens, mask, attention = (batch.batch[k] for k in ("responses", "response_mask", "attention_mask"))
    # 1 <eos> <user> 1 <assistant> 2 3 <eos>, and 5 <eos>
    assert tokenizer.decode(tokens[0][:8]) == "1<eos><user>1<assistant>23<eos>"
    assert mask.tolist() == [[1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0], [1, 1] + [0] * 10]
    assert attention[:, PROMPT_LENGTH:].tolist() == [[1] * 8 + [0] * 4, [1, 1] + [0] * 10]
    assert batch.batch["input_ids"].tolist() == torch.cat([batch.batch["prompts"], tokens], dim=-1).tolist()
    assert batch.batch["position_ids"][0].tolist() == [0, 0, 0, 1, 2, *range(3, 15)]
    assert batch.batch["rollout_log_probs"][0].tolist() == [-0.5, -0.5, 0, 0, 0, -0.5, -0.5, -0.5, 0, 0, 0, 0]
    assert loop.engine.contexts == [["<user>?<assistant>"] * 2, ["<user>?<assistant>1<eos><user>1<assistant>"]]


@pytest.mark.parametrize(("place", "rewards"), [("end", {7: 3.0}), ("turn", {1: 1.0, 7: 2.0})])
def test_rewards_are_on_the_models_tokens(rollouts, tokenizer, place, rewards):
    batch = rollouts([["1."], ["23."]], f"local.env.reward_at={place}").generate(prompts(tokenizer, 2))
    placed = batch.batch["rm_scores"][0]
    assert {int(i): placed[i].item() for i in placed.nonzero()[:, 0]} == rewards
    assert batch.non_tensor_batch["turn_scores"][0] == [1.0, 2.0]
    assert batch.meta_info["reward_extra_keys"] == ["acc", "said", "turns"]
    assert list(batch.non_tensor_batch["said"]) == ["23"]
    assert set(batch.non_tensor_batch) >= {"index"} and "uid" not in batch.non_tensor_batch


def test_an_episode_ends_with_the_model_when_the_budget_is_spent(rollouts, tokenizer):
    # 1 <eos> <user> 8 <assistant> 1 <eos> <user> 7 <assistant> 3 4: twelve tokens
    batch = rollouts([["1."], ["1."], ["3456."]]).generate(prompts(tokenizer, 9))
    assert tokenizer.decode(batch.batch["responses"][0]) == "1<eos><user>8<assistant>1<eos><user>7<assistant>34"
    assert batch.non_tensor_batch["env_end"][0] == "budget_spent"
    assert list(batch.non_tensor_batch["said"]) == ["34"]
    assert episode_metrics(batch)["env/budget_spent"] == 1.0


def test_an_environment_that_fails_costs_its_own_sample(rollouts, tokenizer, monkeypatch, capsys):
    step = Counts.step
    monkeypatch.setattr(Counts, "step", lambda self, action: step(self, action) if action != "7" else {}["state"])
    batch = rollouts([["1.", "7.", "3."], ["2."]]).generate(prompts(tokenizer, 2, 2, 1))
    assert list(batch.non_tensor_batch["env_end"]) == ["terminated", "error", "terminated"]
    assert batch.batch["rm_scores"].sum(-1).tolist() == [3.0, 3.0, 3.0]  # the failed one: the mean of the others
    assert batch.batch["response_mask"].any(-1).tolist() == [True, False, True]
    assert "1 of 3 environments failed; the first: step raised KeyError: 'state'" in capsys.readouterr().err
    assert episode_metrics(batch)["env/errors"] == 1.0


def test_an_interruption_leaves_no_task_behind():
    loop = asyncio.new_event_loop()

    def interrupt():
        raise KeyboardInterrupt

    async def play():
        loop.call_later(0.01, interrupt)
        await asyncio.gather(*(asyncio.sleep(60) for _ in range(2)))

    with pytest.raises(KeyboardInterrupt):
        run_in(loop, play())
    assert not asyncio.all_tasks(loop)
    loop.close()


async def leave():
    sys.exit(0)


@pytest.mark.parametrize(
    ("answer", "overrides", "said"),
    [
        (lambda: ("", 1.0, True, False, ["no", "dictionary"]), (), "returned a list as info"),
        (lambda: sys.exit(0), (), "SystemExit"),
        (lambda: sys.exit(0), ("local.env.threads=true",), "SystemExit"),
        (leave, (), "SystemExit"),
    ],
)
def test_what_would_end_the_program_costs_a_sample_as_well(rollouts, tokenizer, monkeypatch, answer, overrides, said):
    step = Counts.step
    monkeypatch.setattr(Counts, "step", lambda self, action: step(self, action) if action != "7" else answer())
    batch = rollouts([["7.", "3."]], *overrides).generate(prompts(tokenizer, 1, 1))
    assert list(batch.non_tensor_batch["env_end"]) == ["error", "terminated"]
    assert said in batch.non_tensor_batch["env_error"][0]


def test_what_an_environment_reports_stands_for_no_column_of_the_data(rollouts, tokenizer, monkeypatch, capsys):
    step = Counts.step
    taken = {"uid": "b", "data_source": "b", "turns": 9, "index": 0.5}
    monkeypatch.setattr(Counts, "step", lambda self, action: (*step(self, action)[:4], {**taken, "mine": 1.0}))
    loop = rollouts([["3."], ["3."]])
    columns, _ = [loop.generate(prompts(tokenizer, 1)).non_tensor_batch for _ in range(2)]
    assert {"uid", "data_source"}.isdisjoint(columns)
    assert columns["turns"][0] == 1 and columns["mine"][0] == 1.0 and columns["index"][0] == 0
    assert capsys.readouterr().err.count("report data_source, index, turns, uid in info") == 1
