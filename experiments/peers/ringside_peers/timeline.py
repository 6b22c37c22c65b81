"""Where the time of each step went, as core/observe/timeline.h keeps it."""
import contextlib
import threading
import time

ACTIVITIES = ("compute", "communication", "exposed", "optimizer", "data", "encoding")
TRACED_STEPS = 2
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

    def add(self, activity, name, begin, end):
        if end > begin and not self.whole:
            with self.lock:
                self.spans.append((begin, end, activity, name))

    @contextlib.contextmanager
    def span(self, activity, name):
        begin = now()
        yield
        self.add(activity, name, begin, now())

    def steps(self):
        """Of each step its seconds, in all and by activity. Spans of one activity may overlap: time
        in which there is any counts once."""
        out = [{"total": end - begin, **dict.fromkeys(ACTIVITIES, 0.0)} for begin, end in self.bounds]
        for step in out:
            if self.whole:
                step["compute"] = step["total"]
        for activity in ACTIVITIES:
            spans = sorted(span[:2] for span in self.spans if span[2] == activity)
            covered, step = 0.0, 0
            for begin, end in spans:
                begin = max(begin, covered)
                covered = max(covered, end)
                while step < len(out) and self.bounds[step][1] <= begin:
                    step += 1
                for i in range(step, len(out)):
                    within = min(end, self.bounds[i][1]) - max(begin, self.bounds[i][0])
                    if self.bounds[i][0] >= end:
                        break
                    out[i][activity] += max(0.0, within)
        return out

    def slices(self):
        """The spans of the last steps, for a trace."""
        if not self.bounds:
            return []
        first = self.bounds[max(0, len(self.bounds) - TRACED_STEPS)][0]
        return [
            {"activity": activity, "name": name, "begin_s": begin, "duration_s": end - begin}
            for begin, end, activity, name in sorted(self.spans)
            if begin >= first
        ]
