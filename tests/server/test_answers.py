"""Answers that do not fit their requests: each is refused, whatever the server, and says what is wrong with it."""

import copy
import importlib
import json
import re
from collections.abc import Callable, Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.server.wire import RawServer, Received, as_json, http

VOCABULARY, EOS, LONGEST = 20, 2, 4
PROMPTS = [[5, 6, 7], [8]]
KINDS = ("vllm", "sglang")


class Talk:
    """A client of the project, and a server that answers as one of its kind does, with something changed."""

    def __init__(self, kind: str) -> None:
        self.kind, package = kind, {"sglang": "sgl", "vllm": "vll"}[kind]
        self.interface = importlib.import_module(f"{package}.workers.servers.interface")
        self.error = importlib.import_module(f"{package}.workers.rollout_interface").RolloutError
        self.config_error = importlib.import_module(f"{package}.settings.loading").ConfigError
        http_module = importlib.import_module(f"{package}.workers.servers.http")
        http_module.RETRY_SECONDS = (0.0, 0.0)
        server_module = importlib.import_module(f"{package}.workers.servers.{kind}_server")
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.raw = RawServer(self._answer)
        self.connection = http_module.Connection(self.raw.url, concurrency=4, timeout=20.0, check=lambda: None)
        rollout = SimpleNamespace(dtype="float32")
        model = SimpleNamespace(path="/models/toy")
        config = SimpleNamespace(
            actor_rollout_ref=SimpleNamespace(rollout=rollout, model=model),
            local=SimpleNamespace(server=SimpleNamespace(repeatable=True, bucket_megabytes=1)),
        )
        rules = self.interface.Rules(VOCABULARY, frozenset([EOS]))
        self.client = getattr(server_module, f"{kind.capitalize()}Server")(self.connection, config, rules)
        self.client.served_name = "toy"

    def close(self) -> None:
        self.connection.close()
        self.raw.close()

    def generate(self, *, greedy: bool = False) -> Any:
        """Three responses to each prompt."""
        sampling = self.interface.Sampling(0.0 if greedy else 1.0, -1, 1.0, LONGEST, (EOS,), False, True)
        asked = [(prompt, LONGEST, None if greedy else number) for prompt in PROMPTS for number in range(3)]
        told: dict[int, Any] = {}
        responses = self.client.generate([self.interface.Request(*one) for one in asked], sampling, told.__setitem__)
        assert told == dict(enumerate(responses))
        return responses

    async def _answer(self, writer: Any, received: Received) -> None:
        honest = getattr(self, f"_{self.kind}")(received)
        changed = self.change(honest) if received.path in ("/v1/completions", "/generate") else honest
        writer.write(changed if isinstance(changed, bytes) else as_json(changed))
        await writer.drain()

    def _vllm(self, received: Received) -> Any:
        body = received.body
        choices = []
        for index in range(body.get("n", 1)):
            tokens = _written(body["prompt"], index)
            logprobs = {"token_logprobs": [-0.5] * len(tokens), "tokens": [f"token_id:{token}" for token in tokens]}
            ended = "stop" if tokens[-1] == EOS else "length"
            said = {"index": index, "token_ids": tokens, "logprobs": logprobs, "finish_reason": ended}
            choices.append({**said, "prompt_token_ids": body["prompt"]})
        return {"id": f"cmpl-{received.name}", "model": body["model"], "choices": choices}

    def _sglang(self, received: Received) -> Any:
        body = received.body
        tokens = _written(body["input_ids"], body["sampling_params"].get("sampling_seed", 0))
        return {
            "output_ids": tokens,
            "meta_info": {
                "id": body["rid"],
                "prompt_tokens": len(body["input_ids"]),
                "output_token_logprobs": [[-0.5, token, None] for token in tokens],
                "finish_reason": {"type": "stop" if tokens[-1] == EOS else "length"},
            },
        }


def _written(prompt: list[int], number: int) -> list[int]:
    """A response to a prompt: four tokens, or two and the end."""
    return [prompt[0], 10 + number, 4, 5] if number % 2 else [prompt[0], 10 + number, EOS]


@pytest.fixture
def talk(sglang_project: Path, vllm_project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Talk]]:
    made: list[Talk] = []
    for root in (sglang_project, vllm_project):
        monkeypatch.syspath_prepend(str(root))

    def making(kind: str) -> Talk:
        made.append(Talk(kind))
        return made[-1]

    yield making
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", KINDS)
def test_good_answers_are_taken(talk: Callable[[str], Talk], kind: str) -> None:
    """Choices may come in any order; a greedy answer is that of all equal prompts; rounding above zero is zero."""
    one = talk(kind)
    written = [_written(prompt, number) for prompt in PROMPTS for number in range(3)]
    responses = one.generate()
    assert [response.tokens for response in responses] == written
    assert all(response.log_probs == [-0.5] * len(response.tokens) for response in responses)
    if kind == "vllm":
        asked = len(one.raw.received)
        assert len(one.generate(greedy=True)) == 6
        assert len(one.raw.received) == asked + 2
        one.change = lambda answer: {**answer, "choices": answer["choices"][::-1]}
        assert [response.tokens for response in one.generate()] == written
    one.change = raw("1e-7")
    assert max(value for response in one.generate() for value in response.log_probs) == 0.0


def raw(text: str) -> Callable[[Any], Any]:
    """Something else than JSON in the place of the first log-probability."""
    return lambda answer: http(200, json.dumps(answer).replace("-0.5", text, 1).encode())


def put(path: tuple[Any, ...], value: Any) -> Callable[[Any], Any]:
    """Put something at a place of an answer."""

    def change(answer: Any) -> Any:
        changed = copy.deepcopy(answer)
        reduce(getitem, path[:-1], changed)[path[-1]] = value
        return changed

    return change


