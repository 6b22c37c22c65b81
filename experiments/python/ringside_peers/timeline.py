"""Where the time of each step went, as core/observe/timeline.h keeps it."""
import contextlib
import threading
import time

ACTIVITIES = ("compute", "communication", "exposed", "optimizer", "data", "encoding")
TRACED_STEPS = 4
now = time.perf_counter  # the clock of Ringside's own ranks on the same host: CLOCK_MONOTONIC


class Timeline:
    """`whole`: only whole steps are timed, all of them as compute: on GPUs, which compute while the host
    goes on, the times of the host say nothing about what happens within a step."""

    def __init__(self, whole=False):
        self.whole = whole
        self.lock = threading.Lock()  # communication ends in threads of a library
        self.bounds, self.spans, self.begin = [], [], None

    def begin_step(self):
        self.begin = now()

    def end_step(self):
        self.bounds.append((self.begin, now()))
        return self.bounds[-1][1] - self.begin

    def add(self, activity, name, begin, end, **note):
        """`note`: more of what a trace shows, such as track, operation and bytes
        (core/observe/slice.h)."""
        if end > begin and not self.whole:
            with self.lock:
                self.spans.append((begin, end, activity, name, note))

    @contextlib.contextmanager
    def span(self, activity, name):
        begin = now()
        yield
        self.add(activity, name, begin, now())

    def steps(self, empty):
        """Of each step its seconds, in all and by activity. Spans of one activity may overlap: time
        in which there is any counts once. While a rank waits it does not compute. `empty`: a step
        without values."""
        seconds = {activity: self._covered({activity}) for activity in ACTIVITIES}
        waiting_or_busy = self._covered({"compute", "exposed"})
        out = []
        for i, (begin, end) in enumerate(self.bounds):
            step = {**empty, "total": end - begin}
            step.update((activity, seconds[activity][i]) for activity in ACTIVITIES)
            step["compute"] = waiting_or_busy[i] - seconds["exposed"][i]
            if self.whole:
                step["compute"] = step["total"]
            out.append(step)
        return out

    def _covered(self, activities):
        """The seconds of each step in which there is a span of one of the activities."""
        out, covered, first = [0.0] * len(self.bounds), 0.0, 0
        for begin, end in sorted(span[:2] for span in self.spans if span[2] in activities):
            begin = max(begin, covered)
            covered = max(covered, end)
            while first < len(out) and self.bounds[first][1] <= begin:
                first += 1
            for i in range(first, len(out)):
                if self.bounds[i][0] >= end:
                    break
                out[i] += max(0.0, min(end, self.bounds[i][1]) - max(begin, self.bounds[i][0]))
        return out

    def slices(self, empty):
        """The last steps and their spans, for a trace. `empty`: such a span without values."""
        if not self.bounds:
            return []
        first = max(0, len(self.bounds) - TRACED_STEPS)
        begun = self.bounds[first][0]
        steps = [
            (begin, end, "step", f"step {number}", {"track": "steps", "sequence": number})
            for number, (begin, end) in enumerate(self.bounds[first:], first + 1)
        ]
        spans = sorted((span for span in self.spans if span[0] >= begun), key=lambda span: span[0])
        return [
            {**empty, "activity": activity, "name": name, "begin_s": begin, "duration_s": end - begin, **note}
            for begin, end, activity, name, note in steps + spans
        ]
