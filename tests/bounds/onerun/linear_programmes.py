"""Brute force: the most that any private algorithm allows, as linear programmes."""

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import lil_matrix


def most_over_mechanisms(canaries, threshold, epsilon, delta, kinds=(1, -1)):
    """The largest P(right >= threshold[guesses]) over all (epsilon, delta)-DP algorithms.

    ``threshold`` maps each allowed number of guesses to the right ones that count as a success.
    """
    coins = list(itertools.product((1, -1), repeat=canaries))
    outputs = [
        g
        for g in itertools.product((0, *kinds), repeat=canaries)
        if sum(x != 0 for x in g) in threshold
    ]
    n_in, n_out = len(coins), len(outputs)
    pairs = [
        (a, b)
        for a, b in itertools.permutations(range(n_in), 2)
        if sum(x != y for x, y in zip(coins[a], coins[b], strict=True)) == 1
    ]
    cost = np.zeros(n_in * n_out + len(pairs) * n_out)
    for i, s in enumerate(coins):
        for j, g in enumerate(outputs):
            right = sum(x == y for x, y in zip(s, g, strict=True))
            if right >= threshold[sum(x != 0 for x in g)]:
                cost[i * n_out + j] = -1 / n_in
    rows = lil_matrix((len(pairs) * (n_out + 1), cost.size))
    limit = np.zeros(rows.shape[0])
    for k, (a, b) in enumerate(pairs):  # slack >= P(. | a) - e^epsilon P(. | b), sum <= delta
        start = n_in * n_out + k * n_out
        for j in range(n_out):
            row = k * n_out + j
            rows[row, a * n_out + j], rows[row, b * n_out + j] = 1, -np.exp(epsilon)
            rows[row, start + j] = -1
            rows[len(pairs) * n_out + k, start + j] = 1
        limit[len(pairs) * n_out + k] = delta
    sums = lil_matrix((n_in, cost.size))
    for i in range(n_in):
        sums[i, i * n_out : (i + 1) * n_out] = 1
    found = linprog(
        cost, A_ub=rows.tocsr(), b_ub=limit, A_eq=sums.tocsr(), b_eq=np.ones(n_in), method="highs"
    )
    return -found.fun


def most_over_patterns(guesses, event, epsilon, leak):
    """The largest P(event) over laws of right and wrong, in order, that leak at most so much."""
    patterns = list(itertools.product((0, 1), repeat=guesses))
    index = {x: i for i, x in enumerate(patterns)}
    edges = [
        (index[x], index[(*x[:i], 0, *x[i + 1 :])])
        for x in patterns
        for i in range(guesses)
        if x[i]
    ]
    cost = np.zeros(len(patterns) + len(edges))
    cost[: len(patterns)] = [-float(event(x)) for x in patterns]
    rows = lil_matrix((len(edges) + 1, cost.size))
    for k, (right, wrong) in enumerate(edges):
        rows[k, right], rows[k, wrong], rows[k, len(patterns) + k] = 1, -np.exp(epsilon), -1
        rows[len(edges), len(patterns) + k] = 1
    limit = np.zeros(len(edges) + 1)
    limit[-1] = leak
    total = np.zeros((1, cost.size))
    total[0, : len(patterns)] = 1
    found = linprog(cost, A_ub=rows.tocsr(), b_ub=limit, A_eq=total, b_eq=[1], method="highs")
    return -found.fun
