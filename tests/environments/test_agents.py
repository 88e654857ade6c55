"""Agent programs behind the endpoint: real clients, with a scripted engine where tokens are compared one by one."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.environments import support
from tests.environments.support import MULTI_TURN, OneProcess, Project, parts, prompt_of
from tests.project.support import Configuration

CALL = '<tool_call>{"name": "add", "arguments": {"a": 3, "b": 4}}</tool_call>'
PROGRAMS = '''
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}
SAID = {}
TOOLS = [{"type": "function", "function": ADD}]


def post(base_url, api_key, path, **body):
    """Ask by plain HTTP; an error is an answer, too."""
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(base_url + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def add(arguments):
    return str(sum(json.loads(arguments).values()))


def converse(task, ask):
    """Go on until the model calls no tool any more, by what answers messages."""
    messages = list(task["prompt"])
    while True:
        messages.append(message := ask(messages))
        if not message.get("tool_calls"):
            return {"reward": 0.5, "acc": 1.0, "said": message["content"]}
        for call in message["tool_calls"]:
            result = add(call["function"]["arguments"])
            messages.append({"role": "tool", "content": result, "tool_call_id": call["id"]})


def by_openai(task, base_url, api_key, model):
    import openai

    create = openai.OpenAI(base_url=base_url, api_key=api_key).chat.completions.create
    asked = lambda messages: create(model=model, messages=messages, tools=TOOLS).choices[0].message
    return converse(task, lambda messages: asked(messages).model_dump(exclude_unset=True))


async def by_stream(task, base_url, api_key, model):
    import openai

    client, messages = openai.AsyncOpenAI(base_url=base_url, api_key=api_key), list(task["prompt"])
    options = {"model": model, "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
    while True:
        text, calls = "", []
        async for chunk in await client.chat.completions.create(messages=messages, **options):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                calls += choice.delta.tool_calls or []
        assert chunk.usage.completion_tokens > 0
        made = [{"id": c.id, "type": "function", "function": c.function.model_dump()} for c in calls]
        messages.append({"role": "assistant", "content": text, **({"tool_calls": made} if made else {})})
        if not made:
            return {"reward": 0.5, "acc": 1.0, "said": text}
        for call in made:
            result = add(call["function"]["arguments"])
            messages.append({"role": "tool", "content": result, "tool_call_id": call["id"]})


def by_anthropic(task, base_url, api_key, model, stream=False):
    import anthropic

    function = TOOLS[0]["function"]
    tools = [{"name": "add", "description": function["description"], "input_schema": function["parameters"]}]
    client, messages = anthropic.Anthropic(base_url=base_url, api_key=api_key), list(task["prompt"])
    while True:
        asked = dict(model=model, messages=messages, tools=tools, max_tokens=100)
        if stream:
            with client.messages.stream(**asked) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**asked)
        messages.append({"role": "assistant", "content": answer.content})
        if answer.stop_reason != "tool_use":
            return {"reward": 0.5, "acc": 1.0, "said": answer.content[0].text}
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block.id, "content": str(sum(block.input.values()))}
            for block in answer.content if block.type == "tool_use"
        ]})


def by_anthropic_stream(task, base_url, api_key, model):
    return by_anthropic(task, base_url, api_key, model, stream=True)


def other_history(task, base_url, api_key, model):
    """Ask; rewrite what was said; ask twice the same; ask with a tool more."""
    first = list(task["prompt"])
    chat = lambda messages, **more: post(base_url, api_key, "/chat/completions", model=model, messages=messages, **more)
    answer = chat(first)[1]["choices"][0]["message"]["content"]
    later = {"role": "user", "content": "on"}
    chat([*first, {"role": "assistant", "content": "!" + answer}, later])
    chat(first)
    chat([*first, {"role": "assistant", "content": answer}, later], tools=TOOLS)
    _, last = chat([*first, {"role": "assistant", "content": answer}, later])
    return 1.0


def code_agent(task, base_url, api_key, model):
    """Put back what an answer was stopped at, and what was run, as a code agent of smolagents does."""
    text = lambda role, said: {"role": role, "content": [{"type": "text", "text": said}]}
    messages = [text("system", "You add."), text("user", task["prompt"][0]["content"])]
    ask = lambda **body: post(base_url, api_key, "/chat/completions", model=model, messages=messages, **body)[1]
    for _ in range(2):
        said = ask(stop=["Observation:", "</code>"])["choices"][0]["message"]["content"]
        said = said if said.endswith("</code>") else said + "</code>"
        messages += [text("assistant", said + "\\nCalling tools: 1"), text("user", "Observation: 7")]
    ask()
    return 1.0


def refused(task, base_url, api_key, model):
    messages = list(task["prompt"])
    ask = lambda path="/chat/completions", key=api_key, **body: post(
        base_url, key, path, **{"model": model, "messages": messages, **body}
    )
    long = [{"role": "user", "content": "x" * 100}]
    SAID["refused"] = {
        "key": ask(key="wrong"),
        "model": ask(model="gpt-5"),
        "long": ask(messages=long),
        "tools": ask(tools=TOOLS),
        "responses": ask("/responses"),
        "anthropic": ask("/messages", model="claude"),
    }
    SAID["answered"] = ask(temperature=0.1, tool_choice="required", max_tokens=2)
    return 1.0


def faulty(task, base_url, api_key, model):
    """Do what the task says."""
    kind, messages = task["extra_info"]["kind"], list(task["prompt"])
    if kind == "silent":
        return 1.0
    ask = lambda: post(base_url, api_key, "/chat/completions", model=model, messages=messages)
    status, answer = ask()
    if kind == "raise":
        raise RuntimeError("unlucky")
    if kind == "hang":
        SAID.setdefault("wake", threading.Event()).wait(20)
        SAID["late"] = ask()
        return 1.0
    if kind == "fork":
        if os.fork() == 0:
            time.sleep(60)
        return 1.0
    if kind == "leave":
        child = subprocess.Popen(["sh", "-c", "sleep 61 & sleep 61"])
        SAID["left"] = child.pid
        time.sleep(0.05)
        return 1.0
    if kind == "ask on":
        thread = threading.Thread(target=lambda: SAID.setdefault("asked on", ask()), daemon=True)
        thread.start()
        time.sleep(0.2)
        return 1.0
    if kind == "many":
        while status == 200:
            messages += [answer["choices"][0]["message"], {"role": "user", "content": "on"}]
            status, answer = ask()
        SAID["many"] = status, answer
        raise RuntimeError(answer["error"]["message"])
    return 1.0


'''
Play = Callable[..., Any]


@pytest.fixture(scope="module")
def agentic(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with agents, and programs beside it."""
    configuration = Configuration("0.9.1", features=("agents", "overlap"), package="act")
    folder = tmp_path_factory.mktemp("agentic")
    with support.imported_beside(configuration, folder / "project", {"programs.py": PROGRAMS}) as project:
        yield project


