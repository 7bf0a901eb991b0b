"""Broken verify rules: each is the right code with one thing wrong, and keeps its signature.

Takes: a ``Draft``, the target's probabilities, uniforms.  Returns: a ``Verdict``, and where the decision changes.
Must not know: models, drafters, the loop.

Shapes: B sequences, k draft tokens, V vocabulary. What each uniform does is said in ``mtp_tutorial.verify``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...records import Draft, Verdict
from ...sampling import inverse_cdf
from ...verify import RULES, at_draft, cdf_points, conclude, draw_at, leading, ratio, residual, row_at, without_draft

_rejection = RULES["rejection"]


def resample_full(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R1, R8. After a rejection the token is drawn from the whole p, where the draft token has a second chance."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    return conclude(draft, n, inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n)))


def match_or_coin(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R2. Accept when the target's own token is the draft token *or* the coin says so: two chances instead of one."""
    drawn = inverse_cdf(target_probs, uniforms[:, :, 1])
    ratios = ratio(draft, target_probs)
    n = leading((drawn[:, :-1] == draft.tokens) | (uniforms[:, :-1, 0] < ratios), draft)
    # The draw is spent on the match, so what is left of the coin draws the recovered token.
    coin, edge = (row_at(torch.nn.functional.pad(x, (0, 1)), n) for x in (uniforms[:, :-1, 0], ratios.clamp_max(1)))
    left = ((coin - edge) / (1 - edge).clamp_min(1e-300)).clamp(0, 1 - 1e-16)
    recovered = inverse_cdf(residual(row_at(target_probs, n), draft, n), left)
    bonus = inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n))
    return conclude(draft, n, torch.where(n == draft.lengths, bonus, recovered))


