# vextract:template - edit freely
"""A server with the part of SGLang's HTTP API that this project uses, for machines where SGLang cannot run.

It generates with transformers, one token at a time, and takes nothing that SGLang's documentation does not name: an
unknown field, a wrong type or an unknown option of the command line is an error. It says nothing about SGLang's speed,
memory or numerical precision.

    python sglang_double.py --model-path DIRECTORY --port 30000
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

GENERATE_FIELDS = {
    "text",
    "input_ids",
    "input_embeds",
    "image_data",
    "audio_data",
    "sampling_params",
    "rid",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "token_ids_logprob",
    "return_text_in_logprobs",
    "stream",
    "lora_path",
    "custom_logit_processor",
    "return_hidden_states",
}
# What this server knows of sampling_params, with the types that they may have.
SAMPLING_PARAMS: dict[str, tuple[type, ...]] = {
    "max_new_tokens": (int,),
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
    "min_p": (int, float),
    "repetition_penalty": (int, float),
    "ignore_eos": (bool,),
    "stop_token_ids": (list,),
    "skip_special_tokens": (bool,),
    "sampling_seed": (int,),
}
# What leaves out unlikely tokens, and the value with which it leaves out none.
FILTERS = {"top_k": -1, "top_p": 1.0, "min_p": 0.0}
UPDATE_FIELDS: dict[str, tuple[type, ...]] = {
    "model_path": (str,),
    "load_format": (str, type(None)),
    "abort_all_requests": (bool,),
    "weight_version": (str, type(None)),
    "is_async": (bool,),
    "torch_empty_cache": (bool,),
    "keep_pause": (bool,),
    "recapture_cuda_graph": (bool,),
    "token_step": (int,),
    "flush_cache": (bool,),
}
LOAD_FORMATS = (None, "auto", "safetensors")
MEMORY_TAGS = {"kv_cache", "weights"}


class BadRequest(Exception):
    """Refuses what is not in the documentation."""


class Model:
    """The model behind the server.

    Attributes:
        path: of its weights; SGLang calls the model by it.
        requests: the bodies of all POST requests, by path, for tests to look at.
        released: the memory that was given back.
    """

    def __init__(self, path: str, context_length: int | None = None, load_format: str = "auto") -> None:
        self.path = self.tokenizer_path = path
        self.weight_version = "default"
        self.module = AutoModelForCausalLM.from_pretrained(path).to(torch.float32).eval()
        if load_format == "dummy":
            with torch.no_grad():
                for weight in self.module.parameters():
                    weight.normal_(0.0, 0.02)
        self.context_length = context_length or self.module.config.max_position_embeddings
        self.requests: dict[str, list[Any]] = {}
        self.released: set[str] = set()
        self.lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """Return the answer to /get_model_info."""
        return {
            "model_path": self.path,
            "tokenizer_path": self.tokenizer_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": self.weight_version,
            "has_image_understanding": False,
            "has_audio_understanding": False,
        }

    @torch.no_grad()
    def generate(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to /generate, for one prompt as tokens."""
        check_fields(body, dict.fromkeys(GENERATE_FIELDS, (object,)))
        prompt = body.get("input_ids")
        if not isinstance(prompt, list) or not prompt or not all(type(token) is int for token in prompt):
            raise BadRequest("input_ids must be a list of token ids, which is all that this server knows")
        if self.released:
            raise BadRequest(f"memory was released: {sorted(self.released)}")
        params = body.get("sampling_params") or {}
        check_fields(params, SAMPLING_PARAMS)
        limit = params.get("max_new_tokens", 128)
        if len(prompt) + limit > self.context_length:
            raise BadRequest(f"{len(prompt)} + {limit} tokens are more than the context of {self.context_length}")
        written, reason = self._write(prompt, limit, params)
        meta_info: dict[str, Any] = {
            "id": body.get("rid", "0"),
            "finish_reason": reason,
            "prompt_tokens": len(prompt),
            "completion_tokens": len(written),
            "cached_tokens": 0,
        }
        if body.get("return_logprob"):
            meta_info["output_token_logprobs"] = [[log_prob, token, None] for token, log_prob in written]
        return {"text": "", "output_ids": [token for token, _ in written], "meta_info": meta_info}

    def _write(
        self, prompt: list[int], limit: int, params: dict[str, Any]
    ) -> tuple[list[tuple[int, float]], dict[str, Any]]:
        generator = torch.Generator().manual_seed(params.get("sampling_seed", 42))
        temperature = params.get("temperature", 1.0)
        stops = set(params.get("stop_token_ids") or [])
        if not params.get("ignore_eos", False):
            eos = self.module.generation_config.eos_token_id
            stops |= set(eos if isinstance(eos, list) else [eos])
        ids = torch.tensor([prompt])
        written: list[tuple[int, float]] = []
        for _ in range(limit):
            logits = penalized(self.module(ids).logits[0, -1], written, params.get("repetition_penalty", 1.0))
            log_probs = (logits / (temperature or 1.0)).log_softmax(-1)
            if temperature == 0:
                token = int(logits.argmax())
            else:
                kept = filtered(log_probs.exp(), *(params.get(name, off) for name, off in FILTERS.items()))
                token = int(torch.multinomial(kept, 1, generator=generator))
            written.append((token, log_probs[token].item()))
            if token in stops:
                return written, {"type": "stop", "matched": token}
            ids = torch.cat([ids, torch.tensor([[token]])], dim=-1)
        return written, {"type": "length", "length": limit}

    def update_weights(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to /update_weights_from_disk: all weights or none."""
        check_fields(body, UPDATE_FIELDS)
        if body.get("load_format") not in LOAD_FORMATS:
            raise BadRequest(f"load_format {body['load_format']}")
        files = sorted(Path(body["model_path"]).glob("*.safetensors"))
        weights = {name: weight for file in files for name, weight in load_file(file).items()}
        expected = self.module.state_dict()
        if self.module.config.tie_word_embeddings:
            expected.pop("lm_head.weight", None)
        wrong = [
            name for name, weight in expected.items() if name not in weights or weights[name].shape != weight.shape
        ]
        if not files or wrong:
            return {"success": False, "message": f"Failed to update weights: {wrong}.", "num_paused_requests": 0}
        self.module.load_state_dict(weights, strict=False)
        self.path = body["model_path"]
        self.weight_version = body.get("weight_version") or self.weight_version
        return {"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0}

    def memory(self, path: str, body: dict[str, Any]) -> None:
        """Answer /release_memory_occupation and /resume_memory_occupation."""
        check_fields(body, {"tags": (list, type(None))})
        tags = set(body.get("tags") or MEMORY_TAGS)
        if not tags <= MEMORY_TAGS:
            raise BadRequest(f"tags {sorted(tags)}")
        released = path == "/release_memory_occupation"
        if released == bool(tags & self.released):
            raise BadRequest(f"{sorted(tags)} are {'released' if released else 'there'} already")
        self.released = self.released | tags if released else self.released - tags


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    model: Model
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path in ("/health", "/health_generate"):
            self._answer(200, None)
        elif self.path in ("/get_model_info", "/model_info"):
            self._answer(200, self.model.info())
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(content) if content else {}
            with self.model.lock:
                answer = self._post(body)
        except (BadRequest, ValueError) as error:
            self._answer(400, {"error": {"message": str(error)}})
            return
        except KeyError:
            self._answer(404, {"detail": "Not Found"})
            return
        self._answer(200, answer)

    def _post(self, body: dict[str, Any]) -> Any:
        model = self.model
        if not isinstance(body, dict):
            raise BadRequest("the body is no object")
        handlers = {
            "/generate": model.generate,
            "/update_weights_from_disk": model.update_weights,
            "/flush_cache": lambda body: "Cache flushed.",
            "/release_memory_occupation": lambda body: model.memory(self.path, body),
            "/resume_memory_occupation": lambda body: model.memory(self.path, body),
        }
        handler = handlers[self.path]
        model.requests.setdefault(self.path, []).append(body)
        return handler(body)

    def _answer(self, status: int, value: Any) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""


class QuietServer(ThreadingHTTPServer):
    """Takes many connections at a time, and minds no client that hangs up."""

    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client go."""


def check_fields(body: dict[str, Any], known: dict[str, tuple[type, ...]]) -> None:
    """Raise BadRequest for a field that is not known, or not of a type that it may have."""
    for name, value in body.items():
        if name not in known:
            raise BadRequest(f"unknown field {name}")
        if not isinstance(value, known[name]) or (type(value) is bool and known[name] == (int,)):
            raise BadRequest(f"{name} is {value!r}")


def penalized(logits: torch.Tensor, written: list[tuple[int, float]], penalty: float) -> torch.Tensor:
    """Return logits, (vocabulary,) float32, with those of tokens that were written before made smaller."""
    seen = torch.tensor(sorted({token for token, _ in written}), dtype=torch.int64)
    return logits.index_copy(0, seen, torch.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty))


