"""Observations become tokens that go on after the sampled ones, as the template and upstream's builder have them."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from extractor.pipeline.source import Source
from tests.environments.support import OneProcess, Project, Scripted, prompts_of, rollouts_of

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nbe brief<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Family:
    """What a family's tokenizer, chat template and generation config say.

    Attributes:
        special: its special tokens, the tokenizer's end of sequence first.
        others, model: messages of others and of the model, in which `{content}` and `{role}` stand for theirs.
        start: what asks the model for its turn.
        end: with what that ends a conversation's last turn of the model; None: with nothing.
        ends: those that may end a turn, as its generation config has them.
        builder: upstream's class, without ContinuousTokenBuilder; None: it leaves out what stands between messages.
        opens: what the model writes before its answer.
    """

    special: tuple[str, ...]
    others: str
    model: str
    start: str
    end: str | None
    ends: tuple[str, ...]
    builder: str | None = ""
    before: str = ""
    opens: str = ""

    @property
    def template(self) -> str:
        parts = ((self.others, "else"), (self.model, "if message['role'] == 'assistant'"))
        others, model = (f"{{% {when} %}}{text}" for text, when in parts)
        body = (model + others + "{% endif %}").replace("{content}", "{{ message['content'] }}")
        body = body.replace("{role}", "{{ message['role'] }}")
        asked = f"{{% if add_generation_prompt %}}{self.start}{{% endif %}}"
        return f"{self.before}{{% for message in messages %}}{body}{{% endfor %}}{asked}"


FAMILIES = {
    "qwen": Family(
        ("<|im_end|>", "<|im_start|>", "<|endoftext|>"), "<|im_start|>{role}\n{content}<|im_end|>\n",
        "<|im_start|>assistant\n{content}<|im_end|>\n", "<|im_start|>assistant\n",
        "<|im_end|>", ("<|im_end|>", "<|endoftext|>"), "Qwen",
    ),
    "llama-3": Family(
        ("<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>"),
        "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n{content}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|eot_id|>", ("<|eot_id|>", "<|end_of_text|>"), before="<|begin_of_text|>",
    ),
    "gemma": Family(
        ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"), "<start_of_turn>{role}\n{content}<end_of_turn>\n",
        "<start_of_turn>model\n{content}<end_of_turn>\n", "<start_of_turn>model\n",
        "<end_of_turn>", ("<eos>", "<end_of_turn>"), None, before="<bos>",
    ),
    "glm": Family(
        ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
        "<|{role}|>\n{content}", "<|assistant|>\n{content}", "<|assistant|>\n",
        None, ("<|endoftext|>", "<|user|>", "<|observation|>"), "GLM", before="[gMASK]<sop>",
    ),
    "gpt-oss": Family(
        ("<|return|>", "<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>", "<|endoftext|>"),
        "<|start|>{role}<|message|>{content}<|end|>",
        "<|start|>assistant<|channel|>final<|message|>{content}"
        "{% if loop.last and not add_generation_prompt %}<|return|>{% else %}<|end|>{% endif %}",
        "<|start|>assistant", "<|return|>", ("<|return|>", "<|call|>", "<|endoftext|>"), "GptOss",
        opens="<|channel|>final<|message|>",
    ),
}  # fmt: skip


def tokenizer_of(special: tuple[str, ...], template: str) -> Any:
    """A tokenizer of bytes, in which `ab` is a token as well, with special tokens and a template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([*letters, "ab"])}
    made = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=special[0], extra_special_tokens=list(special[1:]))
    fast.pad_token, fast.chat_template = fast.eos_token, template
    return fast


@pytest.fixture
def chatml() -> Any:
    """A tokenizer with ChatML's special tokens, whose template begins every conversation with the system."""
    return tokenizer_of(FAMILIES["qwen"].special, CHATML)


