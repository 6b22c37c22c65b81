"""Top-k with error feedback (Aji and Heafield 2017; Stich et al. 2018) as a communication hook.

A worker sends the share `ratio` of each tensor's elements with the largest absolute values, and adds what it
did not send to the next gradient. It sends (N - 1) 8 k bytes a step among N workers, for k elements in all.
"""
import torch
import torch.distributed as dist


class State:
    def __init__(self, ratio):
        self.ratio, self.errors = ratio, {}

    def largest(self, values):
        """The indices of the elements that are sent."""
        return values.abs().topk(max(1, int(self.ratio * values.numel()))).indices


def make_state(context):
    return State(context.settings.get("ratio", 0.01))


def hook(state, bucket):
    buffer, world, begin, chosen = bucket.buffer(), dist.get_world_size(), 0, []
    sizes = [parameter.numel() for parameter in bucket.parameters()]
    for parameter, part in zip(bucket.parameters(), buffer.split(sizes)):
        part += state.errors.get(id(parameter), 0)  # by parameter: buckets change after the first step
        chosen.append((begin + state.largest(part)).int())
        begin += part.numel()
    indices = torch.cat(chosen)
    values = buffer[indices]
    errors = buffer.index_fill(0, indices.long(), 0)
    state.errors.update(zip(map(id, bucket.parameters()), errors.split(sizes)))

    all_indices = [torch.empty_like(indices) for _ in range(world)]
    all_values = [torch.empty_like(values) for _ in range(world)]
    dist.all_gather(all_indices, indices)
    future = dist.all_gather(all_values, values, async_op=True).get_future()

    def mean(_):
        buffer.zero_()
        for indices, values in zip(all_indices, all_values):
            buffer.index_add_(0, indices, values, alpha=1 / world)
        return buffer

    return future.then(mean)


def definition(context, buckets):
    """The same in one process: buckets[w] has worker w's gradients."""
    ratio, results = context.settings.get("ratio", 0.01), []
    for i, name in enumerate(buckets[0].names()):
        mean = torch.zeros_like(buckets[0].gradients()[i])
        for worker, bucket in enumerate(buckets):
            wanted = bucket.gradients()[i] + context.memory.get((worker, name), 0)
            size = wanted.abs().flatten().sort(descending=True).values[max(1, int(ratio * wanted.numel())) - 1]
            sent = torch.where(wanted.abs() >= size, wanted, 0)
            context.memory[worker, name] = wanted - sent
            mean += sent / context.world
        results.append(mean)
    return results
