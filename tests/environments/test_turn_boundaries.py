"""Between a turn of the model and the next one stands what the template, and upstream's builder, puts there."""

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from extractor.pipeline.source import Source
from tests.environments.support import Project
from tests.environments.templates import FAMILIES, Family, tokenizer_of

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
