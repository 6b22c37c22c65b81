"""PyTorch's ways of keeping ranks in step, each as its documentation tells to use it."""
import contextlib

import torch
import torch.distributed as dist
from torch import nn

from ringside_peers import models
from ringside_peers.error import Error
from ringside_peers.hooks import Hook
from ringside_peers.timeline import now
from ringside_peers.traffic import SentBytes
from ringside_peers.user_code import Code, Context

# What FSDP2 gathers and frees together; the rest of a model is one more such unit. Blocks of T5 are none:
# a table of the first one is read by the others.
UNITS = (models.GptBlock, models.LlamaLayer, models.BertLayer, models.VisionLayer, models.ResNetBlock,
         models.InceptionBlock)


def make_optimizer(model, config, update):
    """The plan's optimizer over the model's parameters; the learning rate comes with each step."""
    decays, others = [], []
    for parameter in model.parameters():
        matrix = config["decay"] == "all" or parameter.dim() >= 2
        (decays if matrix else others).append(parameter)
    groups = [
        {"params": part, "weight_decay": decay}
        for part, decay in ((decays, config["weight_decay"]), (others, 0.0))
        if part
    ]
    how = {"fused": update == "fused", "foreach": update == "foreach"}
    if config["kind"] == "adamw":
        betas = (config["beta1"], config["beta2"])
        return torch.optim.AdamW(groups, lr=config["lr"], betas=betas, eps=config["epsilon"], **how)
    return torch.optim.SGD(
        groups, lr=config["lr"], momentum=config["momentum"], nesterov=config["nesterov"], **how
    )


def channels_last(model):
    """The layout in which PyTorch's convolutions are fastest; the inputs have it too."""
    has_images = any(isinstance(module, nn.Conv2d) for module in model.modules())
    return model.to(memory_format=torch.channels_last) if has_images else model


class Scheme:
    """One rank's replica, or its shard. `compute` is what training calls, `model` what evaluation
    calls; `scale` is what a rank's share of the loss is multiplied with before backward, so that an
    update uses the gradient of the mean over the global batch."""

    scale = 1.0
    sent = None  # counts the bytes of measured steps where no closed form is known (traffic.py)

    def __init__(self, plan, rank, model, device, timeline):
        self.plan, self.timeline, self.world = plan, timeline, plan["world"]
        self.options = plan["options"]
        self.model = self.compute = self.place(model, device)
        self.optimizer = make_optimizer(self.model, plan["optimizer"], self.update_of(plan))
        self.parameter_bytes = sum(4 * p.numel() for p in self.model.parameters())

    def update_of(self, plan):
        """How the optimizer works, as make_optimizer() takes it."""
        return self.options["update"]

    def place(self, model, device):
        return channels_last(model).to(device)

    def micro_batch(self, last):
        """The context in which a micro-batch of a step is computed; `last`: of the step."""
        return contextlib.nullcontext()

    def backward(self, loss):
        with self.timeline.span("compute", "backward model"):
            loss.backward()

    def set_lr(self, lr):
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def update(self, lr):
        with self.timeline.span("optimizer", "update"):
            self.set_lr(lr)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def begin_step(self, step):
        """Before the first micro-batch of a step, counted from 0."""

    def end_step(self, step):
        """After each update, counted from 0."""

    def traffic(self):
        """What a rank's record says of bytes."""
        if self.sent:
            return self.sent.figures()
        each = self.bytes_sent_per_step()
        return {"bytes_sent_per_step": each, "bytes_received_per_step": each, "bytes_computed": True}

    def bytes_sent_per_step(self):
        """What a rank sends, by the closed form of the library's algorithms: gloo and NCCL move arrays
        in a ring, in which all-gather and reduce-scatter send (N - 1) / N of them each."""
        return 0.0


