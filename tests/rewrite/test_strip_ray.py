"""Ray is taken out by what names mean, and what has no meaning without it is refused."""

import pytest

from extractor.pipeline.rewrite.problems import CannotRewrite
from tests.rewrite.support import body, cases_of, emit

SHIM = "from toy.shims.local_executor import"

CASES = cases_of(
    """\
=== remote functions and results
import ray

@ray.remote(num_cpus=1)
def f(x):
    return x

def main(items):
    now = ray.get(f.remote(1))
    later = f.options(num_cpus=2).remote(2, y=3)
    return now, ray.get(later), ray.get([f.remote(i) for i in items]), ray.put(now)
---
SHIM fetch, submit

def f(x):
    return x

def main(items):
    now = f(1)
    later = submit(f, 2, y=3)
    return now, fetch(later), fetch([submit(f, i) for i in items]), now
=== aliases mean the same
from ray import get as g, remote as r
import ray.util as u

@r
def f(): ...

print(g(f.remote()), u.get_node_ip_address())
---
import socket

def f(): ...

print(f(), socket.gethostbyname(socket.gethostname()))
=== a variable called ray is not Ray
def f(ray):
    return ray.get(ray.remote(1))
---
def f(ray):
    return ray.get(ray.remote(1))
=== types become Any
import ray

class Later:
    parts: list[ray.ObjectRef]

    def add(self, part: "ray.ObjectRef") -> "dict[str, ray.actor.ActorHandle]": ...
---
from typing import Any

class Later:
    parts: list[Any]

    def add(self, part: "Any") -> "dict[str, Any]": ...
=== ranks come from the environment
import ray

def local():
    name = "GPU"
    if ray.is_initialized():
        return int(ray.get_runtime_context().get_accelerator_ids()[name][0])
    return ray.get_runtime_context().get_node_id()
---
import os
import socket

def local():
    if False:
        return int(os.environ.get("LOCAL_RANK", "0"))
    return socket.gethostname()
=== workers are plain classes
from verl.single_controller.base import Worker as W
from verl.single_controller.base.decorator import Dispatch, register

class Engine(W):
    def __init__(self):
        W.__init__(self)
        self.x = 1

    @register(dispatch_mode=Dispatch.ALL)
    def step(self): ...
---
class Engine:
    def __init__(self):
        self.x = 1

    def step(self): ...
=== functions of other modules
from verl.jobs import score
print(score.remote(1))
---
from toy.jobs import score
SHIM submit
print(submit(score, 1))
=== a taken name is not shadowed
import ray

def f(fetch):
    return ray.get(fetch)
---
SHIM fetch as _fetch

def f(fetch):
    return _fetch(fetch)
""".replace("SHIM", SHIM)
)


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, wanted = CASES[name]
    assert body(emit(before)) == wanted


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import ray\n\n\ndef f():\n    ray.init()\n", 5),
        ("def f():\n    from ray.util import queue as q\n    return q.Queue()\n", 3),
        ("import ray\n\n\ndef f(handle):\n    return handle.step.remote()\n\n\nray.get(1)\n", 5),
        ("import ray\n\n\n@ray.remote\nclass Actor: ...\n", 5),
        ("try:\n    import ray\n\n    HAS = True\nexcept ImportError:\n    HAS = False\nprint(HAS)\n", 2),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_place(source: str, line: int) -> None:
    with pytest.raises(CannotRewrite) as caught:
        emit(source)
    assert caught.value.path == "verl/deep/pack/thing.py"
    assert abs(caught.value.line - line) <= 1
    assert caught.value.hint
