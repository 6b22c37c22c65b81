"""Communication hooks of DistributedDataParallel: functions hook(state, bucket) that return a future
of the bucket's result."""
import torch

from ringside_peers.error import Error
from ringside_peers.user_code import Code, Context, said_by

OPTION = "scheme.torch-ddp.hook"
OF_TORCH = "torch:"
# Hooks of PyTorch that begin collectives when others end. Over Gloo these end in another order in each rank, so there
# a bucket waits for the one before.
CHAINED = ("powerSGD_hook", "batched_powerSGD_hook")


class Hook:
    """A hook of the user's, or one of PyTorch's. `state` is what the function make_state(context) of
    the user's file returns, or None."""

    def __init__(self, plan, rank, device, timeline):
        self.context = Context(plan, rank, device, timeline)
        self.error = None  # what a call failed with; PyTorch passes on its text alone
        self.before = None  # the future of the bucket before, if the next one has to wait for it
        text = plan["options"]["hook"]
        self.chained = device.type == "cpu" and text.removeprefix(OF_TORCH) in CHAINED
        self.what = text.rpartition("/")[2]
        if text.startswith(OF_TORCH):
            self.code = None
            self.function, self.state = hook_of_torch(text, self.context.settings)
            return
        self.code = Code(OPTION, text)
        self.function, make = self.code.object, self.code.also("make_state")
        self.state = self.code.call(make, self.context) if make else None

    def __call__(self, bucket):
        """Returns a future whose result is checked."""
        wanted = bucket.buffer().numel()
        if self.before:
            self.before.wait()
        try:
            future = self._called(bucket)
        except Exception as error:
            self.error = error
            raise

        def checked(done):
            try:
                return self._result(done, wanted)
            except Exception as error:
                self.error = error
                raise

        future = future.then(checked)
        if self.chained:
            self.before = future
        return future

    def _called(self, bucket):
        future = self.code.call(self.function, self.state, bucket) if self.code else self.function(self.state, bucket)
        if not isinstance(future, torch._C.Future):
            raise Error(f"{OPTION}: {self.what} returned {kind(future)}, where DistributedDataParallel "
                        "wants a torch.futures.Future of the bucket's result")
        return future

    def _result(self, done, wanted):
        try:
            result = done.value()
        except Exception as error:  # of a function that the hook gave to then()
            raise Error(f"{OPTION}: {self.what}: {said_by(error)}") from error
        if not isinstance(result, torch.Tensor):
            raise Error(f"{OPTION}: the future of {self.what} has {kind(result)}, not a tensor; for the "
                        "future of a collective write .then(lambda future: future.value()[0])")
        if result.numel() != wanted:
            raise Error(f"{OPTION}: {self.what} made {result.numel()} elements of a bucket of {wanted}")
        return result


def kind(value):
    return f"a {type(value).__name__}" if value is not None else "None"


def hook_of_torch(text, settings):
    """The hook "torch:NAME" and its state."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    name = text.removeprefix(OF_TORCH)
    if name in CHAINED:
        try:
            state = powerSGD_hook.PowerSGDState(process_group=None, **settings)
        except Exception as error:
            raise Error(f"{OPTION} = '{text}': its settings: {said_by(error)}") from error
        return getattr(powerSGD_hook, name), state
    if settings:
        raise Error(f"{OPTION} = '{text}' has no settings; leave scheme.torch-ddp.settings out")
    return getattr(default_hooks, name), None