class Ddp(Scheme):
    """DistributedDataParallel, with a hook of the user's if there is one. As everywhere in PyTorch a
    hook gets gradients of the mean loss over its own worker's samples, and makes the mean of them."""

    def __init__(self, plan, rank, model, device, timeline):
        super().__init__(plan, rank, model, device, timeline)
        self.hook = self.make_hook(plan, rank, device, timeline)
        if self.hook:
            self.scale, self.sent = float(self.world), SentBytes(device.type)
        self.last_ready = self.last_bucket = None
        self.compute = nn.parallel.DistributedDataParallel(
            self.model,
            broadcast_buffers=False,  # statistics of batch norms are averaged where they are read
            bucket_cap_mb=self.options["bucket_mb"],
            gradient_as_bucket_view=True,
            # PyTorch's static graphs do not go with several micro-batches a step (no_sync).
            static_graph=self.options["static_graph"] and plan["train"]["accumulation"] == 1,
        )
        self.compute.register_comm_hook(None, self.reduce)

    def make_hook(self, plan, rank, device, timeline):
        return Hook(plan, rank, device, timeline) if self.options["hook"] else None

    def begin_step(self, step):
        if self.hook:
            self.hook.context.step = step

    def reduce(self, _, bucket):
        """Sums a bucket over ranks as DistributedDataParallel itself does, or as the hook does it, and
        notes how long it is under way. Without a hook the mean is in the loss already, so nothing is
        divided."""
        begin = self.last_ready = now()
        what = {"track": "gradients", "bytes": bucket.buffer().nbytes}
        verb = "hook of" if self.hook else "all-reduce"
        name = self.last_bucket = f"{verb} bucket {bucket.index()}"  # the bucket itself ends with this call
        if self.hook:
            future, value = self.hook(bucket), lambda done: done.value()
        else:
            what["operation"] = "all_reduce"
            future, value = all_reduced(bucket.buffer()), lambda done: done.value()[0]

        def done(reduced):
            self.timeline.add("communication", name, begin, now(), **what)
            return value(reduced)

        return future.then(done)

    def micro_batch(self, last):
        return contextlib.nullcontext() if last else self.compute.no_sync()

    def backward(self, loss):
        """The last bucket is ready when nothing is left to compute; after that the rank waits."""
        begin, self.last_ready = now(), None
        try:
            loss.backward()
        except Exception:
            if self.hook and self.hook.error:
                raise self.hook.error from None
            raise
        end = now()
        ready = self.last_ready or end
        self.timeline.add("compute", "backward model", begin, ready)
        self.timeline.add("exposed", f"wait {self.last_bucket}", ready, end)

    def bytes_sent_per_step(self):
        return 2 * (self.world - 1) / self.world * self.parameter_bytes


def all_reduced(tensor):
    return dist.all_reduce(tensor, async_op=True).get_future()


class Timed:
    """A collective of a unit of FSDP2 that notes its time. On CPUs it returns when it is done."""

    def __init__(self, timeline, operation, collective, unit):
        self.timeline, self.operation, self.collective = timeline, operation, collective
        self.name = f"{operation.replace('_', '-')} {unit}"

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, *args, **kwargs):
        begin = now()
        work = self.collective(output_tensor, input_tensor, *args, group=group, **kwargs)
        end = now()
        self.timeline.add("exposed", f"wait {self.name}", begin, end)
        whole = max(output_tensor.nbytes, input_tensor.nbytes)
        what = {"track": "shards", "operation": self.operation, "bytes": whole}
        self.timeline.add("communication", self.name, begin, end, **what)
        return work


class Fsdp(Scheme):
    def place(self, model, device):
        from torch.distributed.fsdp import fully_shard

        model = model.to(device)
        mesh = dist.init_device_mesh(device.type, (self.world,))
        reshard = self.options["reshard_after_forward"]
        for module in model.modules():
            if isinstance(module, UNITS):
                fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh)
        names = {module: name or "root" for name, module in model.named_modules() if hasattr(module, "unshard")}
        self.units = list(names)
        self.unit_bytes = sum(
            4 * p.numel() for unit in self.units[1:] for p in unit.parameters()
        )
        for unit in self.units:
            unit.set_custom_all_gather(
                Timed(self.timeline, "all_gather", dist.all_gather_into_tensor, names[unit])
            )
            unit.set_custom_reduce_scatter(
                Timed(self.timeline, "reduce_scatter", dist.reduce_scatter_tensor, names[unit])
            )
            unit.set_force_sum_reduction_for_comms(True)  # the mean is in the loss already
            unit.set_gradient_divide_factor(1.0)
        return model

    def update_of(self, plan):
        """PyTorch's fused SGD does not know shards."""
        update = self.options["update"]
        return "foreach" if update == "fused" and plan["optimizer"]["kind"] == "sgd" else update

    def micro_batch(self, last):
        self.model.set_requires_gradient_sync(last or self.plan["train"]["reduce"] == "every")
        return contextlib.nullcontext()

    def bytes_sent_per_step(self):
        """Units are gathered for forward and again for backward, what the root has itself once."""
        micro_batches = self.plan["train"]["accumulation"]
        reductions = micro_batches if self.plan["train"]["reduce"] == "every" else 1
        again = self.unit_bytes if self.options["reshard_after_forward"] else 0
        gathered = micro_batches * (self.parameter_bytes + again)
        return (self.world - 1) / self.world * (gathered + reductions * self.parameter_bytes)


