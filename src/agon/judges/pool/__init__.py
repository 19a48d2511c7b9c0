"""Judging in worker processes: a pool that assigns answers, enforces limits and replaces dead workers."""

from agon.judges.pool.pool import BadGold, JudgePool, check_golds

__all__ = ["BadGold", "JudgePool", "check_golds"]
