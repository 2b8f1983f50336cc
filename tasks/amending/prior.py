"""How often anything changes in a store: probabilities under a share of changes of its own.

A classifier learns, along with what tells changes, how many there were in what it was fitted on. In a store in which
little changes its probabilities are too high, in one where much does too low. The share of this store's is found by
expectation maximisation over the probabilities themselves: M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the
outputs of a classifier to new a priori probabilities: a simple procedure", Neural Computation 14 (2002).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ASSUMED = 200
"""Pairs of the share that was fitted which every store is taken to have besides its own: a small one tells little."""
FURTHEST = 3.0
"""How many times the share that was fitted a store's may be, and the other way round: what somebody plainly states is a
change however little changes in a big store."""
ROUNDS = 200
"""At most; a few dozen reach SETTLED."""
SETTLED = 1e-9
EDGE = 1e-12
"""Probabilities are kept as far from 0 and 1."""


def adjusted(probabilities: Sequence[float], fitted: float) -> list[float]:
    """The probabilities of one store's pairs under its own share of changes; `fitted`: the share where they are from.

    The order of the pairs stays. Raises ValueError unless 0 < fitted < 1, and for a probability that is none.
    """
    if not 0 < fitted < 1:
        raise ValueError(f"a share of changes between 0 and 1 is needed, not {fitted}")
    told = np.asarray(probabilities, dtype=np.float64)
    if not ((told >= 0) & (told <= 1)).all():
        raise ValueError("probabilities from 0 to 1 are needed")
    told = np.clip(told, EDGE, 1 - EDGE)
    odds = told / (1 - told) / _odds(fitted)
    share = fitted
    for _ in range(ROUNDS):
        counted = (_under(odds, share).sum() + ASSUMED * fitted) / (told.size + ASSUMED)
        last, share = share, float(np.clip(counted, fitted / FURTHEST, min(fitted * FURTHEST, 1 - EDGE)))
        if abs(share - last) < SETTLED:
            break
    found: list[float] = _under(odds, share).tolist()
    return found


def _under(odds: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Probabilities under a share, from how many times likelier than by the share alone each is."""
    posterior = odds * _odds(share)
    return posterior / (1 + posterior)


def _odds(share: float) -> float:
    return share / (1 - share)
