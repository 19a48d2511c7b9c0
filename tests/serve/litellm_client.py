"""Asks a server through LiteLLM, in an environment of its own: a line of scenarios in, a line of what came back out.

    python litellm_client.py URL KEY < scenarios.jsonl

A scenario is the options of `litellm.completion`, with `streamed` for all chunks, `leave_after` for a client that goes
away after so many of them, and `at_once` for so many requests at the same time.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import litellm
import openai

litellm.suppress_debug_info = True


def main() -> None:
    url, key = sys.argv[1:3]
    for line in sys.stdin:
        found = {name: ask(url, key, **scenario) for name, scenario in json.loads(line).items()}
        print(json.dumps(found), flush=True)


def ask(url: str, key: str, at_once: int = 1, **options: Any) -> Any:
    if at_once == 1:
        return one(url, key, **options)
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda number: one(url, key, **options, seed=number), range(at_once)))


def one(url: str, key: str, streamed: bool = False, leave_after: int = 0, **options: Any) -> Any:
    asked = {"api_base": f"{url}/v1", "api_key": key, "num_retries": 0, "timeout": 120, **options}
    try:
        if not streamed:
            return whole(litellm.completion(**asked))
        stream = litellm.completion(**asked, stream=True, stream_options={"include_usage": True})
        if leave_after:
            for _, _ in zip(range(leave_after), stream, strict=False):
                pass
            stream.completion_stream.close()
            return None
        return pieces(stream)
    except openai.APIError as error:  # LiteLLM's errors are kinds of these
        return {"error": type(error).__name__, "status": getattr(error, "status_code", None)}


def whole(answer: Any) -> dict[str, Any]:
    usage = answer.usage
    return {
        "contents": [choice.message.content for choice in answer.choices],
        "reasoning": [getattr(choice.message, "reasoning_content", "") for choice in answer.choices],
        "finish": [choice.finish_reason for choice in answer.choices],
        "tokens": [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens],
        "reasoning_tokens": usage.completion_tokens_details.reasoning_tokens,
    }


def pieces(stream: Any) -> dict[str, Any]:
    content = reasoning = ""
    finish, tokens = None, None
    for chunk in stream:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            finish = choice.finish_reason or finish
        if getattr(chunk, "usage", None):
            tokens = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens, chunk.usage.total_tokens]
    return {"contents": [content], "reasoning": [reasoning], "finish": [finish], "tokens": tokens}


if __name__ == "__main__":
    main()
