"""How long two processes take to give each other their parts of a batch, against pickling them."""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project

# Runs in a project; each of two processes has a part, and gets the whole. Prints the seconds of both ways, by turns.
MEASURE = """
import json, multiprocessing, os, socket, sys, time
import torch
import torch.distributed as dist
from bench.run.distributed import Ranks
from bench.vendored.protocol import DataProto

def work(rank, port, queue):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    ranks = Ranks(600)
    names = ("prompts", "responses", "input_ids", "attention_mask", "position_ids", "response_mask")
    part = DataProto.from_dict({name: torch.randint(0, 1000, (256, 8192)) for name in names})

    def pickled(part):
        values = [None, None]
        dist.all_gather_object(values, part)
        return DataProto.concat(values)

    seconds = {"ours": [], "pickled": []}
    for _ in range(int(sys.argv[1])):
        for name, way in (("ours", ranks.gather), ("pickled", pickled)):
            ranks.barrier()
            start = time.perf_counter()
            whole = way(part)
            seconds[name].append(time.perf_counter() - start)
            assert len(whole) == 512
    if rank == 0:
        queue.put(seconds)
    ranks.close()

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
context = multiprocessing.get_context("fork")
queue = context.Queue()
started = [context.Process(target=work, args=(rank, port, queue)) for rank in range(2)]
for process in started:
    process.start()
print(json.dumps(queue.get(timeout=600)))
for process in started:
    process.join()
"""
ROUNDS = 5
LIMIT = 0.6


def run() -> bool:
    """Print the ratio; True where the limit holds."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench")
        seconds = json.loads(python_in(project, "-c", MEASURE, str(ROUNDS)).splitlines()[-1])
    pairs = zip(seconds["ours"], seconds["pickled"], strict=True)
    ratio = statistics.median(ours / pickled for ours, pickled in pairs)
    print("Two processes, 256 rows of 8,192 tokens each, six columns (96 MiB), each gets the rows of both:")
    print(f"{ratio:.2f}x of the time that pickling them takes (limit {LIMIT}x)")
    return ratio <= LIMIT
