"""A scheme of your own: a class for one worker, in a file that scheme.torch.file names."""
import contextlib


class Worker:
    """One worker of a scheme. Every worker starts with the same model and trains it on samples of its
    own. A class of yours may derive from this one, or have the same methods; only __init__ and step
    are needed.

    context      ringside_peers.user_code.Context: rank, world, step, settings, ...
    model        the worker's replica, with which it is evaluated
    optimizer    torch.optim.Optimizer over its parameters, with the learning rate of the step
    compute      what forward calls, if not `model`: a wrapper of it
    """

    def __init__(self, context, model, optimizer):
        self.context, self.model, self.optimizer = context, model, optimizer
        self.compute = model

    def micro_batch(self, last):
        """The context in which forward and backward of a micro-batch run; `last` of the step."""
        return contextlib.nullcontext()

    def step(self, step):
        """Updates the model, and speaks to other workers by torch.distributed. The parameters'
        gradients are those of the mean loss over this worker's own samples of the step, and are
        cleared afterwards. `step` counts from 0. Wrap what waits for others into
        `with self.context.waits("average"):`, so that the table shows it as exposed."""
        self.optimizer.step()

    def finish(self):
        """After the last step."""
