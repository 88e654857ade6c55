"""What a script may bring: prompts, rewards and environments of every form; and what is said where they are wrong."""

import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import answer_of, check_forked, overrides
from tests.project.support import PACKAGE

pytestmark = pytest.mark.slow
ONE_STEP = overrides(
    "trainer.logger=[]", "trainer.total_training_steps=1", "trainer.save_freq=-1", "trainer.test_freq=-1"
)
TWO_STEPS = overrides("trainer.logger=[]")
BEGIN = f"""
import json, warnings
import datasets, pandas, torch
from torch.utils.data import DataLoader, Dataset
from {PACKAGE} import EnvDataset, LocalPPOTrainer, ProjectError, load_config
warnings.simplefilter("ignore")
ROWS = [{{"prompt": f"{{a}}7=", "solution": f"{{a + 1}}8", "level": a}} for a in range(9)] * 4
CHAT = [row | {{"prompt": [{{"role": "user", "content": row["prompt"]}}]}} for row in ROWS]
PAIRS = [{{"prompt": row["prompt"], "ground_truth": row["solution"]}} for row in ROWS]
TWO = {TWO_STEPS!r}
TURNS = ["actor_rollout_ref.rollout.multi_turn.enable=true", "data.max_response_length=8"]
seen, count = {{}}, 0
def right(data_source, solution_str, ground_truth, extra_info=None):
    return sum(x == y for x, y in zip(solution_str, ground_truth)) / 2
def length(prompt, response):
    return float(len(response))
class Echo:
    def __init__(self): self.actions = 0
    def reset(self, *, seed=None, options=None):
        self.digit = (seed or 0) % 10
        return f"{{self.digit}}=", {{"ground_truth": str(self.digit)}}
    def step(self, action):
        self.actions += 1
        done = self.actions == 2
        return "" if done else "1=", float(str(self.digit) in action), done, False, {{"actions": self.actions}}
def train(*settings, **given):
    '''The metrics of one step; or what is wrong.'''
    global count
    count += 1
    try:
        config = load_config(*{ONE_STEP!r}, f"trainer.experiment_name=run{{count}}", *settings)
        prompts = given.pop("dataset", None)
        with LocalPPOTrainer(config, **given) as trainer:
            (step,) = trainer.steps(prompts)
            seen["batches"] = [trainer.config.data.train_batch_size, trainer.config.data.shuffle]
            return step.metrics
    except ProjectError as error:
        return f"{{type(error).__name__}}: {{error}}"
def parts(*settings, **given):
    '''The components of the reward, and the score.'''
    metrics = train(*settings, **given)
    if isinstance(metrics, str):
        return metrics
    found = {{k.split("/")[1]: v for k, v in metrics.items() if k.startswith("reward/")}}
    return found | {{"all": metrics["critic/score/mean"]}}
"""


def run(root: Path, program: str) -> Any:
    return answer_of(root, BEGIN + textwrap.dedent(program))