def coin_zero(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R3. The acceptance coin is always 0: every draft token that is possible at all is accepted."""
    stuck = uniforms.clone()
    stuck[:, :, 0] = 0
    return _rejection.decide(draft, target_probs, stuck)


def argmax_recovery(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R4. The recovered token is the most probable one of the residual instead of a draw from it."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    recovered = residual(row_at(target_probs, n), draft, n).argmax(-1)
    bonus = inverse_cdf(row_at(target_probs, n), draw_at(uniforms, n))
    return conclude(draft, n, torch.where(n == draft.lengths, bonus, recovered))


def coin_draws_too(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R5. The coin that rejected the draft token also draws the recovered one, although it is known to be large."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    u = torch.where(n == draft.lengths, draw_at(uniforms, n), row_at(uniforms[:, :, 0], n))
    return conclude(draft, n, inverse_cdf(residual(row_at(target_probs, n), draft, n), u))


def _argmax_draft(draft: Draft) -> Draft:
    """The drafter's most probable tokens, still scored with its soft probabilities."""
    if draft.probs is None:
        return draft
    return Draft.trusted(torch.where(draft.tokens >= 0, draft.probs.argmax(-1), -1), draft.probs)


def argmax_draft_soft_q(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R6. The draft token is the argmax of q, but is judged as if it had been drawn from q."""
    return _rejection.decide(_argmax_draft(draft), target_probs, uniforms)


def only_draft_removed(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R7. The draft token was drawn from q, but the residual is p without that token, as for a one-hot q."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    return conclude(draft, n, inverse_cdf(without_draft(row_at(target_probs, n), draft, n), draw_at(uniforms, n)))


def _at_power(rows: Tensor, power: float) -> Tensor:
    """Rows at another temperature: p to a power, normalised."""
    raised = rows.pow(power)
    return raised / raised.sum(-1, keepdim=True)


def residual_at_one(draft: Draft, target_probs: Tensor, uniforms: Tensor, temperature: float = 0.6) -> Verdict:
    """R9. Accept at the request's temperature, but draw from the residual of the distribution at temperature 1."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    row = row_at(target_probs, n)
    row = torch.where((n == draft.lengths)[:, None], row, _at_power(row, temperature))
    return conclude(draft, n, inverse_cdf(residual(row, draft, n), draw_at(uniforms, n)))


def temperature_twice(draft: Draft, target_probs: Tensor, uniforms: Tensor, temperature: float = 0.6) -> Verdict:
    """R10. The distribution that comes in has its temperature already, and gets it a second time."""
    return _rejection.decide(draft, _at_power(target_probs, 1 / temperature), uniforms)


def one_coin(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R12. All positions of a round share one acceptance coin."""
    shared = uniforms.clone()
    shared[:, :, 0] = uniforms[:, :1, 0]
    return _rejection.decide(draft, target_probs, shared)


def bonus_row_before(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R13. The bonus token is drawn from row k-1, the one the last draft token was judged by, instead of row k."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    return conclude(draft, n, inverse_cdf(bonus_row_before_weights(draft, target_probs, n), draw_at(uniforms, n)))


def bonus_row_before_weights(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    wrong = row_at(target_probs, (n - 1).clamp_min(0))
    right = residual(row_at(target_probs, n), draft, n)
    return torch.where((n == draft.lengths)[:, None], wrong, right)


def residual_short(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """R18. The residual is not normalised before the inverse CDF: its missing mass falls on the last token."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    total = residual(row_at(target_probs, n), draft, n).cumsum(-1)
    reached = (total <= draw_at(uniforms, n)[:, None]).sum(-1).clamp_max(total.shape[-1] - 1)
    return conclude(draft, n, reached)


def _confident(draft: Draft, threshold: float) -> Draft:
    """The draft up to the first token that its own distribution gives less than ``threshold``."""
    if draft.probs is None:
        return draft
    sure = (at_draft(draft.probs, draft) >= threshold).to(torch.int64).cumprod(1).bool()
    return Draft.trusted(draft.tokens.masked_fill(~sure, -1), draft.probs)


def unlikely_dropped(draft: Draft, target_probs: Tensor, uniforms: Tensor, threshold: float = 0.3) -> Verdict:
    """R19. A drawn token is dropped because q gave it little. What is kept is no longer drawn from q."""
    return _rejection.decide(_confident(draft, threshold), target_probs, uniforms)


def next_row(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """The recovered token is drawn from the row after the rejection: the one that follows the rejected token."""
    n = leading(uniforms[:, :-1, 0] < ratio(draft, target_probs), draft)
    return conclude(draft, n, inverse_cdf(next_row_weights(draft, target_probs, n), draw_at(uniforms, n)))


def next_row_weights(draft: Draft, target_probs: Tensor, n: Tensor) -> Tensor:
    after = row_at(target_probs, torch.minimum(n + 1, draft.lengths))
    return residual(after, draft, n)


def shifted_rows(draft: Draft, target_probs: Tensor, uniforms: Tensor) -> Verdict:
    """Each draft token is judged by the row that follows it instead of the one it was to be drawn from."""
    return _rejection.decide(draft, _shifted(draft, target_probs), uniforms)


def _shifted(draft: Draft, target_probs: Tensor) -> Tensor:
    """Row i+1 in the place of row i; the bonus row, which has none behind it, stays."""
    place = torch.arange(target_probs.shape[1], device=target_probs.device)
    index = torch.minimum(place + 1, draft.lengths[:, None])
    return target_probs.gather(1, index[:, :, None].expand_as(target_probs))


# -- Where the decisions change: for ``lab.exact`` --------------------------------------------------------------------


def match_or_coin_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    found = []
    for i, (coin, _) in enumerate(_rejection.breakpoints(draft, target_probs)):
        n = torch.tensor([i])
        edge = coin.clamp_max(1)
        if len(edge):  # beyond the edge, the rest of the coin is the residual's own [0, 1)
            inner = cdf_points(residual(row_at(target_probs, n), draft, n)[0])
            edge = torch.cat([edge, edge + (1 - edge) * inner])
        found.append((edge, cdf_points(target_probs[0, i])))
    return found


def coin_draws_too_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(torch.cat([coin, draw]), draw) for coin, draw in _rejection.breakpoints(draft, target_probs)]


def one_coin_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    pairs = _rejection.breakpoints(draft, target_probs)
    coins = torch.cat([coin for coin, _ in pairs])
    return [(coins, draw) for _, draw in pairs]


def residual_short_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    found = []
    for i, (coin, _) in enumerate(_rejection.breakpoints(draft, target_probs)):
        n = torch.tensor([i])
        found.append((coin, residual(row_at(target_probs, n), draft, n)[0].cumsum(-1)))
    return found


def argmax_draft_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    return _rejection.breakpoints(_argmax_draft(draft), target_probs)


def residual_at_one_points(draft: Draft, target_probs: Tensor, temperature: float) -> list[tuple[Tensor, Tensor]]:
    cooler = _at_power(target_probs, temperature)
    coins, draws = _rejection.breakpoints(draft, target_probs), _rejection.breakpoints(draft, cooler)
    last = len(coins) - 1
    return [(coins[i][0], (coins if i == last else draws)[i][1]) for i in range(last + 1)]


def temperature_twice_points(draft: Draft, target_probs: Tensor, temperature: float) -> list[tuple[Tensor, Tensor]]:
    return _rejection.breakpoints(draft, _at_power(target_probs, 1 / temperature))


def unlikely_dropped_points(draft: Draft, target_probs: Tensor, threshold: float) -> list[tuple[Tensor, Tensor]]:
    return _rejection.breakpoints(_confident(draft, threshold), target_probs)


def shifted_rows_points(draft: Draft, target_probs: Tensor) -> list[tuple[Tensor, Tensor]]:
    return _rejection.breakpoints(draft, _shifted(draft, target_probs))
