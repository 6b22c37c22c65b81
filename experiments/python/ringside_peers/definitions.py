"""Definitions in Python: one rank that computes the micro-batches of all workers, and what the user's
definition makes of their gradients. It shares no code with the hook or class that it defines, but for
what the user's file has in common."""
import copy

import torch

from ringside_peers import hooks
from ringside_peers.connect import connect
from ringside_peers.error import Error
from ringside_peers.rank import Statistics, Trainer, average_statistics
from ringside_peers.schemes import Ddp, Scheme
from ringside_peers.user_code import Code, Context


def make_trainer(launcher, model, feed, timeline, device):
    """The trainer of a plan that defines the run of as many workers as plan["defines"] says."""
    plan = plan_of_workers(launcher.plan)
    models = [model] + [copy.deepcopy(model) for _ in range(plan["world"] - 1)]
    define = {"torch-ddp": HookDefinition, "torch": WorkerDefinition}[plan["scheme"]]
    if define is HookDefinition:
        connect(launcher, "nccl" if device.type == "cuda" else "gloo")  # a group of one, for buckets
    return DefinitionTrainer(launcher, define(plan, models, device, timeline), feed, timeline, device)


def plan_of_workers(plan):
    """The plan as one of the workers has it."""
    world = plan["defines"]
    train = {**plan["train"], "accumulation": plan["train"]["accumulation"] // world}
    return {**plan, "world": world, "train": train}


def code_of(plan, key, own):
    """The definition that the option names, or the file of `own`, which brings one."""
    named = plan["options"]["definition"]
    if named:
        return Code(f"{key}.definition", named)
    file, name = own.rpartition(":")[0], "Definition" if plan["scheme"] == "torch" else "definition"
    return Code(f"{key}.definition", f"{file}:{name}")


class DefinitionTrainer(Trainer):
    """Trains the replicas of all workers side by side, worker after worker."""

    def __init__(self, launcher, definition, feed, timeline, device):
        super().__init__(launcher, definition.replicas[0], feed, timeline, device, workers=1)
        self.definition, self.replicas = definition, definition.replicas
        self.each = self.micro_batches // len(self.replicas)
        self.of_replicas = [Statistics(replica.model, self.each) for replica in self.replicas]

    def train_step(self, step):
        self.timeline.begin_step()
        shares = []
        for replica, statistics in zip(self.replicas, self.of_replicas):
            replica.model.train()
            for m in range(self.each):
                line, batches = self.read_training()
                statistics.use(m)
                shares.append(self.compute(replica, batches, last=m + 1 == self.each))
        with self.timeline.span("optimizer", "definition"):
            self.definition.step(step, line["lr"])
        return self.end_step(shares, step)

    def model_of(self, micro_batch):
        return self.replicas[micro_batch // self.each].model

    def average_statistics(self):
        average_statistics(self.of_replicas, ranks=1)

    def traffic(self):
        return {"bytes_sent_per_step": 0.0, "bytes_received_per_step": 0.0}


class GradBucket:
    """A bucket of one worker, as torch.distributed.GradBucket has it, with names besides."""

    def __init__(self, bucket, names):
        self.live, self.flat = bucket.buffer(), bucket.buffer().clone()
        self.number, self.last, self.of = bucket.index(), bucket.is_last(), bucket.parameters()
        begin = self.live.data_ptr()
        self.views = [
            self.flat.as_strided(live.size(), live.stride(), (live.data_ptr() - begin) // live.element_size())
            for live in bucket.gradients()
        ]
        self.named = [names[id(parameter)] for parameter in self.of]

    def buffer(self):
        """The gradients of the bucket's parameters, one after the other."""
        return self.flat

    def gradients(self):
        """The same, a tensor for each parameter, with its shape."""
        return self.views

    def parameters(self):
        return self.of

    def names(self):
        """The names of the parameters in the model. They are the same for all workers."""
        return self.named

    def index(self):
        return self.number

    def is_last(self):
        return self.last


class CapturingHook:
    """Leaves the gradients of a replica as they are, and keeps its buckets."""

    error = None

    def __init__(self, context, names):
        self.context, self.names, self.buckets = context, names, []

    def __call__(self, bucket):
        self.buckets.append(GradBucket(bucket, self.names))
        buffer = bucket.buffer()
        future = torch.futures.Future(devices=[buffer.device] if buffer.is_cuda else None)
        future.set_result(buffer)
        return future


class HookReplica(Ddp):
    """A replica of DistributedDataParallel in a group of its own, for the buckets that it makes."""

    def make_hook(self, plan, rank, device, timeline):
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return CapturingHook(Context(plan, rank, device, timeline), names)


class HookDefinition:
    """definition(context, buckets) makes the result of a bucket of the buckets of all workers."""

    def __init__(self, plan, models, device, timeline):
        self.replicas = [
            HookReplica(plan, rank, model, device, timeline) for rank, model in enumerate(models)
        ]
        self.context = Context(plan, 0, device, timeline)
        self.code = code_of(plan, "scheme.torch-ddp", plan["options"]["hook"])

    def step(self, step, lr):
        self.context.step = step
        of_workers = [replica.hook.buckets for replica in self.replicas]
        for buckets in zip(*of_workers, strict=True):
            flat = self.result(buckets)
            for bucket in buckets:
                bucket.live.copy_(flat)
        for replica in self.replicas:
            replica.hook.buckets.clear()
            replica.update(lr)

    def result(self, buckets):
        """The flat result of the user's function, which may return a tensor for each gradient."""
        made, first = self.code.call(self.code.object, self.context, list(buckets)), buckets[0]
        if isinstance(made, torch.Tensor) and made.numel() == first.flat.numel():
            return made.reshape(-1)
        shapes = [view.shape for view in first.views]
        if not isinstance(made, (list, tuple)) or [getattr(one, "shape", None) for one in made] != shapes:
            raise Error(f"{self.code.key}: {self.code.name} returned {hooks.kind(made)}, where the bucket's "
                        "flat result is due, or a list of a tensor for each of its gradients")
        for view, one in zip(first.views, made):
            view.copy_(one)
        return first.flat


class WorkerReplica(Scheme):
    """A replica whose gradient is that of the mean loss over its worker's samples."""

    def __init__(self, plan, rank, model, device, timeline):
        super().__init__(plan, rank, model, device, timeline)
        self.scale = float(self.world)


class WorkerDefinition:
    """Definition(context, models, optimizers), with a replica for each worker; its step(step) does
    what all workers do."""

    def __init__(self, plan, models, device, timeline):
        self.replicas = [
            WorkerReplica(plan, rank, model, device, timeline) for rank, model in enumerate(models)
        ]
        self.context = Context(plan, 0, device, timeline)
        self.code = code_of(plan, "scheme.torch", plan["options"]["file"])
        self.made = self.code.call(
            self.code.object,
            self.context,
            [replica.model for replica in self.replicas],
            [replica.optimizer for replica in self.replicas],
        )

    def step(self, step, lr):
        self.context.step = step
        for replica in self.replicas:
            replica.set_lr(lr)
        self.code.call(self.made.step, step)
        for replica in self.replicas:
            replica.optimizer.zero_grad(set_to_none=True)
        if step + 1 == self.context.steps and hasattr(self.made, "finish"):
            self.code.call(self.made.finish)
