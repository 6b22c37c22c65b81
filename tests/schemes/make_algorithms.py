#!/usr/bin/env python3
"""Makes golden/algorithms.json: algorithms of several workers as their papers write them, in float64.

    python3 tests/schemes/make_algorithms.py   # wants numpy

A scheme and its definition call the same functions, so a mistake in these shows in neither. Nothing here
is shared with them but the random numbers, which are Philox (Salmon et al. 2011) by counter. Gradients
and updates are sines of their indices, rounded to fp32, which algorithms_test.cc makes too.
"""
import json
import math
import pathlib

import numpy as np

STEPS, WORKERS, SEED = 20, 3, 7
CODES = 8  # the stream of random numbers that codes draw from


def sines(count, *phases):
    values = np.sin(sum(phases) + 0.37 * np.arange(count, dtype=np.float64))
    return values.astype(np.float32).astype(np.float64)


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(second >> 32) ^ counter[1] ^ key[0], second & 0xFFFFFFFF,
                   (first >> 32) ^ counter[3] ^ key[1], first & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def normal(position):
    words = philox([position & 0xFFFFFFFF, position >> 32, CODES, 0], [SEED & 0xFFFFFFFF, SEED >> 32])
    first, second = (((low | high << 32) >> 11) + 1 for low, high in (words[:2], words[2:]))
    value = math.sqrt(-2 * math.log(first * 2.0**-53)) * math.cos(2 * math.pi * second * 2.0**-53)
    return float(np.float32(value))


def orthonormal(matrix):
    columns = []
    for column in matrix.T:
        for other in columns:
            column = column - (column @ other) * other
        columns.append(column / np.linalg.norm(column))
    return np.array(columns).T


def powersgd():
    """Algorithms 1 and 2 of Vogels et al. 2019, without momentum: tensors 6x5, 4 and 3x8 at rank 2."""
    shapes, rank = [(6, 5), (4,), (3, 8)], 2
    count = sum(math.prod(shape) for shape in shapes)
    error = np.zeros((WORKERS, count))
    right = {}
    for number, shape in enumerate(shapes):
        if len(shape) == 2:
            drawn = [normal((number << 32) ^ i) for i in range(shape[1] * rank)]
            right[number] = np.array(drawn).reshape(shape[1], rank)
    sums = []
    for step in range(STEPS):
        wanted = error + [sines(count, 1.3 * worker, 0.61 * step) for worker in range(WORKERS)]
        mean, begin = np.zeros(count), 0
        for number, shape in enumerate(shapes):
            part = slice(begin, begin + math.prod(shape))
            begin = part.stop
            if number not in right:
                mean[part] = wanted[:, part].mean(axis=0)
                continue
            matrices = wanted[:, part].reshape(WORKERS, *shape)
            left = orthonormal(np.mean([m @ right[number] for m in matrices], axis=0))
            right[number] = np.mean([m.T @ left for m in matrices], axis=0)
            mean[part] = (left @ right[number].T).ravel()
        error = wanted - mean
        sums.append((WORKERS * mean).tolist())
    return sums


def dgc(masked=True):
    """Algorithm 2 of Lin et al. 2018: 40 elements, of which 10 are sent, with momentum 0.9.

    Without `masked` it is wrong: velocities of sent elements go on, as without momentum factor masking (section 3.3)."""
    count, sent, momentum = 40, 10, 0.9
    velocity, held = np.zeros((WORKERS, count)), np.zeros((WORKERS, count))
    sums = []
    for step in range(STEPS):
        total = np.zeros(count)
        for worker in range(WORKERS):
            velocity[worker] = momentum * velocity[worker] + sines(count, 1.3 * worker, 0.61 * step)
            held[worker] += velocity[worker]
            chosen = np.argsort(-np.abs(held[worker]), kind="stable")[:sent]
            total[chosen] += held[worker][chosen]
            held[worker][chosen] = 0
            if masked:
                velocity[worker][chosen] = 0
        sums.append(total.tolist())
    return sums


def diloco():
    """Algorithm 1 of Douillard et al. 2023 with inner updates that are given; 12 elements, every 4 steps."""
    count, every, lr, momentum = 12, 4, 0.7, 0.9
    start = sines(count, 2.0)
    replicas, outer, velocity = np.tile(start, (WORKERS, 1)), start, np.zeros(count)
    for step in range(STEPS):
        replicas = replicas + [0.01 * sines(count, 1.3 * w, 0.61 * step) for w in range(WORKERS)]
        if (step + 1) % every == 0:
            gradient = np.mean(outer - replicas, axis=0)
            velocity = momentum * velocity + gradient
            outer = outer - lr * (gradient + momentum * velocity)
            replicas = np.tile(outer, (WORKERS, 1))
    return outer.tolist()


