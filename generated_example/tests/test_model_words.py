# vextract:template base/tests/test_model_words.py.jinja - edit freely
"""What a reward reads of responses: the model's words, by turns and with the tokens that are asked for."""

import copy
import json
import sys

import pytest
import torch
from conftest import CONFIG_DIRECTORY, object_array
from transformers import AutoTokenizer

from generated_example.data.toy import CHAT_TEMPLATE, ensure_toy_model
from generated_example.settings import reward_keys
from generated_example.settings.loading import load_config
from generated_example.training.hook_errors import call_reward
from generated_example.training.model_words import ModelWords
from generated_example.training.reward_managers import load_manager
from generated_example.vendored.protocol import DataProto

THINKS = CHAT_TEMPLATE.replace("%}<assistant>", "%}<assistant><think>\n")
FUNCTION = """
import json

def compute_score(data_source, solution_str, ground_truth, extra_info):
    with open({!r}, "a") as file:
        file.write(json.dumps([solution_str, extra_info.get("conversation")]) + "\\n")
    return 1.0
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A tokenizer of text, with <think> and </think> as special tokens."""
    made = AutoTokenizer.from_pretrained(ensure_toy_model(tmp_path_factory.mktemp("text") / "it", task="reasoning"))
    made.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    return made


def answered(tokenizer, prompt, *parts):
    """A batch of one response, of these parts."""
    tokens, starts, ends = [], [], []
    for place, part in enumerate(parts):
        starts += [len(tokens)] * (place % 2 == 0)
        tokens += tokenizer(part, add_special_tokens=False)["input_ids"]
        ends += [len(tokens) - 1] * (place % 2 == 0)
    before, pad = tokenizer(prompt, add_special_tokens=False)["input_ids"], tokenizer.pad_token_id
    prompts, responses = torch.tensor([[pad, pad, *before]]), torch.tensor([[*tokens, pad]])
    mask = torch.tensor([[0, 0, *[1] * (len(before) + len(tokens)), 0]])
    tensors = {"prompts": prompts, "responses": responses, "attention_mask": mask}
    columns = {"reward_model": {"ground_truth": "2"}, "data_source": "it", "extra_info": {"a": 1}}
    return DataProto.from_dict(tensors, {name: object_array([value]) for name, value in columns.items()})


def scored(form, tokenizer, batch, tmp_path, keeps=False):
    """The text and the conversation that a reward of some form gets, and its scores."""
    seen, source = tmp_path / "seen.jsonl", tmp_path / "mine.py"
    words = ModelWords(tokenizer, keeps)
    source.write_text(FUNCTION.format(str(seen)))
    settings = [f"{reward_keys.FUNCTION}.path={source}"]

    def manager(data, return_dict=False):
        text = words.decoder.decode(data.batch["responses"][0], skip_special_tokens=True)
        seen.write_text(json.dumps([text, data.non_tensor_batch["extra_info"][0].get("conversation")]))
        scores = torch.zeros(data.batch["responses"].shape)
        scores[0, data.batch["attention_mask"].sum() - data.batch["prompts"].ne(tokenizer.pad_token_id).sum() - 1] = 1
        return scores

    if form == "own":
        made = manager
    else:
        config = load_config(CONFIG_DIRECTORY, [*settings, f"{reward_keys.MANAGER}={form}"])
        sys.modules.pop("custom_module", None)  # under which verl keeps the first reward function of a process
        made = load_manager(config, words.decoder, 0, {})
    reward, _ = call_reward(made, batch, tokenizer, words)
    getattr(made, "close", lambda: None)()
    return *json.loads(seen.read_text()), reward


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("form", ["env", "naive", "own"])
def test_what_the_template_has_begun_a_response_with_is_handed_over_if_asked_for(
    tokenizer, tmp_path, capsys, form, keeps
):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = CHAT_TEMPLATE.replace("%}<assistant>", "%}<assistant><think>\n")
    chat = [{"role": "user", "content": "?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert prompt.endswith("<assistant><think>\n")
    text, _, reward = scored(form, tokenizer, answered(tokenizer, prompt, "1</think>2<eos>"), tmp_path, keeps)
    assert text == ("<think>\n1</think>2" if keeps else "12")
    assert reward[0].tolist() == [0, 0, 0, 1, 0]
    said = capsys.readouterr().err
    assert ("'<think>', with which the chat template begins a response" in said) != keeps


@pytest.mark.parametrize(
    ("template", "prompt", "opening"),
    [
        (CHAT_TEMPLATE, "<user>?<assistant>", ""),
        (None, "Say: <think>", "<think>"),  # no template, or one that shows no turns
        (None, "Say: <user>", ""),
        (CHAT_TEMPLATE, "<user>?<assistant><think>\n\n</think>\n\n", "<think>\n\n</think>\n\n"),
    ],
)
def test_where_a_response_begins_is_told_by_the_template(tokenizer, template, prompt, opening):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    found = ModelWords(tokenizer).opening(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    assert tokenizer.decode(found) == opening
