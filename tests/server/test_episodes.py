"""Episodes by a server: each turn is asked for by itself, and what is drawn depends on no clock."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.environments.support import Project, prompts_of, rollouts_of

EPISODES, TURNS = 3, 3


class Env:
    """Answers after a time that the test chooses."""

    late: Callable[[int, int], float]

    def __init__(self, settings: Any) -> None:
        self.turns = 0

    def reset(self, *, seed: int, options: dict[str, Any]) -> None:
        self.place = options["place"]

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turns += 1
        await asyncio.sleep(Env.late(self.place, self.turns))
        return str(self.turns), 1.0, self.turns == TURNS, False, {}


@pytest.fixture
def served(sglang_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function that plays episodes with the project's own double of SGLang, and the double's model."""
    from transformers import AutoTokenizer

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for folder in (sglang_project, sglang_project / "tests"):
        monkeypatch.syspath_prepend(str(folder))
    project, double = Project(sglang_project, "sgl"), import_module("sglang_double")
    monkeypatch.setattr(project.module("custom.env_wrapper"), "make_env", Env)
    path = str(project.module("data.toy").ensure_toy_model(tmp_path / "toy"))
    model = double.Model(path)
    server = double.serve(model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rollout = "actor_rollout_ref.rollout"
    config = project.config(
        *("local.device=cpu", "data.max_response_length=40", "local.env.max_turn_tokens=4"),
        *(f"{rollout}.multi_turn.enable=true", f"{rollout}.calculate_log_probs=true"),
        f"actor_rollout_ref.model.path={path}",
        f"trainer.default_local_dir={tmp_path / 'run'}",
        f"local.server.url=http://127.0.0.1:{server.server_address[1]}",
    )
    project.module("settings.loading").settle_device(config)
    tokenizer = AutoTokenizer.from_pretrained(path)
    ranks = project.module("run.distributed").Ranks()
    policy = project.module("workers.policy").Policy(config, tokenizer, ranks, path, total_steps=1)
    engine = project.module("workers.rollout_engine").build_rollout_engine(config, tokenizer, ranks, policy)
    rollouts = rollouts_of(project, config, tokenizer, ranks, engine)

    def play(late: Callable[[int, int], float], **meta: Any) -> Any:
        monkeypatch.setattr(Env, "late", staticmethod(late), raising=False)
        infos = [{"place": place} for place in range(EPISODES)]
        prompts = prompts_of(project, [tokenizer("12=")["input_ids"]] * EPISODES, infos, **meta)
        with project.module("run.seeds").drawing_from(1):
            return rollouts.generate(prompts)

    play.rollouts, play.model = rollouts, model  # type: ignore[attr-defined]
    yield play
    engine.close()
    ranks.close()
    server.shutdown()
    server.server_close()


def test_what_a_server_writes_depends_on_no_clock(served: Any) -> None:
    batches = [served(late) for late in (lambda place, turn: 0.1 * place, lambda place, turn: 0.1 * (2 - place))]
    asked = served.model.requests["/generate"]
    assert len(asked) == 2 * EPISODES * TURNS
    order = [[len(body["input_ids"]) for body in part] for part in (asked[:9], asked[9:])]
    assert all(lengths != sorted(lengths) for lengths in order), "a turn was asked for before others' turns before it"
    for name in sorted(batches[0].batch.keys()):
        assert batches[0].batch[name].equal(batches[1].batch[name]), name
    seeds = {body["sampling_params"]["sampling_seed"] for body in asked}
    assert len(seeds) == EPISODES * TURNS


def test_greedy_episodes_are_those_of_turns_taken_together(served: Any) -> None:
    alone = served(lambda place, turn: 0.02 * place, do_sample=False)
    assert all("sampling_seed" not in body["sampling_params"] for body in served.model.requests["/generate"])
    served.rollouts.episodes.loop.turn_by_turn = True
    together = served(lambda place, turn: 0.0, do_sample=False)
    for name in ("responses", "response_mask", "attention_mask"):
        assert alone.batch[name].equal(together.batch[name]), name
    mask = alone.batch["response_mask"].bool()
    log_probs = [batch.batch["rollout_log_probs"][mask] for batch in (alone, together)]
    assert (log_probs[0] - log_probs[1]).abs().max() < 1e-6


def test_a_run_that_is_to_stop_waits_for_no_environment(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = import_module("sgl.workers.servers.writer")
    timer = threading.Timer(0.5, lambda: monkeypatch.setattr(writer, "stop_requested", lambda: True))
    timer.start()
    start = time.monotonic()
    with pytest.raises(writer.StopRequested, match="stopped while"):
        served(lambda place, turn: 60.0)
    assert time.monotonic() - start < 10
