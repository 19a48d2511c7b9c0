"""Serve a trained pair to any OpenAI client: one policy drafts, the other answers.

  agon serve runs/agon                  transformers, at http://127.0.0.1:8000
  agon serve runs/agon --engine vllm    vLLM in a child process
  agon serve runs/agon --engine vllm-server --vllm-servers http://host:8001

Models: agon (the direction that validation chose), agon-ab, agon-ba, agon-a, agon-b, agon-base. SIGTERM
and Ctrl-C answer what is under way first.
"""

import argparse
import logging
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agon.commands.arguments import add_servers, add_trust, number, whole
from agon.commands.output import quiet_loading, working
from agon.errors import InputError
from agon.printing import say

if TYPE_CHECKING:
    from agon.serve.open import ServeOptions

KEY_VARIABLE = "AGON_API_KEY"
NEEDED = ("fastapi", "uvicorn", "httpx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="folder of a run")
    add_engine_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--port", type=whole(0, 65535), default=8000, help="port (default 8000); 0 takes a free one"
    )
    parser.add_argument("--api-key", metavar="KEY", help=f"key that clients must send; or set {KEY_VARIABLE}")
    parser.add_argument(
        "--max-body-bytes", type=whole(1), default=1_000_000, metavar="N", help="largest request"
    )
    parser.add_argument(
        "--max-prompt-tokens",
        type=whole(1),
        metavar="N",
        help="longest prompt; what the engine reads otherwise",
    )
    parser.add_argument(
        "--max-in-flight",
        type=whole(1),
        default=256,
        metavar="N",
        help="answers at a time (default 256); more are told to come again (429)",
    )
    parser.add_argument(
        "--timeout", type=number(0, above=True), default=600.0, metavar="S", help="seconds for one request"
    )
    parser.add_argument(
        "--drain",
        type=number(1),
        default=600.0,
        metavar="S",
        help="seconds for what is under way when the server is told to stop",
    )
    parser.add_argument(
        "--log-prompts", action="store_true", help="write what is asked into the log; left out otherwise"
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """What samples, and how; the same for `agon serve` and `agon ask`."""
    parser.add_argument(
        "--engine", default="transformers", help="transformers (default), vllm or vllm-server"
    )
    parser.add_argument(
        "--direction",
        type=direction,
        help="AB or BA for the model agon; the one that validation chose otherwise",
    )
    parser.add_argument(
        "--rows", type=whole(1), default=256, metavar="N", help="rows that transformers samples at once"
    )
    add_servers(parser)
    add_trust(parser)
    parser.add_argument("--vllm-kv-cache-bytes", type=whole(1), metavar="N", help="bytes of vLLM's cache")
    parser.add_argument(
        "--max-model-len", type=whole(1), metavar="N", help="tokens of a prompt and its completion in vLLM"
    )
    parser.add_argument(
        "--temperature", type=number(0, 2), help="where a request has none; the run's, else 0.6"
    )
    parser.add_argument(
        "--top-p", type=number(0, 1, above=True), help="where a request has none; the run's, else 0.95"
    )
    parser.add_argument(
        "--max-tokens", type=whole(1), help="of each stage, where a request has none; the run's, else 2048"
    )


def run(arguments: argparse.Namespace) -> int:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise InputError(
            f"`agon serve` needs {', '.join(missing)}, which is not installed: run pip install 'agon-rl[serve]'."
        )
    key = arguments.api_key or os.environ.get(KEY_VARIABLE) or None
    with working(f"loading {arguments.run_folder}"):
        from agon.serve.limits import Limits
        from agon.serve.open import open_service
        from agon.serve.server import is_loopback, listen, serve

        quiet_loading()
    options = serve_options(
        arguments,
        api_key=key,
        log_prompts=arguments.log_prompts,
        limits=Limits(
            body_bytes=arguments.max_body_bytes,
            prompt_tokens=arguments.max_prompt_tokens,
            in_flight=arguments.max_in_flight,
            timeout_s=arguments.timeout,
            drain_s=arguments.drain,
        ),
    )
    options.check()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("agon.serve").setLevel(logging.INFO)
    bound = listen(arguments.host, arguments.port)
    try:
        with open_service(arguments.run_folder, options, arguments.trust_run_code) as opened:
            address = f"http://{arguments.host}:{bound.getsockname()[1]}/v1"

            def ready() -> None:
                chosen = opened.direction
                say(f"agon: serving {', '.join(opened.service.routes)} at {address}", file=sys.stderr)
                say(f"agon: agon is {chosen.name}, chosen on {chosen.chosen_on}.", file=sys.stderr)
                if not is_loopback(arguments.host):
                    open_to = "anyone who has the key" if key else "anyone: set --api-key"
                    say(
                        f"agon: {arguments.host} can be reached from other machines, by {open_to}.",
                        file=sys.stderr,
                        flush=True,
                    )

            serve(opened.service, bound, ready)
    finally:
        bound.close()
    say("agon: stopped; everything under way was answered.", file=sys.stderr)
    return 0


def serve_options(arguments: argparse.Namespace, **others: object) -> "ServeOptions":
    """The options of `add_engine_arguments`, and others."""
    from agon.serve.open import ServeOptions

    names = ("engine", "direction", "rows", "vllm_servers", "vllm_kv_cache_bytes", "max_model_len")
    names += ("temperature", "top_p", "max_tokens")  # type: ignore[assignment]
    given = {name: getattr(arguments, name) for name in names}
    return ServeOptions(**given, **others)  # type: ignore[arg-type]


def direction(written: str) -> str:
    """A->B as it is, or AB, which a shell leaves alone."""
    plain = written.replace("->", "").replace("-", "").upper()
    if len(plain) != 2:
        raise argparse.ArgumentTypeError(f"must be AB or BA, not '{written}'")
    return "->".join(plain)
