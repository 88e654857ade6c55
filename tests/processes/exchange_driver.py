"""Runs inside a project: two processes send each other values of many kinds; prints what arrived as JSON."""

import json
import multiprocessing
import os
import socket
import sys
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from toy.run import exchange  # type: ignore[import-not-found]
from toy.run.distributed import Ranks  # type: ignore[import-not-found]
from toy.vendored.protocol import DataProto  # type: ignore[import-not-found]


def values(rank: int) -> list[Any]:
    """Return what a process sends: large and small tensors of many kinds, alone and in a batch; of other sizes each."""
    big = torch.arange(5000) + rank
    batch = TensorDict({"tokens": big.view(50, 100), "mask": big.view(50, 100) % 2 == 0}, batch_size=[50])
    texts = {"text": np.array([f"{rank} {row}" for row in range(50)], dtype=object)}
    return [
        big[::2],
        big.to(torch.bfloat16),
        big.expand(2, 5000),
        torch.zeros(0, 4),
        torch.tensor(rank),
        torch.ones(2000 * (rank + 1)),
        {"a": (big > 7, None, "text")},
        DataProto(batch, texts, {"step": 3}),
    ]


def same(one: Any, other: Any) -> bool:
    """Tell whether two of these values are alike, dtypes and shapes as well."""
    if isinstance(one, DataProto):
        columns = same({"a": one.batch.to_dict().values()}, {"a": other.batch.to_dict().values()})
        return (
            columns
            and (one.non_tensor_batch["text"] == other.non_tensor_batch["text"]).all()
            and one.meta_info == other.meta_info
        )
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return same(list(one["a"]), list(other["a"]))
    if isinstance(one, list):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    return one == other


def work(rank: int, port: int, queue: Any) -> None:
    """Send and receive, as one of two processes."""
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = Ranks(60)
    every = [values(0), values(1)]
    gathered = ranks.gather_objects(values(rank))
    alike = ranks.gather_objects(values(7))
    batches = ranks.gather(every[rank][-1])
    told = ranks.on_driver(lambda: values(4))
    told[0].add_(1)  # what arrives may be written to
    pickled = len(exchange.pack(values(rank)).data)
    queue.put({
        "gathered": same(gathered, every),
        "alike": same(alike, [values(7), values(7)]),
        "batches": same(batches, DataProto.concat([own[-1] for own in every])),
        "told": same(told[1:], values(4)[1:]),
        "pickled": pickled,
    })  # fmt: skip
    ranks.close()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [context.Process(target=work, args=(rank, port, queue)) for rank in range(2)]
    for process in started:
        process.start()
    results = [queue.get(timeout=60) for _ in started]
    for process in started:
        process.join()
    print(json.dumps(results), file=sys.stdout)