@pytest.fixture
def observations(episodic: Project) -> Any:
    return episodic.module("episodes.observations").Observations


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def rendered(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    return ids(tokenizer, tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def test_turn_by_turn_gives_what_the_whole_conversation_gives(observations: Any, chatml: Any) -> None:
    """Messages of other roles are rendered as well."""
    messages = [{"role": "user", "content": "hello"}]
    tokens, chat = rendered(chatml, messages), observations(chatml)
    several = [{"role": "tool", "content": "1"}, {"role": "user", "content": "2"}]
    for said, answer in zip(["xyz", "", "\n q<|im_start|>", "z"], ["abc", "b\n\n", "<tool>", several], strict=True):
        turn = [*ids(chatml, said), chatml.eos_token_id]
        tokens += turn + chat.follow(turn, answer)
        given = [{"role": "user", "content": answer}] if isinstance(answer, str) else answer
        messages += [{"role": "assistant", "content": said}, *given]
    assert tokens == rendered(chatml, messages)


def test_templates_with_arguments_of_none_and_that_hide_turns(
    observations: Any, chatml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, start = observations(chatml, "text"), "<|im_start|>assistant\n"
    assert text.follow(ids(chatml, "xy<|im_end|>"), "\n> ab") == ids(chatml, "\n> ab")
    assert text.follow(ids(chatml, "xy"), "") == []
    with pytest.raises(ValueError, match="needs a chat template"):
        text.follow([], [{"role": "tool", "content": "1"}])
    monkeypatch.setattr(chatml, "chat_template", CHATML.replace(start, f"{start}{{{{ start }}}}"))
    chat = observations(chatml, "auto", {"start": "think"})
    assert chatml.decode(chat.follow([chatml.eos_token_id], "b")).endswith(f"{start}think")
    chatml.chat_template = CHATML.replace("['content'] }}", "['content'] | lower }}")
    with pytest.raises(ValueError, match="leaves out what the model has said"):
        observations(chatml)
    chatml.chat_template = None
    assert observations(chatml).follow([], "ab") == ids(chatml, "ab")
    with pytest.raises(ValueError, match="custom_chat_template"):
        observations(chatml, "chat")


def test_sampled_tokens_are_never_tokenised_again(
    episodic: Project, chatml: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(episodic.module("custom.env_wrapper"), "make_env", lambda settings: Env())
    rollouts = rollouts_of(episodic, config, chatml, OneProcess(), engine)
    batch = rollouts.generate(prompts_of(episodic, [ids(chatml, "?")], [{}])).batch
    sampled = batch["responses"][0][batch["response_mask"][0].bool()].tolist()
    seen = batch["responses"][0][batch["attention_mask"][0, 1:].bool()].tolist()
    assert sampled == [a, b, chatml.eos_token_id] * 2
    assert heard == ["ab", "ab"]
    assert seen.count(ab) == 1
    assert engine.calls[1][0][0] == [*ids(chatml, "?"), *seen[:-3]]


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


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_turn_is_ended_once_as_upstreams_builder_does(
    observations: Any, builders: ModuleType, family: Family
) -> None:
    """One that was cut is ended, whatever its last token, and one that has ended is not ended again."""
    tokenizer = tokenizer_of(family.special, family.template)
    made = observations(tokenizer, ends=ids(tokenizer, "".join(family.ends)))
    question, answer, said = [{"role": "user", "content": "hello"}], {"role": "user", "content": "b ab\n"}, "x ab"
    prompt = rendered(tokenizer, question)

    def goes_on(turn: list[int]) -> list[int]:
        kept = turn[:-1] if made.takes_back(turn, answer["content"]) else turn
        return [*prompt, *kept, *made.follow(turn, answer["content"])]

    def whole(said: str) -> list[int]:
        return rendered(tokenizer, [*question, {"role": "assistant", "content": said}, answer])

    for text in (said, f"{said}\n", f"{said}\n\n", f"{said} ", "\n"):
        assert goes_on(ids(tokenizer, family.opens + text)) == whole(text), text
    end, turn = ids(tokenizer, family.end or "<|user|>"), ids(tokenizer, family.opens + said)
    after = whole(said)[len(prompt) + len(turn) :]
    after = after[after.index(ids(tokenizer, " ")[0]) == 0 :]  # a model may end its turn without the space before
    assert goes_on([*turn, *end]) == [*prompt, *turn, *end, *after[1:]]
    ends = sys.modules[observations.__module__].end_tokens(tokenizer)
    named = [family.special[0], family.end or family.special[0]]
    assert tokenizer.convert_ids_to_tokens(ends) == list(dict.fromkeys(named))
    if family.builder is None:
        return
    builder = getattr(builders, f"{family.builder}ContinuousTokenBuilder")(tokenizer)
    before = [*question, {"role": "assistant", "content": said}]
    for name in family.ends:
        turn = ids(tokenizer, f"{family.opens}{said}{name}")
        assert goes_on(turn) == builder.merge_context_tokens(before, [*before, answer], [*prompt, *turn]).token_ids
