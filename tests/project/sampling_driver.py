"""Compare rollouts of a model whose directory says much about sampling. Run in a project, by its text.

    python -c "$(cat sampling_driver.py)" FOLDER OVERRIDES...

Prints a JSON object: how far the engine's log-probabilities are from those of the distribution that it was asked for,
at the worst; which tokens have ended responses and turns; and how many responses are not masked after their end.
"""

import asyncio
import contextlib
import importlib
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

sys.path.insert(0, str(Path.cwd()))
project = importlib.import_module("toy")

LENGTH = 12
QUESTIONS = ["1=", "37=", "12345=", "5+6="]
IGNORED = {
    "repetition_penalty": 1.5,
    "temperature": 0.3,
    "top_k": 2,
    "top_p": 0.5,
    "min_p": 0.3,
    "no_repeat_ngram_size": 1,
    "suppress_tokens": [9, 10, 11],
    "forced_eos_token_id": 5,
    "max_new_tokens": 1,
}
ASKED = {"repetition_penalty": 1.3, "min_p": 0.02}
NEUTRAL = {"repetition_penalty": 1.0, "min_p": 0.0}


def make_model(path: Path) -> list[int]:
    """Write the model; the tokens that end a response: tokenizer's, generation config's, config's, template's."""
    importlib.import_module("toy.data.toy").ensure_toy_model(path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = tokenizer.chat_template.replace("<eos>", "<system>")
    tokenizer.save_pretrained(path)
    config = Qwen2Config.from_pretrained(path)
    config.hidden_size, config.num_attention_heads, config.num_key_value_heads = 64, 2, 1
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).float().save_pretrained(path)
    ends = tokenizer.convert_tokens_to_ids(["<eos>", "7", "8", "<system>"])
    for name, changes in (
        ("config.json", {"eos_token_id": [ends[0], ends[2]]}),
        ("generation_config.json", {**IGNORED, "eos_token_id": [ends[1]], "do_sample": True}),
    ):
        known = json.loads((path / name).read_text()) if (path / name).exists() else {}
        (path / name).write_text(json.dumps({**known, **changes}))
    return ends


def asked_for(logits: torch.Tensor, before: list[int], settings: dict[str, float]) -> torch.Tensor:
    """The log-probabilities of the next token that sampling with these settings has."""
    seen = torch.tensor(sorted({*before}))
    values, penalty = logits[seen], settings["repetition_penalty"]
    logits = logits.index_copy(0, seen, torch.where(values > 0, values / penalty, values * penalty))
    log_probs = logits.log_softmax(-1)
    left_out = log_probs.exp() < settings["min_p"] * log_probs.exp().max()
    return log_probs.masked_fill(left_out, -torch.inf).log_softmax(-1)


@torch.no_grad()
def off(model: torch.nn.Module, batch: object, settings: dict[str, float]) -> float:
    """The largest difference between the engine's log-probabilities and those of what was asked for."""
    worst, most = 0.0, batch.batch["responses"].shape[1]
    columns = (batch.batch[name] for name in ("input_ids", "attention_mask", "rollout_log_probs"))
    for ids, mask, given in zip(*columns, strict=True):
        tokens, written = ids[mask.bool()].tolist(), int(mask[-most:].sum())
        logits = model(torch.tensor([tokens])).logits[0].float()
        for place in range(written):
            at = len(tokens) - written + place
            expected = asked_for(logits[at - 1], tokens[:at], settings)[tokens[at]]
            worst = max(worst, abs((expected - given[place]).item()))
    return worst


@torch.no_grad()
def likeliest(model: torch.nn.Module, prompt: list[int], settings: dict[str, float], ends: list[int]) -> list[int]:
    """What a greedy rollout writes."""
    tokens = list(prompt)
    for _ in range(LENGTH):
        logits = model(torch.tensor([tokens])).logits[0, -1].float()
        tokens.append(int(asked_for(logits, tokens, {**settings, "min_p": 0.0}).argmax()))
        if tokens[-1] in ends:
            break
    return tokens[len(prompt) :]


def main(folder: Path, overrides: list[str]) -> None:
    torch.set_num_threads(1)
    path = folder / "model"
    ends = make_model(path)
    rollout = "actor_rollout_ref.rollout"
    config = project.load_config(
        "scale=toy",
        f"data.max_response_length={LENGTH}",
        f"actor_rollout_ref.model.path={path}",
        f"{rollout}.calculate_log_probs=true",
        *(f"{rollout}.{name}={value}" for name, value in ASKED.items()),
        f"{rollout}.val_kwargs.min_p=0.1",
        f"{rollout}.val_kwargs.temperature=1.0",
        f"trainer.default_local_dir={folder / 'run'}",
        *overrides,
    )
    model = AutoModelForCausalLM.from_pretrained(path).float().eval()
    found: dict[str, object] = {"ends": ends}
    with project.LocalRolloutManager(config) as parts:
        engine, tokenizer = parts.rollouts.engine, parts.tokenizer
        contexts = [tokenizer(text)["input_ids"] for text in QUESTIONS]
        context_batch = importlib.import_module("toy.episodes.turns").context_batch

        def write(repeat: int, **meta: object) -> object:
            prompts = context_batch(contexts, tokenizer.pad_token_id, meta).repeat(repeat, interleave=True)
            with getattr(engine, "session", contextlib.nullcontext)():
                return engine.generate_sequences(prompts)

        for name, meta, settings in (
            ("neutral", NEUTRAL, NEUTRAL),
            ("asked", {}, ASKED),
            ("validation", {"validate": True, "do_sample": True, "with_log_probs": True}, {**ASKED, "min_p": 0.1}),
        ):
            batch = write(16, **meta)
            found[name] = off(model, batch, settings)
            responses = batch.batch["responses"].tolist()
            lengths = batch.batch["attention_mask"][:, -LENGTH:].sum(-1).tolist()
            first = [next((i + 1 for i, t in enumerate(row) if t in ends), LENGTH) for row in responses]
            found[f"{name} not masked"] = sum(a != b for a, b in zip(first, lengths, strict=True))
            last = {row[length - 1] for row, length in zip(responses, lengths, strict=True)}
            found[f"{name} ended by"] = sorted(last & {*ends})
        greedy = write(1, do_sample=False, validate=True)
        mask = greedy.batch["attention_mask"][:, -LENGTH:].bool()
        rows = [row[kept].tolist() for row, kept in zip(greedy.batch["responses"], mask, strict=True)]
        found["greedy"] = rows == [likeliest(model, context, ASKED, ends) for context in contexts]
        if hasattr(engine, "writer"):

            async def turns(writer: object) -> list[list[int]]:
                asked = [writer.write(n, contexts[n % 4], LENGTH, seed=n) for n in range(64)]
                return [tokens for tokens, _ in await asyncio.gather(*asked)]

            with getattr(engine, "session", contextlib.nullcontext)(), engine.writer(NEUTRAL) as writer:
                written = asyncio.new_event_loop().run_until_complete(turns(writer))
            found["turns ended by"] = sorted({row[-1] for row in written if row[-1] in ends})
            found["turns go on"] = sum(token in ends for row in written for token in row[:-1])
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