def filtered(probabilities: torch.Tensor, top_k: int, top_p: float, min_p: float) -> torch.Tensor:
    """Return probabilities, (vocabulary,) float32, with those of unlikely tokens set to 0."""
    ordered, order = probabilities.sort(descending=True)
    dropped = (ordered.cumsum(-1) - ordered >= top_p) | (ordered < min_p * ordered[0])
    if top_k > 0:
        dropped[top_k:] = True
    ordered[dropped] = 0.0
    return torch.zeros_like(probabilities).scatter_(-1, order, ordered)


def serve(model: Model, host: str = "127.0.0.1", port: int = 0) -> QuietServer:
    """Return a server for this model, which has yet to be told to `serve_forever`."""
    return QuietServer((host, port), type("ModelHandler", (Handler,), {"model": model}))


def main(arguments: list[str] | None = None) -> None:
    """Serve as `python -m sglang.launch_server`, with the options that this project gives it."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--dtype", choices=["auto", "half", "float16", "bfloat16", "float", "float32"])
    parser.add_argument("--device", choices=["cuda", "cpu"])
    parser.add_argument("--load-format", default="auto", choices=["auto", "safetensors", "dummy"])
    parser.add_argument("--sampling-defaults", choices=["openai", "model"])
    parser.add_argument("--json-model-override-args", type=json.loads)
    for name in ("--random-seed", "--tp-size", "--dp-size", "--context-length", "--max-running-requests"):
        parser.add_argument(name, type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    for name in (
        "--trust-remote-code",
        "--disable-radix-cache",
        "--disable-cuda-graph",
        "--enable-deterministic-inference",
        "--enable-memory-saver",
    ):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    server = serve(Model(options.model_path, options.context_length, options.load_format), options.host, options.port)
    print(f"serving {options.model_path} at port {options.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
