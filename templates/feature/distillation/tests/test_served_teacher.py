# vextract:template - edit freely
"""A teacher on a server says, and teaches, what the same one in this process does; what it cannot do is told."""

import pytest
import torch
from conftest import CONFIG_DIRECTORY
from safetensors.torch import load_file
from teacher_double import TeacherDouble
from transformers import AutoModelForCausalLM

from __package__.data.toy import ensure_toy_model
from __package__.settings.loading import load_config
from __package__.tracking.run_tracker import read_rows
from __package__.training.trainer import LocalPPOTrainer
from __package__.workers.rollout_interface import RolloutError
from __package__.workers.servers import http

LOSS = "distillation.distillation_loss"
TEACHER = "distillation.teacher_models.teacher_model.model_path"
BY_TOPK = (f"{LOSS}.loss_mode=forward_kl_topk", f"{LOSS}.use_policy_gradient=false", f"{LOSS}.topk=5")
LOSSES = {
    "k1": (),
    **{name: (f"{LOSS}.loss_mode={name}", f"{LOSS}.use_policy_gradient=false") for name in ("k2", "k3", "abs")},
    "forward_kl_topk": BY_TOPK,
}
SHORT = (
    "preset=distill",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[]",
)


@pytest.fixture
def teacher(tmp_path):
    return ensure_toy_model(tmp_path / "teacher", task="succ2", seed=7)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(http, "RETRY_SECONDS", (0.0, 0.0))


def started(directory, *settings):
    return LocalPPOTrainer(load_config(CONFIG_DIRECTORY, [*SHORT, f"trainer.default_local_dir={directory}", *settings]))


def first_batch(directory, *settings):
    with started(directory, *settings) as trainer:
        return next(iter(trainer.steps())).batch.batch


def at(*doubles):
    return f"local.teacher_server.url=[{','.join(double.url for double in doubles)}]"


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
@pytest.mark.parametrize("loss", [(), BY_TOPK], ids=["estimator", "topk"])
def test_it_says_what_one_in_this_process_says(tmp_path, teacher, kind, loss):
    loss = (*loss, "actor_rollout_ref.rollout.temperature=0.7")
    here = first_batch(tmp_path / "here", *loss, f"{TEACHER}={teacher}")
    with TeacherDouble(teacher, kind) as one, TeacherDouble(teacher, kind) as other:
        there = first_batch(tmp_path / "there", *loss, at(one, other))
        assert len(one.bodies) > 6 and len(other.bodies) > 6
    places = slice(here["prompts"].shape[1] - 1, -1)
    said = here["attention_mask"][:, -here["responses"].shape[1] :].bool()
    for name in ("teacher_logprobs", "teacher_ids"):
        torch.testing.assert_close(there[name][:, places][said], here[name][:, places][said], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_policy_learns_the_same(train, tmp_path, teacher, loss):
    settings = (*SHORT, *LOSSES[loss], "trainer.total_training_steps=2", "trainer.save_freq=2")
    with TeacherDouble(teacher) as double:
        there = train(*settings, at(double), directory=tmp_path / "there")
    here = train(*settings, f"{TEACHER}={teacher}", directory=tmp_path / "here")
    weights = [load_file(run / "global_step_2" / "actor" / "model.safetensors") for run in (there, here)]
    for name, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][name], rtol=1e-4, atol=1e-5)
    rows = [read_rows(run / "metrics.jsonl") for run in (there, here)]
    for ours, theirs in zip(*rows, strict=True):
        assert ours["actor/distillation/loss"] == pytest.approx(theirs["actor/distillation/loss"], rel=1e-4)
        assert ours["actor/grad_norm"] == pytest.approx(theirs["actor/grad_norm"], rel=1e-3)


@pytest.fixture
def larger(tmp_path):
    """A teacher that is likely to write tokens that the policy does not have."""
    path = ensure_toy_model(tmp_path / "larger", task="succ2", seed=7)
    model = AutoModelForCausalLM.from_pretrained(path)
    known = model.config.vocab_size
    model.resize_token_embeddings(known + 8, mean_resizing=False)
    with torch.no_grad():
        model.get_output_embeddings().weight[known:] = model.get_output_embeddings().weight[:8] * 1.5
    model.save_pretrained(path)
    return path


def test_a_teacher_of_more_tokens_names_those_of_the_policy(tmp_path, larger, tokenizer):
    here = first_batch(tmp_path / "here", *BY_TOPK, f"{TEACHER}={larger}")
    with TeacherDouble(larger) as double:
        there = first_batch(tmp_path / "there", *BY_TOPK, at(double))
        assert {body["prompt_logprobs"] for body in double.bodies} > {0, 5}
    assert there["teacher_ids"].max() <= max(tokenizer.get_vocab().values())
    said = slice(here["prompts"].shape[1] - 1, here["prompts"].shape[1])
    torch.testing.assert_close(there["teacher_ids"][:, said], here["teacher_ids"][:, said])


