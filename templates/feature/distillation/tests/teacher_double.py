# vextract:template - edit freely
"""A teacher's server, as vLLM and SGLang are: it takes what this project asks of them, and computes with transformers.

`python teacher_double.py DIRECTORY` serves that model, and prints where.
"""

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Refusal(Exception):
    """The server answers with a status that is no 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TeacherDouble(ThreadingHTTPServer):
    """Serves a model on a free port of 127.0.0.1, within a `with`.

    Attributes:
        kind: "vllm" or "sglang".
        max_model_len: tokens that a request may have, with what is written to it.
        max_logprobs: tokens that may be named at a place (vLLM).
        bodies: what was asked for probabilities, in order.
        change: is given each answer, and may change it.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, path: Any, kind: str = "vllm", max_model_len: int = 512, max_logprobs: int = 20) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.path, self.kind = str(path), kind
        self.max_model_len, self.max_logprobs = max_model_len, max_logprobs
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.bodies: list[Any] = []
        self.change: Callable[[Any], Any] = lambda answer: answer
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "TeacherDouble":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go."""

    def respond(self, path: str, body: Any, name: str) -> Any:
        """Return the answer to a request."""
        if path == "/v1/models":
            model = {"id": "teacher", "root": self.path, "max_model_len": self.max_model_len, "owned_by": self.kind}
            return {"object": "list", "data": [model]}
        if path == "/detokenize":
            text = self.tokenizer.decode(body["tokens"], skip_special_tokens=body.get("skip_special_tokens", False))
            return {"text" if self.kind == "sglang" else "prompt": text}
        if path != {"vllm": "/v1/completions", "sglang": "/generate"}[self.kind]:
            raise Refusal(404, "Not Found")
        with self.lock:
            self.bodies.append(body)
            return self.change(getattr(self, f"_{self.kind}")(body, name))

    @torch.no_grad()
    def _likely(self, tokens: list[int]) -> torch.Tensor:
        if max(tokens) >= self.model.config.vocab_size:
            raise Refusal(400, f"Token id {max(tokens)} is out of vocabulary")
        if len(tokens) + 1 > self.max_model_len:
            raise Refusal(400, f"the maximum context length is {self.max_model_len}")
        return self.model(torch.tensor([tokens])).logits[0, :-1].log_softmax(-1)

    def _vllm(self, body: Any, name: str) -> Any:
        tokens, count = body["prompt"], body["prompt_logprobs"]
        if count > self.max_logprobs:
            raise Refusal(400, f"Requested prompt logprobs of {count}, which is greater than {self.max_logprobs}")
        told: list[Any] = [None]
        for row, token in zip(self._likely(tokens), tokens[1:], strict=True):
            order = row.argsort(descending=True).tolist()
            named = {token: order.index(token) + 1} | {each: rank for rank, each in enumerate(order[:count], 1)}
            told.append(
                {
                    str(each): {"logprob": row[each].item(), "rank": rank, "decoded_token": "?"}
                    for each, rank in named.items()
                }
            )
        choice = {"index": 0, "text": "?", "prompt_logprobs": told, "finish_reason": "length"}
        return {"id": f"cmpl-{name}", "model": body["model"], "choices": [choice]}

    def _sglang(self, body: Any, name: str) -> Any:
        tokens, count = body["input_ids"], body["top_logprobs_num"]
        rows = self._likely(tokens)
        each = [row[token].item() for row, token in zip(rows, tokens[1:], strict=True)]
        told = [[value, token, None] for value, token in zip([None, *each], tokens, strict=True)]
        likeliest: list[Any] = [None]
        for row in rows if count else ():
            found = row.topk(count)
            pairs = zip(found.values.tolist(), found.indices.tolist(), strict=True)
            likeliest.append([[value, token, None] for value, token in pairs])
        meta_info = {"id": body["rid"], "input_token_logprobs": told, "input_top_logprobs": likeliest}
        return {"text": "", "meta_info": meta_info}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    server: TeacherDouble
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._respond(None)

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _respond(self, body: Any) -> None:
        status = 200
        try:
            answer = self.server.respond(self.path, body, self.headers.get("X-Request-Id", ""))
        except Refusal as error:
            status, answer = error.status, {"error": {"message": str(error)}}
        if answer is None:  # hang up
            self.close_connection = True
            return
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""


if __name__ == "__main__":
    torch.set_num_threads(1)
    with TeacherDouble(sys.argv[1]) as double:
        print(double.url, flush=True)
        threading.Event().wait()
