"""The divergences restated for the tests, independently of rpg/objectives: definition, differentiable loss, weight."""

import math

DEFINITIONS = {  # D as the sum of d(p, q) over outcomes, p = pi_theta, q = pi_ref
    "fkl": lambda p, q: q * (q / p).log(),
    "rkl": lambda p, q: p * (p / q).log(),
    "ufkl": lambda p, q: q * (q / p).log() + p - q,
    "urkl": lambda p, q: p * (p / q).log() + q - p,
}
NORMALIZED = ("fkl", "rkl")  # defined between normalised policies: no Z_old
LOSSES = {  # the KL part of the differentiable loss, of x = log pi_theta, w, log w, log u and rho (fifth column)
    "fkl": lambda x, w, log_w, log_u, rho: -rho * x,
    "rkl": lambda x, w, log_w, log_u, rho: w * log_u,
    "ufkl": lambda x, w, log_w, log_u, rho: w - rho * log_w - rho,
    "urkl": lambda x, w, log_w, log_u, rho: w * log_u - w,
}
WEIGHTS = {  # C / beta, of w, rho and log u (fourth column, without the reward's part)
    "fkl": lambda w, rho, log_u: rho,
    "rkl": lambda w, rho, log_u: -w * (log_u + 1),
    "ufkl": lambda w, rho, log_u: rho - w,
    "urkl": lambda w, rho, log_u: -w * log_u,
}


def c_component(divergence, w, log_rho):
    """C / beta of one token as a function of the ratio, with numbers instead of tensors."""
    log_rho = log_rho or 0.0
    return WEIGHTS[divergence](w, math.exp(log_rho), math.log(w) - log_rho)