def weights(root: Path, name: str, step: int) -> str:
    file = root / f"checkpoints/{PACKAGE}/{name}/global_step_{step}/actor/model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_data_and_reward_that_are_given_are_worth_those_of_the_config(project: Path) -> None:
    """The weights are those of main.py, whatever a script draws and generates between steps."""
    rows = [{"prompt": f"{a}7=", "ground_truth": f"{a + 1}8"} for a in range(9)] * 4
    (project / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (project / "mine.py").write_text(
        "def right(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return sum(x == y for x, y in zip(solution_str, ground_truth)) / 2\n"
    )
    two_steps = overrides("trainer.logger=[]", "trainer.save_freq=1")
    function = run(
        project,
        f"""
        import random
        from {PACKAGE}.settings import reward_keys
        rows = [json.loads(line) for line in open("rows.jsonl")]
        config = load_config(*{two_steps!r}, {{"trainer": {{"experiment_name": "given"}}}})
        with LocalPPOTrainer(config, reward_fn=right) as trainer:
            for step in trainer.steps(datasets.Dataset.from_list(rows)):
                random.random(), torch.rand(3), trainer.generate(["17="], n=2)
            assert trainer.finished and "critic/score/mean" in step.metrics
        print(json.dumps(reward_keys.FUNCTION))
        """,
    )
    files = ["data.train_files=rows.jsonl", "data.val_files=rows.jsonl"]
    reward = [f"{function}.path=mine.py", f"{function}.name=right"]
    check_forked(project, "main.py", *two_steps, *files, *reward, "trainer.experiment_name=named")
    assert [weights(project, "given", step) for step in (1, 2)] == [weights(project, "named", step) for step in (1, 2)]


def test_datasets_of_every_kind(newest: Path) -> None:
    found = run(
        newest,
        """
        class Items(Dataset):
            def __len__(self): return len(ROWS)
            def __getitem__(self, index): return dict(ROWS[index])
        (open("rows.jsonl", "w")).write("\\n".join(map(json.dumps, ROWS)))
        table = datasets.Dataset.from_list(ROWS).with_format("torch")
        kinds = [ROWS, CHAT, table, pandas.DataFrame(ROWS), pandas.DataFrame(CHAT), Items(), "rows.jsonl"]
        scores = {parts(dataset=kind, reward_fn=right)["all"] for kind in kinds}
        loader = DataLoader(ROWS, batch_size=16, shuffle=False, collate_fn=lambda rows: rows)
        parts(dataset=loader, reward_fn=right)
        print(json.dumps([len(scores), seen["batches"]]))
        """,
    )
    assert found == [1, [16, False]]


def test_rewards_of_every_form(newest: Path) -> None:
    found = run(
        newest,
        """
        def trl(prompts, completions, solution, **columns):
            seen["trl"] = [prompts[0], completions[0], solution[0], columns["trainer_state"].global_step]
            seen["columns"] = sorted(columns)
            return [None if row % 2 else 0.5 for row in range(len(completions))]
        async def waits(completions, level, log_extra, log_metric):
            log_extra("doubled", [2 * value for value in level])
            log_metric("three", 3)
            return [float(value) for value in level]
        async def levels(response, level):
            return {"score": level, "acc": 1.0}
        def plural(data_sources, solution_strs, ground_truths, extra_infos=None):
            return torch.ones(len(solution_strs))
        class Manager:
            def __init__(self, tokenizer, num_examine=0): self.tokenizer = tokenizer
            def __call__(self, data, return_dict=False):
                scores = torch.zeros(data.batch["responses"].shape)
                scores[:, 0] = 1
                return {"reward_tensor": scores, "reward_extra_info": {"mine": [1.0] * len(data)}}
        given = {"trl": trl, "waits": waits, "levels": levels, "plural": plural, "manager": Manager,
                 "pairs": [(right, 1.0), (length, 0.5)], "alone": lambda text: float(len(text)), "length": length}
        found = {name: parts(dataset=ROWS, reward_fn=reward) for name, reward in given.items()}
        found["text"] = [seen.pop("trl"), seen["columns"]]
        found["weights"] = parts(dataset=CHAT, reward_fn=[trl, length], reward_weights=[2, 0])
        found["chat"] = seen["trl"]
        print(json.dumps(found))
        """,
    )
    assert found["trl"] == {"score": 0.25, "trl": 0.5, "all": 0.25}  # None: no score
    waits = found["waits"]
    assert waits["all"] == waits["waits"] == waits["doubled"] / 2
    assert waits["three"] == 3
    assert found["levels"]["levels"] == found["levels"]["all"]
    assert found["levels"]["acc"] == 1
    assert found["plural"]["all"] == found["manager"]["all"] == found["manager"]["mine"] == 1
    assert found["pairs"]["all"] == pytest.approx(found["pairs"]["right"] + found["pairs"]["length"] / 2)
    assert found["alone"]["all"] == found["length"]["all"]
    (prompt, completion, solution, step), columns = found["text"]
    assert (prompt[-2:], solution[-1], step) == ("7=", "8", 0)
    assert isinstance(completion, str)
    assert {"level", "completion_ids", "log_extra", "log_metric", "ground_truth"} <= set(columns)
    assert found["weights"]["all"] == 0.5
    (message,), (answer,), *_ = found["chat"]
    assert message["role"] == "user"
    assert answer["role"] == "assistant"


def test_environments_of_a_script(newest: Path) -> None:
    found = run(
        newest,
        """
        class Waits(Echo):
            async def step(self, action): return Echo.step(self, action)
        used = Echo()
        used.actions = 1  # its copies have one action left
        found = {name: parts(environment=env) for name, env in
                 {"class": Echo, "object": Echo(), "maker": lambda: Waits(), "settings": lambda s: Echo()}.items()}
        found["rows"] = parts(environment=Echo, dataset=ROWS)
        found["turns"] = parts(*TURNS, environment=used), parts(*TURNS, environment=Waits)
        print(json.dumps(found))
        """,
    )
    single = found["class"]
    assert single["actions"] == 1
    assert single == found["object"] == found["maker"] == found["settings"]
    assert found["rows"]["actions"] == 1
    assert found["turns"][0]["actions"] == 2
    assert 1 <= found["turns"][1]["turns"] <= 2


def test_what_cannot_be_used(newest: Path) -> None:
    found = run(
        newest,
        """
        class Bad(Echo):
            def step(self, action): raise KeyError("board")
        def short(prompts, completions): return [1.0]
        def nan(prompts, completions): return [0.0, float("nan"), *[0.0] * (len(prompts) - 2)]
        def difficulty(prompt, response, difficulty): return 1.0
        def breaks(completions, **columns): return [1 / (text != completions[0]) for text in completions]
        open("rows.jsonl", "w").write("\\n".join(map(json.dumps, ROWS)))
        on_rows = lambda reward, **more: {"dataset": ROWS, "reward_fn": reward, **more}
        loader = DataLoader(ROWS, batch_size=8, collate_fn=lambda rows: {"n": len(rows)})
        wrong = {
            "DataError: the train dataset is of type int": {"dataset": 3},
            "DataError: the train dataset is 'openai/gsm8k', which is no file": {"dataset": "openai/gsm8k"},
            "DataError: the train loader has a collate function of its own": {"dataset": loader},
            "HookError: the reward short returned 1 values for": on_rows(short),
            "HookError: the reward nan is nan, not a finite number": on_rows(nan),
            "ConfigError: the reward cannot be called: difficulty takes difficulty": on_rows(difficulty),
            "HookError: the reward raised ZeroDivisionError": on_rows(breaks),
            "ConfigError: there are 1 reward functions and 2 weights": on_rows([right], reward_weights=[1, 2]),
            "HookError: the reward raised KeyError: 'board'": {"environment": Bad},
            "ConfigError: an environment is given, and prompts and a re": on_rows(right, environment=Echo),
        }
        said = [[start, train(**given)] for start, given in wrong.items()]
        files = train("data.train_files=rows.jsonl", "data.val_files=rows.jsonl", dataset=ROWS)
        said.append(["ConfigError: data.train_files is rows.jsonl, and a train_dataset is given as well", files])
        with LocalPPOTrainer(load_config("trainer.experiment_name=shared")) as first:
            try:
                first.assemble()
                from toy.run import process
                process.PATIENCE = 0
                LocalPPOTrainer(first.config).fit()
            except ProjectError as error:
                said.append(["another run is going on in", str(error)])
        print(json.dumps(said))
        """,
    )
    assert [(start, text) for start, text in found if not text.startswith(start)] == []
    assert all("\nhint: " in text or "\n  hook: " in text for _, text in found)
    assert [text for _, text in found if "sample: index=1, prompt=" in text and "script.py:" in text]


def test_data_reward_and_callbacks_of_ones_own(project: Path) -> None:
    found = run(
        project,
        """
        class Watching:
            def __init__(self): self.seen = []
            def on_step_end(self, args, state, control, **details):
                control.should_training_stop = state.global_step == 2
            def on_evaluate(self, args, state, control, metrics, **details):
                self.seen.append(["evaluate", len(metrics) > 0])
            def on_save(self, args, state, control, trainer, **details):
                self.seen.append(["save", trainer.steps_done])
        watching = Watching()
        own = {"experiment_name": "own", "total_training_steps": 4, "test_freq": 2}
        config = load_config(*TWO, {"trainer": own})
        with LocalPPOTrainer(config, reward_fn=right, callbacks=[watching]) as trainer:
            stopped = trainer.fit(PAIRS, PAIRS[:4])
            first = [stopped.finished, stopped.steps, sorted(stopped.metrics), stopped.last_checkpoint.name]
            assert stopped.samples
            result = trainer.fit()
            batch, metrics = trainer.train_step(PAIRS[:8])
            print(json.dumps([first, [result.finished, result.steps], trainer.steps_done, len(batch), watching.seen]))
        """,
    )
    first, second, steps, rows, seen = found
    assert first == [False, 2, [1, 2], "global_step_2"]
    assert second == [True, 4]
    assert (steps, rows) == (5, 32)
    assert seen == [["evaluate", True], ["save", 2], ["evaluate", True], ["save", 4]]


def test_a_model_that_is_loaded_is_trained_in_place(project: Path) -> None:
    found = run(
        project,
        """
        from transformers import AutoModelForCausalLM, AutoTokenizer
        first = LocalPPOTrainer(load_config(*TWO, "trainer.experiment_name=first"))
        path = str(first.fit().last_checkpoint / "actor")
        model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
        settings = [*TWO, "algorithm.use_kl_in_reward=true"]
        config = load_config(*settings, "trainer.experiment_name=object")
        with LocalPPOTrainer(config, model=model, tokenizer=tokenizer) as second:
            second.fit()
        assert second.policy.module is model
        named = {"actor_rollout_ref.model.path": path}
        config = load_config(*settings, "scale=toy", "trainer.experiment_name=path", named)
        with LocalPPOTrainer(config) as third:
            third.fit()
        first.close()
        print("true")
        """,
    )
    assert found is True
    assert weights(project, "object", 2) == weights(project, "path", 2)
