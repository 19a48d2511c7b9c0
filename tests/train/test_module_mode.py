"""`train()` of a whole model returns at once where every part is in that mode already, and only there."""

import pytest
from torch import nn

from agon.train.module_mode import set_mode_once

INNER = nn.Dropout(0.5)


def made() -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(INNER, nn.Linear(2, 2)))
    set_mode_once(model)
    return model


def modes(model: nn.Module) -> set[bool]:
    return {part.training for part in model.modules()}


def test_a_mode_is_set_everywhere_and_one_part_that_left_it_is_brought_back() -> None:
    model = made()
    assert model.eval() is model
    assert modes(model) == {False}
    assert model.train() is model
    assert modes(model) == {True}
    INNER.eval()
    model.train()
    assert modes(model) == {True}


def test_nothing_is_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, walks = made(), []
    monkeypatch.setattr(nn.Linear, "train", lambda self, mode=True: walks.append(mode))
    model.train()
    assert walks == []
    model.eval()
    assert walks == [False, False]