class LocalSgd(Scheme):
    """DistributedDataParallel whose hook leaves gradients alone from the first step on, and PyTorch's
    optimizer that averages the model now and then: after every `sync_every` steps, and at the end."""

    def __init__(self, plan, rank, model, device, timeline):
        from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
        from torch.distributed.algorithms.model_averaging import averagers
        from torch.distributed.optim import PostLocalSGDOptimizer

        super().__init__(plan, rank, model, device, timeline)
        self.scale = float(self.world)  # the mean over this rank's own samples
        self.compute = nn.parallel.DistributedDataParallel(
            self.model, broadcast_buffers=False, gradient_as_bucket_view=True
        )
        state = local_sgd.PostLocalSGDState(
            process_group=None,
            subgroup=dist.group.WORLD,
            start_localSGD_iter=0,
            post_local_gradient_allreduce=False,
        )
        self.compute.register_comm_hook(state, local_sgd.post_localSGD_hook)
        every = self.options["sync_every"]
        self.averager = averagers.PeriodicModelAverager(every, warmup_steps=every - 1)
        self.optimizer = PostLocalSGDOptimizer(self.optimizer, self)

    def micro_batch(self, last):
        return contextlib.nullcontext() if last else self.compute.no_sync()

    def average_parameters(self, params):
        """PostLocalSGDOptimizer calls this after its own optimizer's step."""
        self.updated = now()
        self.averager.average_parameters(params)
        self.timeline.add("exposed", "average", self.updated, now())
        self.timeline.add("communication", "average", self.updated, now())

    def update(self, lr):
        self.set_lr(lr)
        begin = now()
        self.optimizer.step()
        self.timeline.add("optimizer", "update", begin, self.updated)
        self.optimizer.zero_grad(set_to_none=True)

    def end_step(self, step):
        done, steps = step + 1, self.plan["train"]["steps"]
        if done == steps and done % self.options["sync_every"] != 0:
            from torch.distributed.algorithms.model_averaging import utils

            with self.timeline.span("exposed", "average"):
                utils.average_parameters(self.model.parameters(), dist.group.WORLD)

    def bytes_sent_per_step(self):
        return 2 * (self.world - 1) / self.world * self.parameter_bytes / self.options["sync_every"]


class DataParallel(Scheme):
    """One process that drives the devices of all workers."""

    def __init__(self, plan, rank, model, device, timeline):
        super().__init__(plan, rank, model, device, timeline)
        ordinals = [rank["ordinal"] for rank in plan["ranks"]]
        if len(set(ordinals)) < len(ordinals):
            raise Error(
                f"world {self.world} needs {self.world} GPUs of its own, but there are "
                f"{len(set(ordinals))}"
            )
        self.compute = nn.DataParallel(self.model, device_ids=ordinals)

    def bytes_sent_per_step(self):
        """Of the first device: it sends the model to the others in every forward. (Its samples and
        their logits come on top.)"""
        return (self.world - 1) * self.parameter_bytes * self.plan["train"]["accumulation"]


class FromFile(Scheme):
    """A worker of a class of the user's (worker.py)."""

    def __init__(self, plan, rank, model, device, timeline):
        super().__init__(plan, rank, model, device, timeline)
        self.scale, self.sent = float(self.world), SentBytes(device.type)
        self.context = Context(plan, rank, device, timeline)
        self.code = Code("scheme.torch.file", self.options["file"])
        self.worker = self.code.call(self.code.object, self.context, self.model, self.optimizer)
        self.compute = getattr(self.worker, "compute", self.model)

    def begin_step(self, step):
        self.context.step = step

    def micro_batch(self, last):
        own = getattr(self.worker, "micro_batch", None)
        return self.code.call(own, last) if own else contextlib.nullcontext()

    def update(self, lr):
        """What of step() is not spent in context.waits() counts as the optimizer's."""
        self.set_lr(lr)
        at, self.context.waited = now(), []
        self.code.call(self.worker.step, self.context.step)
        for begin, end in [*self.context.waited, (now(), 0.0)]:
            self.timeline.add("optimizer", "step", at, begin)
            at = end
        self.optimizer.zero_grad(set_to_none=True)

    def end_step(self, step):
        if step + 1 == self.context.steps and hasattr(self.worker, "finish"):
            self.code.call(self.worker.finish)


SCHEMES = {
    "torch-ddp": Ddp,
    "torch-fsdp": Fsdp,
    "torch-local-sgd": LocalSgd,
    "torch-dp": DataParallel,
    "torch": FromFile,
}