def test_more_tokens_than_a_server_names_are_told(tmp_path, larger):
    with TeacherDouble(larger, max_logprobs=5) as double, started(tmp_path / "run", *BY_TOPK, at(double)) as trainer:
        with pytest.raises(RolloutError, match="(?s)to have 5 of the policy's: .* start vLLM with --max-logprobs "):
            next(iter(trainer.steps()))


def test_teachers_may_be_in_both_places(tmp_path, teacher):
    named = [f"+distillation.teacher_models.{name}.key={key}" for name, key in (("a", "toy_succ2"), ("b", "other"))]
    with TeacherDouble(teacher) as double:
        both = (*named, f"+distillation.teacher_models.b.model_path={teacher}")
        url = f"local.teacher_server.url={{a: '{double.url}/v1'}}"
        with started(tmp_path / "run", *both, url) as trainer:
            assert {key: type(found).__name__ for key, found in trainer.distillation.teachers.items()} == {
                "toy_succ2": "ServedTeacher",
                "other": "Teacher",
            }
            next(iter(trainer.steps()))


WRONG = {
    "another token": lambda answer: _with(answer, lambda place: {"1": next(iter(place.values()))}),
    "no number": lambda answer: _with(answer, lambda place: {**place, next(iter(place)): {"logprob": None}}),
    "above 0": lambda answer: _with(answer, lambda place: dict.fromkeys(place, {"logprob": 0.5, "rank": 1})),
    "too few": lambda answer: {**answer, "choices": [{**answer["choices"][0], "prompt_logprobs": [None]}]},
    "another model": lambda answer: {**answer, "model": "another"},
    "another request": lambda answer: {**answer, "id": "cmpl-0"},
}


def _with(answer, change):
    (choice,) = answer["choices"]
    told = [place and change(place) for place in choice["prompt_logprobs"]]
    return {**answer, "choices": [{**choice, "prompt_logprobs": told}]}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_not_taken(tmp_path, teacher, name):
    with TeacherDouble(teacher) as double, started(tmp_path / "run", at(double)) as trainer:
        double.change = WRONG[name]
        with pytest.raises(RolloutError, match="gave a wrong answer"):
            next(iter(trainer.steps()))


def test_a_run_whose_teacher_ends_goes_on_from_where_it_was(train, capsys, tmp_path, teacher):
    settings = (*SHORT, "trainer.total_training_steps=4")
    whole = {}
    with TeacherDouble(teacher) as double:
        whole = train(*settings, at(double), "trainer.save_freq=4", directory=tmp_path / "whole")
    with TeacherDouble(teacher) as double:

        def two_steps(answer):
            return answer if len(double.bodies) <= 1 + 2 * 16 else None

        double.change = two_steps
        run = train(*settings, at(double), "trainer.save_freq=-1", directory=tmp_path / "parts", code=1)
    error = capsys.readouterr().err
    assert double.url in error and "hint: check that the server of local.teacher_server.url is up" in error
    assert (run / "global_step_2").is_dir()
    with TeacherDouble(teacher) as double:
        train(*settings, at(double), "trainer.save_freq=4", directory=tmp_path / "parts")
    weights = [(each / "global_step_4" / "actor" / "model.safetensors").read_bytes() for each in (whole, run)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("settings", "served", "message"),
    [
        (("local.teacher_server.url=gpu2:8000",), {}, "write it as http://HOST:PORT"),
        (("local.teacher_server.url=[]",), {}, "local.teacher_server.url.teacher_model is empty"),
        (("local.teacher_server.url={c: 'http://gpu2'}",), {}, "names 'c', which is no teacher"),
        (
            ("+distillation.teacher_models.a.key=x", "+distillation.teacher_models.b.key=y", "AT"),
            {},
            "and there are 2 teachers",
        ),
        (("AT", f"{TEACHER}=another/model"), {}, "has another model than the teacher another/model: teacher"),
        (("AT",), {"max_model_len": 10}, "takes 10 tokens, and prompt and response"),
        (("AT", *BY_TOPK), {"max_logprobs": 4}, "start vLLM with --max-logprobs 5"),
        (("AT",), {"task": "another"}, "has another vocabulary than the policy: token"),
        (("local.teacher_server.url=http://127.0.0.1:9",), {}, "no teacher answers at http://127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_refused(train, capsys, tmp_path, settings, served, message):
    path = ensure_toy_model(tmp_path / "served", task=served.pop("task", "succ2"), seed=7)
    with TeacherDouble(path, **served) as double:
        train("preset=distill", *[at(double) if each == "AT" else each for each in settings], code=2)
    error = capsys.readouterr().err
    assert message in error and "hint: " in error