FIRST = ("choices", 0)
# Where something else is put, what that is, and what is said of it.
VLLM: tuple[tuple[tuple[Any, ...], Any, str], ...] = (
    (("id",), None, "it has no id"),
    (("id",), "cmpl-1234", "that of another request"),
    (("model",), "gpt-4", "its model is gpt-4, and has to be toy"),
    (("choices",), {}, "choices is {}, and not a list"),
    (("choices",), [], "it has 0 responses, and 3 were asked for"),
    ((*FIRST, "index"), 2, r"have the indices \[2, 1, 2\]"),
    ((*FIRST, "prompt_token_ids"), [1], r"prompt that it says it answers is \[1\]"),
    ((*FIRST, "logprobs", "tokens", 1), "token_id:3", "list of tokens whose"),
    ((*FIRST, "logprobs"), None, "it has no logprobs"),
    ((*FIRST, "finish_reason"), "abort", "a response was ended by abort"),
    (("choices", 1, "finish_reason"), "stop", "ended by token 5, which ends none"),
    ((*FIRST, "finish_reason"), "length", "was cut after 3 tokens, and 4 were asked for"),
)
SGLANG: tuple[tuple[tuple[Any, ...], Any, str], ...] = (
    (("meta_info",), None, "it has no meta_info"),
    (("meta_info", "id"), "1234", "the id of the request that it answers is 1234"),
    (("meta_info", "prompt_tokens"), 9, "the length of the prompt is 9"),
    (("meta_info", "output_token_logprobs"), None, "it has no output_token_logprobs"),
    (("output_ids",), [1, 2], "the list of tokens beside their"),
    (("meta_info", "finish_reason"), {"type": "abort"}, "ended by abort"),
)
# The same for both: what is put in the place of the tokens, and of a log-probability.
TOKENS: tuple[tuple[list[Any], str], ...] = (
    ([5, 5, 5, 5, 5], "a response has 5 tokens"),
    ([5, VOCABULARY, EOS], "20 is none of the policy's 20 tokens"),
    ([5, True, EOS], "True is none of"),
    ([EOS, 5, EOS], f"goes on after token {EOS}"),
)
LOG_PROBS = {
    "NaN": "it is not valid JSON",
    "0.5": "0.5 is not a log-probability",
    "null": "None is not a log-probability",
    '"-0.5"': "-0.5 is not a log-probability",
}


def with_tokens(kind: str, tokens: list[Any]) -> Callable[[Any], Any]:
    """Put other tokens in the place of a response."""

    def change(answer: Any) -> Any:
        if kind == "vllm":
            choice = answer["choices"][1]
            choice.update(token_ids=tokens, finish_reason="stop")
            choice["logprobs"] = {"token_logprobs": [-0.5] * len(tokens), "tokens": [f"token_id:{t}" for t in tokens]}
        else:
            answer["output_ids"] = tokens
            answer["meta_info"]["output_token_logprobs"] = [[-0.5, token, None] for token in tokens]
            answer["meta_info"]["finish_reason"] = {"type": "stop"}
        return answer

    return change


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_answer_is_refused(talk: Callable[[str], Talk], kind: str) -> None:
    """Every attempt gets such an answer, and the error names the server and what is wrong."""
    tokens = ((with_tokens(kind, tokens), said) for tokens, said in TOKENS)
    log_probs = ((raw(text), said) for text, said in LOG_PROBS.items())
    others = ((put(path, value), said) for path, value, said in (VLLM if kind == "vllm" else SGLANG))
    one = talk(kind)
    for change, said in (*others, *tokens, *log_probs):
        one.change = change
        with pytest.raises(one.error, match=said) as caught:
            one.generate()
        assert re.match(rf"{one.raw.url}/\S+ gave a wrong answer: ", str(caught.value))
        assert "\nhint: check that local.server.url is the server of this run" in str(caught.value)


NO_SERVER: tuple[tuple[str, Any], ...] = (
    ("vllm", b"<html>hello</html>"),
    ("vllm", {"data": {"id": "toy"}}),
    ("sglang", b"<html>"),
    ("sglang", {"model_path": "toy"}),
)


def test_what_is_no_such_server_is_told_at_the_start(
    talk: Callable[[str], Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, content in NO_SERVER:
        one, answer = talk(kind), http(200, content) if isinstance(content, bytes) else content
        monkeypatch.setattr(one, f"_{kind}", lambda _, answer=answer: answer)
        with pytest.raises(one.config_error, match=r"no (vLLM|SGLang) server answers: .*gave a wrong answer"):
            one.client.check(SimpleNamespace(), 100)


# How a server answers to new weights.
WEIGHTS: tuple[tuple[str, Any, str], ...] = (
    ("vllm", {"results": [{"done": True}, {"error": "no"}]}, "could not start_weights: no"),
    ("vllm", {"results": []}, "no worker has answered"),
    ("vllm", {}, "it has no results"),
    ("vllm", {"results": [{}]}, "could not start_weights: it does not say why"),
    ("sglang", {"success": False, "message": "shape"}, "did not take the weights: shape"),
    ("sglang", {"success": "yes"}, "gave a wrong answer"),
)


def test_weights_that_are_not_taken_are_told(
    talk: Callable[[str], Talk], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind, answer, text in WEIGHTS:
        one = talk(kind)
        monkeypatch.setattr(one, f"_{kind}", lambda _, answer=answer: answer)
        with pytest.raises(one.error, match=text):
            one.client.update([], str(tmp_path), "1")
        asked = ["/pause?mode=wait", "/collective_rpc"] if kind == "vllm" else ["/update_weights_from_disk"]
        assert [received.path for received in one.raw.received] == asked
        assert list(tmp_path.iterdir()) == []
