# vextract:template - edit freely
"""What a reward reads of responses: the model's words, by turns and with the tokens that are asked for."""

import copy
import json
import sys

import pytest
import torch
from conftest import CONFIG_DIRECTORY, object_array
from transformers import AutoTokenizer

from __package__.data.toy import CHAT_TEMPLATE, ensure_toy_model
from __package__.episodes.words import text_of_turn
from __package__.hooks import call_reward
from __package__.settings import reward_keys
from __package__.settings.loading import load_config
from __package__.switches import EPISODES, REWARD_FORMS
from __package__.training.given import Given
from __package__.training.model_words import ModelWords
from __package__.training.reward_forms import manager_of_forms
from __package__.training.reward_managers import load_manager, registered_managers
from __package__.training.reward_of_words import RewardOfWords
from __package__.vendored.protocol import DataProto

FORMS = ["env", "trl", "own"] if REWARD_FORMS else ["env", "own"]
FORMS += [name for name in ("naive",) if name in registered_managers()]
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
    if EPISODES:
        if len(parts) > 1:  # the turns of the model, and the answers of an environment between them
            said = [{"role": ("assistant", "user")[n % 2], "content": text} for n, text in enumerate(parts)]
            columns |= {"turn_starts": starts, "turn_ends": ends, "conversation": said}
            columns["raw_prompt"] = [{"role": "user", "content": "?"}]
    return DataProto.from_dict(tensors, {name: object_array([value]) for name, value in columns.items()})


def scored(form, tokenizer, batch, tmp_path, keeps=False):
    """The text and the conversation that a reward of some form gets, and its scores."""
    seen, source = tmp_path / "seen.jsonl", tmp_path / "mine.py"
    words = ModelWords(tokenizer, keeps)
    source.write_text(FUNCTION.format(str(seen)))
    settings = [f"{reward_keys.FUNCTION}.path={source}"]

    if REWARD_FORMS:

        def of_batch(completions, completion_ids, extra_info):
            (text,) = (one if isinstance(one, str) else one[0]["content"] for one in completions)
            assert words.decoder.decode(completion_ids[0], skip_special_tokens=True) == text.replace("\n5", "5")
            seen.write_text(json.dumps([text, extra_info[0].get("conversation")]))
            return [1.0]

    def manager(data, return_dict=False):
        text = words.decoder.decode(data.batch["responses"][0], skip_special_tokens=True)
        seen.write_text(json.dumps([text, data.non_tensor_batch["extra_info"][0].get("conversation")]))
        scores = torch.zeros(data.batch["responses"].shape)
        scores[0, data.batch["attention_mask"].sum() - data.batch["prompts"].ne(tokenizer.pad_token_id).sum() - 1] = 1
        return scores

    if form == "own":
        made = manager
    elif REWARD_FORMS and form == "trl":
        config = load_config(CONFIG_DIRECTORY, [])
        made = manager_of_forms(Given(reward_fn=of_batch), "reward_fn", config, words.decoder)
    else:
        config = load_config(CONFIG_DIRECTORY, [*settings, f"{reward_keys.MANAGER}={form}"])
        sys.modules.pop("custom_module", None)  # under which verl keeps the first reward function of a process
        made = load_manager(config, words.decoder, 0, {})
    reward, _ = call_reward(RewardOfWords(made, words), batch, tokenizer)
    getattr(made, "close", lambda: None)()
    return *json.loads(seen.read_text()), reward


EPISODE = ("1<think>2</think>3<eos>", "<user>4<assistant>", "5<eos>")
TEXTS = {False: "123\n5", True: "1<think>2</think>3\n5"}


if EPISODES:

    @pytest.mark.parametrize("keeps", [False, True])
    @pytest.mark.parametrize("form", FORMS)
    def test_a_reward_gets_the_turns_of_the_model_and_the_conversation_beside(tokenizer, tmp_path, capsys, form, keeps):
        batch = answered(tokenizer, "<user>?<assistant>", *EPISODE)
        text, conversation, reward = scored(form, tokenizer, batch, tmp_path, keeps)
        own = TEXTS[keeps].replace("\n", "<user>4<assistant>")  # it has response_mask
        assert text == (own if form == "own" else TEXTS[keeps])
        assert [message["content"] for message in conversation] == ["?", *EPISODE]
        assert [message["role"] for message in conversation] == ["user", "assistant", "user", "assistant"]
        assert reward[0].nonzero()[:, 0].tolist() == [10]  # the last token of the episode
        said = capsys.readouterr().err
        assert 'extra_info["conversation"] has all messages' in said
        assert ("<think> (1 times), </think> (1 times)" in said) != keeps


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("form", FORMS)
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
    if EPISODES:
        context = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        turn = tokenizer("1</think>2<eos>")["input_ids"]
        assert text_of_turn(ModelWords(tokenizer, keeps), context, turn) == text  # what an environment gets


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
