"""Code of a user's own: a function or class that an option names as "file.py:NAME"."""
import ast
import contextlib
import importlib.util
import pathlib
import sys
import traceback

from ringside_peers.error import Error
from ringside_peers.timeline import now

modules = {}  # by file: a hook and its definition share one


class Code:
    """What "file.py:NAME" names. Loading runs the file; its folder is searched for what it imports.
    Throws Error that begins with the option's key."""

    def __init__(self, key, text):
        self.key = key
        self.file, _, self.name = text.rpartition(":")
        self.module = self._load()
        if not callable(getattr(self.module, self.name, None)):
            raise Error(f"{key}: {self.file} has no function or class '{self.name}'")
        self.object = getattr(self.module, self.name)

    def also(self, name):
        """Another function or class of the same file; None if it has none of that name."""
        return getattr(self.module, name, None)

    def call(self, function, *arguments):
        with self.naming():
            return function(*arguments)

    @contextlib.contextmanager
    def naming(self):
        """What the user's code throws becomes an Error that says where."""
        try:
            yield
        except Error:
            raise
        except Exception as error:
            raise Error(f"{self.key}: {self._place(error)}: {said_by(error)}") from error

    def _load(self):
        if self.file not in modules:
            folder = str(pathlib.Path(self.file).parent)
            if folder not in sys.path:
                sys.path.append(folder)
            name = f"ringside_user_code_{len(modules)}"
            spec = importlib.util.spec_from_file_location(name, self.file)
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            with self.naming():
                spec.loader.exec_module(module)
            modules[self.file] = module
        return modules[self.file]

    def _place(self, error):
        """The last line of the user's file that was running: "top_k.py:12"."""
        if isinstance(error, SyntaxError) and error.filename == self.file:
            return f"{self.file}:{error.lineno}"
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == self.file]
        return f"{self.file}:{lines[-1]}" if lines else self.file


def said_by(error):
    """"ValueError: too large"; the first line alone, which PyTorch follows with its own stack."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def settings_of(text):
    """{"ratio": 0.01, "kind": "ring"} of "ratio=0.01, kind=ring": values are what Python reads them
    as, or else text."""
    settings = {}
    for part in filter(str.strip, text.split(",")):
        name, _, value = part.partition("=")
        try:
            settings[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            settings[name.strip()] = value.strip()
    return settings


class Context:
    """What a user's code is told of a run.

    rank, world   this worker's number and the number of workers; a definition stands for all of them
    device        the torch.device on which it computes
    steps, step   the number of steps of the run, and of those that are done
    settings      a dict of the option `settings`
    memory        a dict in which the code may keep what it likes from step to step
    """

    def __init__(self, plan, rank, device, timeline):
        self.rank, self.world, self.device = rank, plan["world"], device
        self.steps, self.step = plan["train"]["steps"], 0
        self.settings, self.memory = settings_of(plan["options"]["settings"]), {}
        self._timeline, self.waited = timeline, []

    @contextlib.contextmanager
    def waits(self, name):
        """The time within is exposed communication: with context.waits("average"): ..."""
        begin = now()
        yield
        end = now()
        self.waited.append((begin, end))
        self._timeline.add("exposed", f"wait {name}", begin, end)
        self._timeline.add("communication", name, begin, end, track="worker")
