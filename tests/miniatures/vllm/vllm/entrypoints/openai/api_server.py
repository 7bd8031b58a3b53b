"""The server: ``python -m vllm.entrypoints.openai.api_server --model M`` or ``vllm serve M``."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vllm_ascend.releases import release, version

from vllm.config import EngineConfig, server_arguments
from vllm.sampling import SamplingParams, prompts_of
from vllm.troubles import trouble
from vllm.v1.core import EngineClient, EngineDeadError


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], config: EngineConfig, engine: EngineClient) -> None:
        self.config, self.engine = config, engine
        self.frontend_since = 0.0
        super().__init__(address, Handler)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self._answer(503 if self.server.engine.dead else 200)
        elif self.path == "/v1/models":
            self._answer(200, {"object": "list", "data": [{"id": self.server.config.name, "object": "model"}]})
        elif self.path == "/version":
            self._answer(200, {"version": version()})
        else:
            self._not_found()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        routes = {"/v1/completions": self._complete}
        if self.server.config.profiler.profiler:
            routes.update({"/start_profile": self._start_profile, "/stop_profile": self._stop_profile})
        if self.path not in routes:
            self._not_found()
            return
        try:
            routes[self.path](body)
        except EngineDeadError as problem:
            self._answer(500, {"error": {"message": str(problem), "type": "InternalServerError", "code": 500}})
        except RuntimeError:
            self._answer(500, text="Internal Server Error")

    def _complete(self, body: bytes) -> None:
        config = self.server.config
        try:
            asked = json.loads(body)
            prompts = prompts_of(asked["prompt"])
            params = SamplingParams(asked.get("max_tokens") or 16, 0.0, bool(asked.get("ignore_eos", False)))
        except (KeyError, ValueError) as problem:
            self._error(400, str(problem))
            return
        if asked.get("model", config.name) != config.name:
            self._error(404, f"The model `{asked['model']}` does not exist.")
        elif max(map(len, prompts)) + params.max_tokens > config.max_model_len:
            self._error(400, f"This model's maximum context length is {config.max_model_len} tokens.")
        else:
            outputs = self.server.engine.ask("generate", (prompts, params))
            made = [output.outputs[0] for output in outputs]
            given, new = sum(map(len, prompts)), sum(len(choice.token_ids) for choice in made)
            usage = {"prompt_tokens": given, "completion_tokens": new, "total_tokens": given + new}
            said = [
                {"index": number, "text": choice.text, "finish_reason": choice.finish_reason}
                for number, choice in enumerate(made)
            ]
            self._answer(200, {"object": "text_completion", "model": config.name, "choices": said, "usage": usage})

    def _start_profile(self, _body: bytes) -> None:
        self.server.frontend_since = time.time()
        self.server.engine.ask("profile", True)
        self._answer(200)

    def _stop_profile(self, _body: bytes) -> None:
        time.sleep(float(trouble("slow_stop") or 0))
        if trouble("stop_500") is not None:
            raise RuntimeError
        self._frontend()
        self.server.engine.ask("profile", False)
        self._answer(200)

    def _frontend(self) -> None:
        """The profile of this process that comes beside those of the workers, unless it was told to be ignored."""
        profiler = self.server.config.profiler
        if release(version()).switch == "argument" and not profiler.ignore_frontend:
            os.makedirs(profiler.torch_profiler_dir, exist_ok=True)
            name = f"{socket.gethostname()}_{os.getpid()}.async_llm.{time.time_ns()}.pt.trace.json.gz"
            with gzip.open(os.path.join(profiler.torch_profiler_dir, name), "wt") as file:
                json.dump({"traceEvents": [], "baseTimeNanoseconds": int(self.server.frontend_since * 1e9)}, file)

    def _not_found(self) -> None:
        self._answer(404, {"detail": "Not Found"})

    def _error(self, status: int, message: str) -> None:
        self._answer(status, {"error": {"message": message, "type": "BadRequestError", "code": status}})

    def _answer(self, status: int, document: Any = None, text: str = "") -> None:
        data = json.dumps(document).encode() if document is not None else text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if document is not None else "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, form: str, *values: Any) -> None:
        sys.stdout.write(f"INFO:     {self.address_string()} - {form % values}\n")
        sys.stdout.flush()


def serve(prog: str, positional_model: bool, argv: list[str]) -> int:
    """Answers once the engine has loaded its model; ends with 1 when the engine does, with 0 on SIGTERM."""
    options, config = server_arguments(prog, positional_model, argv)
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    with socket.socket() as probe:  # taken before the engine starts, as a port in use has to be seen at once
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((options.host, options.port))
        sys.stdout.write(f"INFO vLLM API server version {version()}\n")
        sys.stdout.flush()

        def leave(*_: Any) -> None:
            raise SystemExit(0)

        signal.signal(signal.SIGTERM, leave)
        engine = EngineClient(config)
    try:
        server = Server((options.host, options.port), config, engine)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdout.write("INFO:     Application startup complete.\n")
        sys.stdout.flush()
        while not engine.dead:
            time.sleep(0.1)
        time.sleep(0.2)  # for those who have asked
        sys.stderr.write("ERROR AsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError\n")
        return 1
    finally:
        engine.shutdown()


if __name__ == "__main__":
    sys.exit(serve("api_server.py", False, sys.argv[1:]))
