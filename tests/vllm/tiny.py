"""A tiny real Qwen3 with two clearly different adapters, and what PEFT itself computes with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from agon.engines.chat import Chat
from agon.engines.protocol import Engine, Request, Sampling
from agon.engines.transformers_engine import stop_ids
from agon.game.rollout import Rollout
from agon.policies import Adapters, Pair
from tests.tiny import model, tokenizer

# Several blocks of vLLM's prefix cache, so that a stale one would be hit.
LONG = "what is one and one and one and one? " * 6


@dataclass(frozen=True)
class Tiny:
    """A model folder on disk, and the pair over the same weights in memory."""

    path: Path
    pair: Pair
    chat: Chat
    stop_ids: list[int]

    def request(
        self, key: str, policy: str, text: str, sampling: Sampling, version: int = 0, seed: int = 0
    ) -> Request:
        prompt = self.chat.encode([{"role": "user", "content": text}])
        return Request(key, prompt, policy, version, sampling, seed)

    def greedy(self, policy: str, text: str, tokens: int) -> list[int]:
        """What transformers and PEFT generate from the pair's current weights."""
        prompt = torch.tensor([self.chat.encode([{"role": "user", "content": text}])])
        with self.pair.using(policy), torch.inference_mode():
            # Attention of ones: some prompts contain the padding token's neighbours, none is padded.
            output = self.pair.model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=tokens,
                do_sample=False,
                eos_token_id=self.stop_ids,
            )
        return output[0, prompt.shape[1] :].tolist()

    def logprobs(
        self, policy: str, prompt: Sequence[int], completion: Sequence[int], temperature: float
    ) -> list[float]:
        """The log-softmax, at a temperature, that the trainer would compute."""
        tokens = torch.tensor([[*prompt, *completion]])
        with self.pair.using(policy), torch.inference_mode():
            logits = self.pair.model(input_ids=tokens).logits[0, len(prompt) - 1 : -1] / temperature
        picked = logits.log_softmax(-1).gather(-1, torch.tensor(completion)[:, None])
        return picked[:, 0].tolist()

    def change_weights(self, policy: str, seed: int) -> None:
        """Change a policy as an optimizer step does, only more."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _, weight in self.pair.weights(policy):
                weight.add_(torch.randn(weight.shape, generator=generator) * 0.2)


def make_tiny(folder: Path) -> Tiny:
    words = tokenizer()
    # Heads of 32 are the smallest that vLLM's CPU attention supports; with large weights, adapters change tokens.
    base = model("qwen3", hidden_size=64, head_dim=32, initializer_range=0.2, tie_word_embeddings=False)
    base.save_pretrained(folder)
    words.save_pretrained(folder)
    pair = Pair.create(base, Adapters(rank=16, noise=0.3))
    tiny = Tiny(folder, pair, Chat(words, "boxed"), stop_ids(pair.model.get_base_model(), words))
    tiny.change_weights("A", seed=1)  # A starts equal to the base, and must be told apart from it
    return tiny


def play(engine: Engine, requests: Iterable[Request]) -> dict[str, Rollout]:
    """Submit requests and collect every rollout by its key."""
    engine.submit(list(requests))
    rollouts = {}
    while finished := engine.collect():
        rollouts.update({done.request.key: done.rollout for done in finished})
    return rollouts
