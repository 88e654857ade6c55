"""Observations become tokens that go on after the sampled ones, which stay as they are."""

from typing import Any

import pytest

from tests.environments.support import OneProcess, Project, Scripted, prompts_of, rollouts_of
from tests.environments.templates import Family, tokenizer_of

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nbe brief<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def chatml() -> Any:
    """A tokenizer with ChatML's special tokens, whose template begins every conversation with the system."""
    return tokenizer_of(Family(("<|im_end|>", "<|im_start|>", "<|endoftext|>"), CHATML, "<|im_end|>", ("<|im_end|>",)))


@pytest.fixture
def observations(episodic: Project) -> Any:
    return episodic.module("episodes.observations").Observations


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_turn_by_turn_gives_what_the_whole_conversation_gives(observations: Any, chatml: Any) -> None:
    user = [{"role": "user", "content": "hello"}]
    tokens = ids(chatml, chatml.apply_chat_template(user, add_generation_prompt=True, tokenize=False))
    turns = ["xyz", "", "\n q<|im_start|>"]
    answers = ["abc", "b\n\n", "<tool>"]
    chat, messages = observations(chatml), list(user)
    for said, answer in zip(turns, answers, strict=True):
        turn = [*ids(chatml, said), chatml.eos_token_id]
        tokens += turn + chat.follow(turn, answer)
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": answer}]
    whole = chatml.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert tokens == ids(chatml, whole)


def test_what_follows_a_turn(observations: Any, chatml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that was cut short is ended; messages of other roles are rendered, and arguments reach the template."""
    chat, start = observations(chatml), "<|im_start|>assistant\n"
    user = f"\n<|im_start|>user\nabc<|im_end|>\n{start}"
    messages = [{"role": "tool", "content": "1"}, {"role": "user", "content": "2"}]
    for turn, answer, expected in (
        ("xy<|endoftext|>", "abc", f"<|im_end|>{user}"),  # of turns that were cut test_turn_boundaries has more
        ("<|im_end|>", messages, f"\n<|im_start|>tool\n1<|im_end|>\n<|im_start|>user\n2<|im_end|>\n{start}"),
    ):
        assert chatml.decode(chat.follow(ids(chatml, turn), answer)) == expected
    monkeypatch.setattr(chatml, "chat_template", CHATML.replace(start, f"{start}{{{{ start }}}}"))
    chat = observations(chatml, "auto", {"start": "think"})
    assert chatml.decode(chat.follow([chatml.eos_token_id], "b")).endswith(f"{start}think")


def test_without_a_template_the_text_follows_as_it_is(
    observations: Any, chatml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = observations(chatml, "text")
    assert text.follow(ids(chatml, "xy<|im_end|>"), "\n> ab") == ids(chatml, "\n> ab")
    assert text.follow(ids(chatml, "xy"), "") == []
    with pytest.raises(ValueError, match="needs a chat template"):
        text.follow([], [{"role": "tool", "content": "1"}])
    monkeypatch.setattr(chatml, "chat_template", None)
    assert observations(chatml).follow([], "ab") == ids(chatml, "ab")
    with pytest.raises(ValueError, match="custom_chat_template"):
        observations(chatml, "chat")


def test_a_template_that_hides_the_models_turns_is_refused(
    observations: Any, chatml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chatml, "chat_template", CHATML.replace("['content'] }}", "['content'] | lower }}"))
    with pytest.raises(ValueError, match="leaves out what the model has said"):
        observations(chatml)


def test_sampled_tokens_are_never_tokenised_again(episodic: Project, chatml: Any) -> None:
    """`a`, `b` is not how the tokenizer writes `ab`; sampled, it stays so, in the context and in the response."""
    (a,), (b,), (ab,) = ids(chatml, "a"), ids(chatml, "b"), ids(chatml, "ab")
    heard: list[str] = []

    class Env:
        def reset(self, *, seed: int, options: dict[str, Any]) -> None: ...

        def step(self, action: str) -> Any:
            heard.append(action)
            return "ab", 0.0, len(heard) == 2, False, {}

    engine = Scripted(episodic, lambda contexts: [[a, b, chatml.eos_token_id]] * len(contexts))
    config = episodic.config("local.env.max_turn_tokens=3", "data.max_response_length=80")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodic.module("custom.env_wrapper"), "make_env", lambda settings: Env())
        rollouts = rollouts_of(episodic, config, chatml, OneProcess(), engine)
        batch = rollouts.generate(prompts_of(episodic, [ids(chatml, "?")], [{}])).batch
    sampled = batch["responses"][0][batch["response_mask"][0].bool()].tolist()
    seen = batch["responses"][0][batch["attention_mask"][0, 1:].bool()].tolist()
    assert sampled == [a, b, chatml.eos_token_id] * 2
    assert heard == ["ab", "ab"]
    assert seen.count(ab) == 1
    assert engine.calls[1][0][0] == [*ids(chatml, "?"), *seen[:-3]]
