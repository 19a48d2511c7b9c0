"""The order of an epoch does not depend on when the process began."""

from trl.trainer.utils import RepeatSampler

from agon.train.epochs import EpochSampler

SETTINGS = {"mini_repeat_count": 2, "batch_size": 2, "repeat_count": 2, "shuffle": True, "seed": 3}


def test_every_epoch_has_the_order_that_trl_gives_it_in_an_uninterrupted_run() -> None:
    theirs = RepeatSampler(range(10), **SETTINGS)
    orders = [list(theirs) for _ in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    resumed = EpochSampler.like(RepeatSampler(range(10), **SETTINGS))
    for epoch in (2, 0, 3, 1, 1):
        resumed.set_epoch(epoch)
        assert list(resumed) == orders[epoch]


def test_an_order_that_is_not_shuffled_stays_as_it_is() -> None:
    plain = EpochSampler.like(RepeatSampler(range(4), mini_repeat_count=1, batch_size=2, shuffle=False))
    plain.set_epoch(5)
    assert list(plain) == [0, 1, 2, 3]
