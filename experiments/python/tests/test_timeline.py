"""Times of steps by activity, from spans that overlap, cross steps, or lie outside of them."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from ringside_peers.timeline import ACTIVITIES, Timeline  # noqa: E402


def timeline(bounds, spans):
    made = Timeline()
    made.bounds = bounds
    for activity, begin, end in spans:
        made.add(activity, activity, begin, end)
    return made


class TimelineTest(unittest.TestCase):
    def test_time_without_spans(self):
        steps = timeline([(1.0, 3.0)], []).steps({})
        self.assertEqual(steps, [{"total": 2.0, **dict.fromkeys(ACTIVITIES, 0.0)}])

    def test_spans_of_one_activity_count_once(self):
        spans = [("communication", 1.0, 2.0), ("communication", 1.5, 2.5), ("communication", 1.6, 1.7)]
        steps = timeline([(0.0, 4.0)], spans).steps({})
        self.assertAlmostEqual(steps[0]["communication"], 1.5)

    def test_activities_do_not_hide_each_other(self):
        steps = timeline([(0.0, 4.0)], [("compute", 0.0, 3.0), ("communication", 1.0, 3.5)]).steps({})
        self.assertAlmostEqual(steps[0]["compute"], 3.0)
        self.assertAlmostEqual(steps[0]["communication"], 2.5)

    def test_a_rank_that_waits_does_not_compute(self):
        steps = timeline([(0.0, 4.0)], [("compute", 0.0, 3.0), ("exposed", 1.0, 1.5)]).steps({})
        self.assertAlmostEqual(steps[0]["compute"], 2.5)
        self.assertAlmostEqual(steps[0]["exposed"], 0.5)

    def test_steps_and_slices_have_what_the_program_knows_besides(self):
        made = timeline([(0.0, 1.0)], [])
        made.add("communication", "bucket 0", 0.2, 0.4, bytes=8)
        self.assertEqual(made.steps({"new": 0})[0]["new"], 0)
        self.assertEqual(made.slices({"new": 0, "bytes": 0})[1]["bytes"], 8)
        self.assertEqual(made.slices({"new": 0, "bytes": 0})[1]["new"], 0)

    def test_time_counts_for_the_step_in_which_it_passed(self):
        spans = [("exposed", 0.5, 2.5), ("exposed", 3.5, 9.0)]
        steps = timeline([(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)], spans).steps({})
        self.assertEqual([step["exposed"] for step in steps], [0.5, 0.5, 1.0])

    def test_whole_steps_alone(self):
        made = Timeline(whole=True)
        made.bounds = [(1.0, 3.0)]
        made.add("exposed", "wait", 1.0, 2.0)
        self.assertEqual(made.steps({})[0], {"total": 2.0, **dict.fromkeys(ACTIVITIES, 0.0), "compute": 2.0})
        self.assertEqual([one["activity"] for one in made.slices({})], ["step"])
        self.assertEqual(Timeline().slices({}), [])

    def test_a_trace_has_the_last_four_steps(self):
        bounds = [(2.0 * step, 2.0 * step + 1) for step in range(5)]
        spans = [("compute", 0.1, 0.2), ("compute", 2.1, 2.2), ("exposed", 8.1, 8.3)]
        slices = timeline(bounds, spans).slices({})
        self.assertEqual([one["begin_s"] for one in slices], [2.0, 4.0, 6.0, 8.0, 2.1, 8.1])
        self.assertEqual(slices[0]["name"], "step 2")
        self.assertEqual(slices[5]["activity"], "exposed")
        self.assertAlmostEqual(slices[5]["duration_s"], 0.2)


if __name__ == "__main__":
    unittest.main()
