"""Trains one rank of a run: the same loop for every scheme."""
import functools
import resource
import time

import torch
import torch.distributed as dist
from torch import nn

from ringside_peers import data
from ringside_peers.connect import connect
from ringside_peers.error import Error
from ringside_peers.feed import Feed
from ringside_peers.schemes import SCHEMES
from ringside_peers.timeline import Timeline, now


def run(launcher, ringside):
    """Returns the rank's record, or the list of all workers' if this process runs them all."""
    plan = launcher.plan
    torch.set_num_threads(plan["device"]["threads"])
    device = device_of(plan, launcher.rank)
    feed = Feed(ringside, launcher.told, data.convert)
    line, initial = feed.next("start")
    timeline = Timeline(whole=device.type == "cuda")
    model = data.make_model(plan["model"], initial)
    alone = plan["program"]["all_ranks"]
    if plan["defines"] > 0:
        from ringside_peers.definitions import make_trainer

        trainer = make_trainer(launcher, model, feed, timeline, device)
    else:
        if not alone:
            connect(launcher, "nccl" if device.type == "cuda" else "gloo")
        scheme = SCHEMES[plan["scheme"]](plan, launcher.rank, model, device, timeline)
        trainer = Trainer(launcher, scheme, feed, timeline, device, plan["world"] if alone else 1)
    records = trainer.train(line)
    if dist.is_initialized():
        dist.destroy_process_group()
    return records if alone else records[0]


def device_of(plan, rank):
    if plan["device"]["kind"] != "cuda":
        return torch.device("cpu")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = plan["device"]["tf32"]
    device = torch.device("cuda", plan["ranks"][rank]["ordinal"])
    torch.cuda.set_device(device)
    return device


class Statistics:
    """Running statistics of batch norms. As in Ringside every micro-batch of a step has its own, and
    where they are read they are the mean over all micro-batches and ranks."""

    def __init__(self, model, micro_batches):
        self.norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.sets = [[self._copies(norm) for norm in self.norms] for _ in range(micro_batches)]

    @staticmethod
    def _copies(norm):
        return norm.running_mean.clone(), norm.running_var.clone()

    def use(self, micro_batch):
        for norm, (mean, var) in zip(self.norms, self.sets[micro_batch]):
            norm.running_mean, norm.running_var = mean, var



def average_statistics(of_replicas, ranks):
    """Gives all sets of all replicas, here and in the other ranks, their mean."""
    sets = [one for statistics in of_replicas for one in statistics.sets]
    if not of_replicas[0].norms:
        return
    flat = [torch.cat([t.double() for pair in one for t in pair]) for one in sets]
    mean = torch.stack(flat).sum(0)
    if ranks > 1:
        dist.all_reduce(mean)
    mean /= len(sets) * ranks
    for one in sets:
        tensors = [tensor for pair in one for tensor in pair]
        for tensor, values in zip(tensors, mean.split([t.numel() for t in tensors])):
            tensor.copy_(values)


