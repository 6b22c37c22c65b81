"""Decentralised SGD (Lian et al. 2017) on a ring: after its update a worker takes the mean of its own model and
those of its two neighbours. It sends its model twice a step.
"""
import torch
import torch.distributed as dist
from ringside_peers.worker import Worker


def flat(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def put(model, values):
    sizes = [parameter.numel() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter, part in zip(model.parameters(), values.split(sizes)):
            parameter.copy_(part.view_as(parameter))


class Gossip(Worker):
    def step(self, step):
        self.optimizer.step()
        own, rank, world = flat(self.model), self.context.rank, self.context.world
        neighbours = {(rank - 1) % world, (rank + 1) % world} - {rank}
        received = [torch.empty_like(own) for _ in neighbours]
        with self.context.waits("neighbours"):
            work = [dist.isend(own, to) for to in neighbours]
            work += [dist.irecv(values, of) for values, of in zip(received, neighbours)]
            for one in work:
                one.wait()
        put(self.model, torch.stack([own, *received]).mean(0))


class Definition:
    """The same in one process, with the models and optimizers of all workers."""

    def __init__(self, context, models, optimizers):
        self.models, self.optimizers = models, optimizers

    def step(self, step):
        for optimizer in self.optimizers:
            optimizer.step()
        before, world = [flat(model) for model in self.models], len(self.models)
        for rank, model in enumerate(self.models):
            ring = sorted({(rank + d) % world for d in (-1, 0, 1)})
            put(model, sum(before[other] for other in ring) / len(ring))