@pytest.fixture
def play(agentic: Project) -> Iterator[Play]:
    """A function that plays a session for each list of turns, and returns the batch and the tokenizer."""
    made: list[Any] = []

    def run(program: str, *episodes: list[str], settings: tuple[str, ...] = (), infos: Any = None, tools: bool = True):
        model_path, tokenizer = support.save_ascii_model(agentic, agentic.root / "model", shows_tools=tools)
        sizes = ("data.max_prompt_length=60", "data.max_response_length=200", f"{MULTI_TURN}.enable=true")
        told = (f"actor_rollout_ref.model.path={model_path}", f"local.agent.program=programs:{program}")
        config = agentic.config(*sizes, *told, *settings)
        agentic.module("agents.agent_loop").check_agents(config)
        engine = support.scripted(agentic, tokenizer, episodes)
        rollouts = support.rollouts_of(agentic, config, tokenizer, OneProcess(), engine)
        made.append(rollouts.episodes)
        return rollouts.generate(support.questions(agentic, len(episodes), infos)), tokenizer

    yield run
    for episodes in made:
        port = int(episodes.loop.endpoint.url.rpartition(":")[2].removesuffix("/v1"))
        episodes.close()
        with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port)):
            pass


def said() -> dict[str, Any]:
    import programs  # type: ignore[import-not-found]

    return programs.SAID  # type: ignore[no-any-return]