class Trainer:
    """`workers`: how many workers' samples this process computes."""

    def __init__(self, launcher, scheme, feed, timeline, device, workers):
        self.launcher, self.plan, self.train_config = launcher, launcher.plan, launcher.plan["train"]
        self.scheme, self.feed, self.timeline = scheme, feed, timeline
        self.device, self.workers = device, workers
        self.micro_batches = self.train_config["accumulation"]
        self.statistics = Statistics(scheme.model, self.micro_batches)
        self.share = functools.partial(
            data.share_of_loss, global_batch=self.train_config["global_batch"]
        )

    def train(self, started):
        """`started`: the line of the feed's first message. Returns a record for each worker."""
        record = started["record"]
        held_out = [
            [self.read("held-out")[1] for _ in range(self.micro_batches)]
            for _ in range(started["evaluated"])
        ]
        self.feed.fill()
        steps, warmup = self.train_config["steps"], self.train_config["warmup"]
        losses, evaluations, processor_s, evaluation_s = [], [], 0.0, 0.0
        start = now()
        for step in range(steps):
            begin = time.process_time()
            of_step, seconds = self.train_step(step)
            if step >= warmup:
                processor_s += time.process_time() - begin
            losses.append(of_step)
            shares = None
            if held_out and self.evaluates_after(step):
                begin = now()
                shares = self.evaluate(held_out)
                evaluation_s += now() - begin
                evaluations.append((step + 1, shares, now() - start))
            for worker in range(self.workers):
                own = slice(worker * self.micro_batches, (worker + 1) * self.micro_batches)
                self.launcher.progress(
                    step + 1, sum(of_step[own]), seconds, shares and sum_of(shares[own])
                )
        record["steps"] = self.timeline.steps(started["step"])
        record["slices"] = self.timeline.slices(started["slice"])
        record.update(self.traffic())
        # FSDP2 gathers what its root unit has itself once, of which the feed knows nothing.
        record["minimum_bytes_per_step"] = min(
            record["minimum_bytes_per_step"], record["bytes_sent_per_step"]
        )
        record["processor_s"] = processor_s
        record["evaluation"]["seconds"] = evaluation_s
        self.note_memory(record["memory"])
        return [self.record_of(worker, record, losses, evaluations) for worker in range(self.workers)]

    def record_of(self, worker, record, losses, evaluations):
        """The record of one of this process's workers."""
        own = slice(worker * self.micro_batches, (worker + 1) * self.micro_batches)
        more = {
            "losses": [loss for of_step in losses for loss in of_step[own]],
            "evaluations": [
                {"step": step, "first": 0, "shares": shares[own], "seconds": seconds}
                for step, shares, seconds in evaluations
            ],
        }
        if worker > 0:  # they have no process of their own
            more.update(rank=worker, slices=[], processor_s=0.0, bytes_sent_per_step=0.0)
        return {**record, **more}

    def read(self, kind):
        """A micro-batch: its line, then inputs and targets of each of this process's workers."""
        messages = [self.feed.next(kind) for _ in range(self.workers)]
        return messages[0][0], [batch for _, batch in messages]

    def read_training(self):
        with self.timeline.span("data", "read"):
            return self.read("training")

    def train_step(self, step):
        """Returns the losses of the step's micro-batches, worker by worker, and the step's seconds."""
        scheme, sent = self.scheme, self.scheme.sent if step >= self.train_config["warmup"] else None
        scheme.model.train()
        self.timeline.begin_step()
        if sent:
            sent.begin()
        scheme.begin_step(step)
        shares = []
        for m in range(self.micro_batches):
            line, batches = self.read_training()
            self.statistics.use(m)
            shares.append(self.compute(scheme, batches, last=m + 1 == self.micro_batches))
        scheme.update(line["lr"])
        scheme.end_step(step)
        if sent:
            sent.end()
        return self.end_step(shares, step)

    def compute(self, scheme, batches, last):
        """Forward and backward of a micro-batch. Returns each worker's share of the loss."""
        with scheme.micro_batch(last):
            with self.timeline.span("compute", "forward model"):
                of_workers = self.losses(scheme, batches)
                loss = sum(of_workers) * scheme.scale
            scheme.backward(loss)
        return [share.detach() for share in of_workers]

    def end_step(self, shares, step):
        values = [share.item() for of_worker in zip(*shares) for share in of_worker]
        seconds = self.timeline.end_step()
        if not all(map(is_finite, values)):
            raise Error(f"the loss is {sum(values)} at step {step + 1}; lower optimizer.lr")
        return values, seconds

    def losses(self, scheme, batches):
        """What each worker's samples add to the loss of the global batch."""
        if self.workers == 1:
            inputs, targets = batches[0]
            inputs, targets = inputs.to(self.device), targets.to(self.device)
            return [self.share(scheme.compute(inputs), targets, inputs.shape[0])]
        inputs = torch.cat([inputs for inputs, _ in batches]).to(self.device)
        logits = scheme.compute(inputs)
        samples = inputs.shape[0] // self.workers
        parts = zip(*(term.chunk(self.workers) for term in logits))
        return [
            self.share(list(part), targets.to(self.device), samples)
            for part, (_, targets) in zip(parts, batches)
        ]

    def evaluates_after(self, step):
        every = self.train_config["evaluate_every"]
        return every > 0 and ((step + 1) % every == 0 or step + 1 == self.train_config["steps"])

    def evaluate(self, held_out):
        """What the samples of each worker's micro-batches contribute to the held-out loss."""
        self.average_statistics()
        global_batch = self.train_config["global_batch"]
        sums = {}
        with torch.no_grad():
            for batch in held_out:
                for m, of_workers in enumerate(batch):
                    model = self.model_of(m).eval()
                    for worker, (inputs, targets) in enumerate(of_workers):
                        logits = model(inputs.to(self.device))
                        share = data.share_of_evaluation(
                            logits, targets.to(self.device), inputs.shape[0], global_batch
                        )
                        sums.setdefault((worker, m), []).append(share)
        return [
            {name: value / len(held_out) for name, value in sum_of(sums[place]).items()}
            for place in sorted(sums)
        ]

    def model_of(self, micro_batch):
        """The replica that is evaluated on a micro-batch of this process's workers."""
        return self.scheme.model

    def average_statistics(self):
        average_statistics([self.statistics], 1 if self.workers > 1 else self.plan["world"])

    def traffic(self):
        return self.scheme.traffic()

    def note_memory(self, memory):
        """The process's largest resident set. PyTorch does not say what on a CPU is of which kind."""
        memory["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self.device.type == "cuda":
            free, capacity = torch.cuda.mem_get_info(self.device)
            reserved = torch.cuda.memory_reserved(self.device)
            memory["device"] = {
                "reserved": torch.cuda.max_memory_reserved(self.device),
                "outside": capacity - free - reserved,
                "capacity": capacity,
            }


def is_finite(value):
    return value - value == 0


def sum_of(shares):
    return {name: sum(share[name] for share in shares) for name in shares[0]}
