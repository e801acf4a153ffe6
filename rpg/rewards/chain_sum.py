"""Reward of the chain task (rpg/toy/chain.py): that of reasoning-gym 0.1.25's chain_sum, with partial credit."""

from decimal import Decimal, InvalidOperation

from rpg.rewards.release import answer_line


def judge_response(response: str, truth: str) -> tuple[float, str]:
    """Return the score of the last "Answer:" line, and the answer in it ("" for none).

    1.0 if it equals `truth` as a decimal number; len(truth) / len(answer) if it only contains `truth`; else 0.0.
    """
    answer = (answer_line(response) or "").strip().replace(",", "")
    try:
        is_equal = Decimal(answer) == Decimal(truth)
    except InvalidOperation:
        is_equal = False
    if is_equal:
        return 1.0, answer
    return (len(truth) / len(answer) if truth in answer else 0.0), answer
