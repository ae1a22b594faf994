"""The training objective for one token: negative log-likelihood with and without label smoothing.

Source: Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567
"""

import math

N_POINTS = 100
"""Points of a curve; with so many its bends look smooth."""


def target_probabilities(label_smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return the target probability of the correct piece, and that of every other piece."""
    other = label_smoothing / vocab_size
    return 1 - label_smoothing + other, other


def token_loss(probability: float, label_smoothing: float, vocab_size: int) -> float:
    """Return the loss of one token, in nats, if all wrong pieces are equally probable.

    Args:
        probability: of the correct piece, above 0 and below 1.
        label_smoothing: probability mass spread over the vocabulary; 0 for the plain loss.
        vocab_size: V, at least 2.
    """
    correct, other = target_probabilities(label_smoothing, vocab_size)
    n_wrong = vocab_size - 1
    wrong_log_prob = math.log((1 - probability) / n_wrong)
    return -correct * math.log(probability) - n_wrong * other * wrong_log_prob


def least_loss(label_smoothing: float, vocab_size: int) -> float:
    """Return the smallest possible loss of one token: the entropy of its target, in nats."""
    if not label_smoothing:
        return 0.0
    correct, _ = target_probabilities(label_smoothing, vocab_size)
    return token_loss(correct, label_smoothing, vocab_size)


def loss_curve(label_smoothing: float, vocab_size: int) -> list[tuple[float, float]]:
    """Return the loss of one token by its probability, as (probability, nats)."""
    probabilities = [(n + 0.5) / N_POINTS for n in range(N_POINTS)]
    return [(p, token_loss(p, label_smoothing, vocab_size)) for p in probabilities]