@pytest.mark.parametrize("program", ["by_openai", "by_stream", "by_anthropic", "by_anthropic_stream"])
def test_what_was_sampled_is_trained_token_for_token(play: Play, program: str) -> None:
    """By each client; calls are parsed, a tool's words joined and not trained; log-probabilities are the engine's."""
    turn = CALL + "<eos>"
    batch, tokenizer = play(program, [turn, turn, "seven<eos>"], ["no call<eos>"])
    tool = (0, "<tool>7<assistant>")
    assert parts(batch, tokenizer) == [(1, turn), tool, (1, turn), tool, (1, "seven<eos>")]
    assert parts(batch, tokenizer, 1) == [(1, "no call<eos>")]
    assert prompt_of(batch, tokenizer, 1) == "[add]<user>question 1<assistant>"
    log_probs, mask = batch.batch["rollout_log_probs"], batch.batch["response_mask"]
    assert (log_probs[mask.bool()] == -batch.batch["responses"][mask.bool()].float()).all()
    assert (log_probs[~mask.bool()] == 0).all()
    columns = batch.non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated"] * 2
    assert batch.batch["rm_scores"].sum(dim=-1).tolist() == [0.5, 0.5]
    assert columns["acc"].tolist() == [1.0, 1.0]
    assert columns["said"].tolist() == ["seven", "no call"]
    assert columns["turns"].tolist() == [3, 1]
    assert [message["role"] for message in columns["conversation"][0]] == ["assistant", "tool"] * 2 + ["assistant"]
    assert columns["agent_counts"][0]["untrained"] == 0


