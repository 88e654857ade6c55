"""Observations become tokens that go on after the sampled ones, as the template and upstream's builder have them."""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from extractor.pipeline.source import Source
from tests.environments.support import OneProcess, Project, Scripted, prompts_of, rollouts_of
from tests.environments.templates import FAMILIES, Family, tokenizer_of

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
        ("xy<|endoftext|>", "abc", f"<|im_end|>{user}"),  # of turns that were cut there is more below
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


QUESTION = [{"role": "user", "content": "hello"}]
ANSWER = {"role": "user", "content": "b ab\n"}
SAID = "x ab"

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


@pytest.fixture(scope="module")
def builders(newest_verl: Source, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Upstream's continuous-token builders, which need nothing else of verl."""
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "oracle").mkdir()
    for name in ("__init__", "chat_template", "continuous_token", "tokenizer"):
        text = newest_verl.read(f"verl/utils/tokenizer/{name}.py")
        (folder / "oracle" / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("oracle.continuous_token")
    for name in [name for name in sys.modules if name.partition(".")[0] == "oracle"]:
        del sys.modules[name]


class Conversation:
    """A prompt of a family, and what follows it in an episode."""

    def __init__(self, episodic: Project, family: Family) -> None:
        self.family, self.tokenizer = family, tokenizer_of(family)
        self.ends = self.ids("".join(family.ends))
        self.observations = episodic.module("episodes.observations").Observations(self.tokenizer, ends=self.ends)
        self.prompt = self.rendered(QUESTION)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def rendered(self, messages: list[dict[str, str]]) -> list[int]:
        return self.ids(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))

    def goes_on(self, turn: list[int]) -> list[int]:
        """All tokens up to the next turn."""
        kept = turn[:-1] if self.observations.takes_back(turn, ANSWER["content"]) else turn
        return [*self.prompt, *kept, *self.observations.follow(turn, ANSWER["content"])]


@pytest.fixture
def conversation(episodic: Project) -> Callable[[Family], Conversation]:
    return lambda family: Conversation(episodic, family)


@every_family
def test_a_turn_is_ended_once_whatever_its_last_token(
    conversation: Callable[[Family], Conversation], family: Family
) -> None:
    """One that was cut is ended, and one that has ended is not ended again."""
    made = conversation(family)
    for said in (SAID, f"{SAID}\n", f"{SAID}\n\n", f"{SAID} ", "\n"):
        whole = made.rendered([*QUESTION, {"role": "assistant", "content": said}, ANSWER])
        assert made.goes_on(made.ids(family.opens + said)) == whole, said
    end = made.ids(family.end or "<|user|>")  # which begins the next message
    turn = made.ids(family.opens + SAID)
    whole = made.rendered([*QUESTION, {"role": "assistant", "content": SAID}, ANSWER])
    after = whole[len(made.prompt) + len(turn) :]
    after = after[after.index(made.ids(" ")[0]) == 0 :]  # a model may end its turn without the space before
    assert made.goes_on([*turn, *end]) == [*made.prompt, *turn, *end, *after[1:]]
    ends = sys.modules[type(made.observations).__module__].end_tokens(made.tokenizer)
    named = [family.special[0], family.end or family.special[0]]
    assert made.tokenizer.convert_ids_to_tokens(ends) == list(dict.fromkeys(named))


@pytest.mark.parametrize("family", [family for family in FAMILIES.values() if family.builder is not None])
def test_upstreams_builder_says_the_same_of_every_end(
    conversation: Callable[[Family], Conversation], builders: ModuleType, family: Family
) -> None:
    made = conversation(family)
    builder = getattr(builders, f"{family.builder}ContinuousTokenBuilder")(made.tokenizer)
    before = [*QUESTION, {"role": "assistant", "content": SAID}]
    for end in family.ends:
        turn = made.ids(f"{family.opens}{SAID}{end}")
        upstream = builder.merge_context_tokens(before, [*before, ANSWER], [*made.prompt, *turn]).token_ids
        assert made.goes_on(turn) == upstream, end
