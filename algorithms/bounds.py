"""What HGA-FL's theory says of its parameters: Proposition 1, Theorem 1, limits (67) and (68).

Xie et al., *Hierarchical Global Asynchronous Federated Learning Across Multi-Center*, ACML 2024;
the proofs are in its supplement. L is the smoothness of every device's loss. Staleness is in global
steps here; Gamma_max of the paper's experiments is in mini-batches, of which many pass in one step.

- (68) comes from (64) at the largest sub-center step rate that (66) allows: where alpha is above
  (67), a larger eta_g would do too, which (68) does not say.
- In Theorem 1 the factor 4 - 3 L makes the second term negative for L > 4/3, where it is no bound
  on anything; it is computed as printed.
- Corollary 1 chooses alpha = sqrt((2 + 2 L^2) R / K), which keeps (67) only for L up to
  1 / (10 sqrt(6 K R)), .008 for K = 3 and R = 8.
"""

from __future__ import annotations

from math import sqrt


def most_sub_center_rate(smoothness: float, alpha: float) -> float:
    """Proposition 1: the largest eta_s, by which a round moves a sub-center along its gradient."""
    return sqrt(2 + 2 * smoothness**2) / alpha  # Eq. (7)


def least_alpha(smoothness: float, rounds: int) -> float:
    """The smallest alpha for which Theorem 1 holds."""
    own = 10 * sqrt(6 * (2 + 2 * smoothness**2)) * smoothness * rounds  # Eq. (67)
    return max(own, 20 * smoothness, 1.0)  # Eq. (17), and the text below (67)


def most_global_rate(staleness: float, cached_age: float) -> float:
    """The largest eta_g for which Theorem 1 holds, by Gamma_max and zeta_max, both at least 1."""
    delay = 4 * staleness**2 + cached_age**2
    return 5 * sqrt(6) * (sqrt(16 * delay + 1) - 1) / (4 * delay)  # Eq. (68)


def mean_square_gradient(
    *,
    smoothness: float,
    alpha: float,
    global_rate: float,
    rounds: int,
    buffer: int,
    sub_centers: int,
    steps: int,
    staleness: float,
    cached_age: float,
    loss_drop: float,
    variance_within: float,
    variance_between: float,
) -> float:
    """Theorem 1: a bound on the mean of |gradient|^2 over T global steps.

    ``loss_drop``: F(w^1) - F(w^{T+1}); the variances are sigma_s^2 and sigma_g^2.
    """
    length, rate = smoothness, global_rate
    c = sqrt(2 + 2 * length**2)
    b = 5 * buffer + (24 * sub_centers + 6 * buffer) * rounds
    delay = 4 * staleness**2 + cached_age**2
    within = b / buffer * variance_within
    between = (4 * sub_centers + buffer) / buffer * variance_between
    return (
        2 * alpha / (c * rate * rounds * steps) * loss_drop
        + 5 * rounds * length**2 * (4 - 3 * length) * (c / alpha) ** 2 * within
        + 15 * rounds**2 * length**4 * rate * (c / alpha) ** 3 * within
        + 60 * rounds**3 * length**5 * rate**2 * delay * (c / alpha) ** 4 * within
        + 12 * rounds**2 * length**2 * rate**2 * delay * (c / alpha) ** 2 * between
        + 3 * rounds * length * rate * (c / alpha) * between
    )  # Eq. (18)