def test_what_cannot_be_joined_is_counted_and_the_last_chain_is_trained(
    agentic: Project, play: Play, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = ["one<eos>", "two<eos>", "three<eos>", "four<eos>", "five<eos>"]
    batch, tokenizer = play("other_history", turns)
    assert parts(batch, tokenizer) == [(1, "one<eos>"), (0, "<user>on<assistant>"), (1, "five<eos>")]
    counts = batch.non_tensor_batch["agent_counts"][0]
    assert {name: count for name, count in counts.items() if name.startswith("apart/")} == {
        "apart/history": 2,
        "apart/tools": 1,
    }
    assert counts["written"] - counts["untrained"] == len("one") + len("five") + 2
    assert "message 1 (assistant)" in capsys.readouterr().err
    metrics = agentic.module("episodes.outcomes").episode_metrics(batch)
    assert metrics["agent/apart/history"] == 2
    assert metrics["agent/requests/mean"] == 5
    assert 0 < metrics["agent/untrained_tokens"] < 1


def test_what_a_code_agent_puts_back_is_joined_and_not_trained(play: Play) -> None:
    code, more = "<code>x</code>", "code</code><eos>"
    batch, tokenizer = play("code_agent", [code, more, "seven<eos>"], settings=("data.max_prompt_length=200",))
    ran = (0, "\nCalling tools: 1<eos><user>Observation: 7<assistant>")
    assert parts(batch, tokenizer) == [(1, code), ran, (1, "code</code>"), ran, (1, "seven<eos>")]
    assert batch.non_tensor_batch["agent_counts"][0]["untrained"] == 0


def test_what_cannot_be_answered_is_refused_as_openai_does(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    play("refused", ["seven<eos>"], tools=False)
    errors = {name: (status, answer["error"]) for name, (status, answer) in said()["refused"].items()}
    assert {name: (status, error.get("code")) for name, (status, error) in errors.items()} == {
        "key": (401, "invalid_api_key"),
        "model": (404, "model_not_found"),
        "long": (400, "context_length_exceeded"),
        "tools": (400, "unsupported_template"),
        "responses": (404, "not_found"),
        "anthropic": (404, "model_not_found"),
    }
    assert "data.max_prompt_length is 60" in errors["long"][1]["message"]
    assert "custom_chat_template" in errors["tools"][1]["message"]
    assert "OpenAIChatCompletionsModel" in errors["responses"][1]["message"]
    assert errors["anthropic"][1]["type"] == "not_found_error"
    status, answer = said()["answered"]
    assert (status, answer["choices"][0]["finish_reason"], answer["usage"]["completion_tokens"]) == (200, "length", 2)
    assert "ask with temperature, tool_choice, which the policy does not follow" in capsys.readouterr().err


KINDS = ["well", "raise", "silent", "fork", "leave", "ask on", "hang"]


def test_a_fault_costs_its_own_sample(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves no process behind, and no thread but the one that hangs, whose key opens nothing."""
    settings = ("local.agent.timeout=3", "local.env.max_error_share=1")
    batch, _ = play("faulty", *[["one<eos>"]] * len(KINDS), infos=[{"kind": kind} for kind in KINDS], settings=settings)
    ends = dict(zip(KINDS, batch.non_tensor_batch["env_end"], strict=True))
    errors = dict(zip(KINDS, batch.non_tensor_batch["env_error"], strict=True))
    failed = {"raise": "error", "silent": "error", "hang": "timeout"}
    assert ends == {kind: failed.get(kind, "terminated") for kind in KINDS}
    assert errors["raise"] == "the agent program raised RuntimeError: unlucky"
    assert "without an answer of the policy" in errors["silent"]
    assert "goes on in the thread agent-6" in errors["hang"]
    counts = dict(zip(KINDS, batch.non_tensor_batch["agent_counts"], strict=True))
    assert (counts["fork"]["processes"], counts["leave"]["processes"] >= 2) == (1, True)
    assert [kind for kind in KINDS if counts[kind].get("hanging")] == ["hang"]
    for kind in failed:
        assert not batch.batch["response_mask"][KINDS.index(kind)].any()
    with pytest.raises(ProcessLookupError):
        os.kill(said()["left"], 0)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("agent-")] == ["agent-6"]
    assert "3 of 7 environments failed" in capsys.readouterr().err
    said()["wake"].set()


def test_turns_and_tokens_are_limited(play: Play) -> None:
    """The program is told so as OpenAI would; if it gives up, the sample is one without reward, not a failure."""
    for setting, end, code, turns in (
        (f"{MULTI_TURN}.max_assistant_turns=2", "turns_spent", "turn_limit_exceeded", 2),
        ("data.max_response_length=30", "budget_spent", "context_length_exceeded", 3),
    ):
        batch, _ = play("faulty", ["12345<eos>"], infos=[{"kind": "many"}], settings=(setting,))
        status, answer = said()["many"]
        assert (status, answer["error"]["code"]) == (400, code)
        columns = batch.non_tensor_batch
        assert (columns["env_end"][0], columns["turns"][0], columns["env_error"][0]) == (end, turns, "")
        assert batch.batch["rm_scores"].sum() == 0


def test_what_cannot_be_called_is_refused(agentic: Project) -> None:
    check = agentic.module("agents.agent_loop").check_agents
    (agentic.root / "odd.py").write_text("def run(task, url):\n    pass\n\nasync def runs(): pass\n")
    (agentic.root / "broken.py").write_text("import nowhere_at_all\n")
    on, program = f"{MULTI_TURN}.enable=true", "local.agent.program="
    cases = {
        (f"{program}programs:by_openai",): "each response is one turn",
        (on, f"{program}programs"): "module:function",
        (on, f"{program}nowhere:run"): "there is no module nowhere",
        (on, f"{program}odd:run"): "argument: 'url'",
        (on, f"{program}programs:by_openai", f"{MULTI_TURN}.function_tool_path=x.py"): "brings its tools",
    }
    support.check_refused(agentic, check, cases)
    with pytest.raises(agentic.module("hooks").HookError, match="nowhere_at_all"):
        check(agentic.config(on, f"{program}broken:run"))