def local_sgd():
    """Algorithm 1 of Stich 2019 with heavy-ball SGD whose velocities are averaged too; 12 elements, every 4 steps."""
    count, every, lr, momentum = 12, 4, 0.1, 0.9
    replicas, velocity = np.tile(sines(count, 2.0), (WORKERS, 1)), np.zeros((WORKERS, count))
    targets = np.array([sines(count, 1.3 * w, 0.0) for w in range(WORKERS)])
    for step in range(STEPS):
        velocity = momentum * velocity + (replicas - targets)
        replicas = replicas - lr * velocity
        if (step + 1) % every == 0:
            replicas = np.tile(replicas.mean(axis=0), (WORKERS, 1))
            velocity = np.tile(velocity.mean(axis=0), (WORKERS, 1))
    return [replicas[0].tolist(), velocity[0].tolist()]


def sgp(overlap):
    """Algorithms 1 and 2 of Assran et al. 2019 on a star around worker 0; 12 elements.

    Returns z and the weight of every worker.
    """
    count, lr = 12, 0.1
    x, weight = np.array([sines(count, 2.0 + w) for w in range(WORKERS)]), np.ones(WORKERS)
    degree = np.array([WORKERS - 1] + [1] * (WORKERS - 1))
    sends = np.zeros((WORKERS, WORKERS))  # [to, from]; what a worker keeps is not sent
    sends[0, 1:] = 1 / (degree[1:] + 1)
    sends[1:, 0] = 1 / (degree[0] + 1)
    keeps = 1 / (degree + 1)
    targets = np.array([sines(count, 1.3 * w, 0.0) for w in range(WORKERS)])

    def push():
        nonlocal x, weight
        under_way = (sends @ x, sends @ weight)
        x, weight = keeps[:, None] * x, keeps * weight
        return under_way

    def descend():
        nonlocal x
        x = x - lr * (x / weight[:, None] - targets)

    under_way = None
    for step in range(STEPS):
        if overlap > 0 and step % overlap == 0:
            under_way = push()
        descend()
        if overlap == 0:
            under_way = push()
        if overlap == 0 or (step + 1) % overlap == 0:
            x, weight = x + under_way[0], weight + under_way[1]
    return [(x / weight[:, None]).tolist(), weight.tolist()]


def onebit_adam():
    """Algorithm 1 of Tang et al. 2021, after 8 steps of AdamW: tensors 6x5, 4 and 3x8 in chunks of 20 elements,
    a magnitude for each tensor of a chunk. Parameters and momentum after each step."""
    count, frozen = 58, 8
    lr, beta1, beta2, epsilon, decay = 0.01, 0.9, 0.95, 1e-8, 0.1
    borders = [0, 20, 30, 34, 40, 58]  # of tensors and chunks
    p, m, v = sines(count, 2.0), np.zeros(count), np.zeros(count)
    errors, server_errors = np.zeros((WORKERS, count)), np.zeros(count)
    margin = 1.0

    def signs(values):
        nonlocal margin
        out = np.empty(count)
        for begin, end in zip(borders, borders[1:]):
            part = values[begin:end]
            magnitude = math.sqrt(np.mean(part**2))
            margin = min(margin, np.abs(part).min() / magnitude)
            out[begin:end] = np.where(part >= 0, magnitude, -magnitude)
        return out

    steps = []
    for step in range(STEPS):
        gradients = np.array([sines(count, 1.3 * worker, 0.61 * step) for worker in range(WORKERS)])
        if step < frozen:
            m = beta1 * m + (1 - beta1) * gradients.mean(axis=0)
            v = beta2 * v + (1 - beta2) * gradients.mean(axis=0) ** 2
        else:
            sent = np.empty((WORKERS, count))
            for worker in range(WORKERS):
                wanted = errors[worker] + beta1 * m + (1 - beta1) * gradients[worker]
                sent[worker] = signs(wanted)
                errors[worker] = wanted - sent[worker]
            wanted = server_errors + sent.mean(axis=0)
            m = signs(wanted)
            server_errors = wanted - m
        root = np.sqrt(v / (1 - beta2 ** min(step + 1, frozen)))
        p = p - lr * decay * p - lr * (m / (1 - beta1 ** (step + 1))) / (root + epsilon)
        steps.append({"parameters": p.tolist(), "momentum": m.tolist()})
    assert margin > 1e-5, f"a sign would depend on rounding: {margin}"
    return steps


golden = pathlib.Path(__file__).parent / "golden/algorithms.json"
golden.write_text(json.dumps({
    "powersgd": powersgd(), "dgc": dgc(), "unmasked_dgc": dgc(False), "diloco": diloco(), "local_sgd": local_sgd(),
    "sgp": sgp(0), "overlap_sgp": sgp(2), "onebit_adam": onebit_adam()}) + "\n")
