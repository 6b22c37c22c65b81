// Every schedule of the field is right, and has the bubble and the activations of its paper.
#include "core/pipeline/makers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/pipeline/activations.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/simulation.h"
#include "tests/pipeline/made_schedules.h"

namespace ringside::pipeline {
namespace {

using ::testing::HasSubstr;

constexpr StageTimes tried_times[] = {{1, 1, 1},     {2, 2, 1}, {3, 2, 1}, {2, 3, 1}, {1, 1.2, .9},
                                      {1, 0.5, .25}, {1, 1, 2}, {3, 1, 2}, {1, 3, 2}, {1, 2, 3}};

std::string text_of(const StageTimes& t) {
  return ", f, b, w = " + std::to_string(t.f) + " " + std::to_string(t.b) + " " +
         std::to_string(t.w);
}

TEST(Makers, SchedulesPassTheCheckWithAndWithoutSends) {
  int count = 0;
  for (const MadeSchedule& made : made_schedules()) {
    EXPECT_NO_THROW(check(made.schedule)) << made.label();
    const Schedule complete = with_sends(made.schedule);
    EXPECT_NO_THROW(check(complete)) << made.label();
    EXPECT_EQ(with_sends(complete), complete);
    EXPECT_EQ(has_sends(complete), made.ranks > 1);
    EXPECT_EQ(made.schedule.stages(), made.ranks * made.chunks);
    ++count;
  }
  EXPECT_GT(count, 700);
}

TEST(Makers, BubbleOfTheSimulationIsThatOfTheFormula) {
  std::map<std::string_view, int> compared;
  for (const MadeSchedule& made : made_schedules())
    for (const StageTimes& t : tried_times) {
      const SimulatedSchedule simulated = simulate(made.schedule, equal_times(made.schedule, t));
      const double bubble =
          made.row->bubble(made.ranks, made.chunks, made.micro_batches, t.f, t.b, t.w);
      const double idle =
          made.row->idle(made.ranks, made.chunks, made.micro_batches, t.f, t.b, t.w);
      if (!std::isnan(bubble)) {
        EXPECT_NEAR(simulated.bubble(), bubble, 1e-9) << made.label() << text_of(t);
        ++compared[made.row->name];
      }
      if (!std::isnan(idle)) {
        EXPECT_NEAR(simulated.idle(), idle, 1e-9) << made.label() << text_of(t);
      }
    }
  for (const MakerInfo& row : maker_rows()) EXPECT_GE(compared[row.name], 50) << row.name;
}

/// With the numbers of the papers' own examples, so that a formula cannot be wrong with its maker.
TEST(Makers, FormulasAreThoseOfThePapers) {
  const auto bubble = [](std::string_view name, int p, int v, std::int64_t m, double f, double b,
                         double w) { return find_maker(name).bubble(p, v, m, f, b, w); };
  const auto idle = [](std::string_view name, int p, int v, std::int64_t m, double f, double b,
                       double w) { return find_maker(name).idle(p, v, m, f, b, w); };
  EXPECT_DOUBLE_EQ(bubble_share(bubble("gpipe", 4, 1, 8, 1, 1, 1)), 3.0 / (8 + 4 - 1));
  EXPECT_DOUBLE_EQ(bubble_share(bubble("1f1b", 4, 1, 8, 1, 1, 1)), 3.0 / (8 + 4 - 1));
  EXPECT_DOUBLE_EQ(bubble("1f1b", 4, 1, 8, 3, 2, 1), 3.0 / 8);
  EXPECT_DOUBLE_EQ(bubble("interleaved", 4, 2, 8, 1, 1, 1), 3.0 / (2 * 8));
  EXPECT_DOUBLE_EQ(bubble_share(bubble("interleaved", 4, 2, 8, 1, 1, 1)), 3.0 / (2 * 8 + 4 - 1));
  EXPECT_DOUBLE_EQ(idle("1f1b", 4, 1, 8, 3, 5, 2), 3.0 * (3 + 5 + 2));
  EXPECT_DOUBLE_EQ(idle("zb_h1", 4, 1, 8, 3, 5, 2), 3.0 * (3 + 5 - 2));
  EXPECT_DOUBLE_EQ(idle("zb_h2", 4, 1, 8, 3, 5, 2), 3.0 * (3 + 5 - 2 * 2));
  EXPECT_DOUBLE_EQ(idle("zb_h2", 4, 1, 8, 1, 1, 1), 0);
  EXPECT_DOUBLE_EQ(idle("zb_v", 4, 2, 8, 1, 1, 1), 0);
  EXPECT_TRUE(std::isnan(idle("zb_v", 4, 2, 8, 1, 2, 1))) << "the paper has none";
  EXPECT_TRUE(std::isnan(idle("zb_h2", 4, 1, 6, 1, 1, 1))) << "too few micro-batches";
}

TEST(Makers, MicroBatchesInFlightAreThoseOfTheFormula) {
  for (const MadeSchedule& made : made_schedules()) {
    const auto held = held_micro_batches(made.schedule);
    for (int stage = 0; stage < made.schedule.stages(); ++stage)
      EXPECT_EQ(held[static_cast<std::size_t>(stage)].until_weight_gradient,
                made.row->in_flight(made.ranks, made.chunks, made.micro_batches, stage))
          << made.label() << ", stage " << stage;
  }
}

TEST(Makers, MicroBatchesInFlightMayBeLimited) {
  for (const MadeSchedule& made : made_schedules()) {
    std::int64_t most = 0;
    for (const HeldMicroBatches& held : held_micro_batches(made.schedule))
      most = std::max(most, held.until_weight_gradient);
    EXPECT_NO_THROW(check_held(made.schedule, most)) << made.label();
    EXPECT_NO_THROW(check_held(made.schedule, 0)) << made.label();
    if (most > 1) {
      EXPECT_THROW(check_held(made.schedule, most - 1), Error) << made.label();
    }
  }
}

TEST(Makers, ActivationsOfARankAreThoseOfThePapers) {
  const auto most = [](std::string_view name, int ranks, int chunks, std::int64_t m, int rank,
                       const ActivationBytes& bytes) {
    const Schedule schedule = find_maker(name).make(ranks, chunks, m);
    return most_activation_bytes(
        schedule, rank,
        std::vector<ActivationBytes>(static_cast<std::size_t>(schedule.stages()), bytes));
  };
  for (int p = 2; p <= 8; ++p)
    for (int i = 0; i < p; ++i) {
      const std::string label = "p = " + std::to_string(p) + ", rank " + std::to_string(i);
      // Qi et al. 2024, table 2; the paper counts ranks from 1
      EXPECT_DOUBLE_EQ(most("1f1b", p, 1, 3 * p, i, {1, .5}), p - i) << label;
      EXPECT_DOUBLE_EQ(most("zb_h1", p, 1, 3 * p, i, {1, .5}), p - i + .5 * i) << label;
      EXPECT_DOUBLE_EQ(most("zb_h2", p, 1, 3 * p, i, {1, .5}), 2 * p - 2 * i - 1 + .5 * 2 * i)
          << label;
      EXPECT_DOUBLE_EQ(most("zb_v", p, 2, 3 * p, i, {.5, .5}), p) << label;
    }
  // Narayanan et al. 2021, section 2.2.2: 1 + (p - 1)/(p v) times the activations of 1F1B
  for (int p = 2; p <= 8; ++p)
    for (int v = 2; v <= 3; ++v)
      EXPECT_NEAR(most("interleaved", p, v, 3 * p, 0, {1.0 / v, 0}), p * (1 + (p - 1.0) / (p * v)),
                  1e-9);
}

TEST(Makers, ActivationsAreThoseOfEachMicroBatchWithAWholeOrADividedBackward) {
  const Schedule schedule = parse_csv("0F0,0F1,0I0,0B1,0W0\n", "x", "mixed");
  const auto most = [&](const ActivationBytes& bytes) {
    return most_activation_bytes(schedule, 0, {bytes});
  };
  // Held: 10 in F0, 20 from F1 on, 14 from I0 on, 4 from B1 on.
  const ActivationBytes bytes = {.before_input_gradient = 10, .before_weight_gradient = 4};
  EXPECT_DOUBLE_EQ(most(bytes), 20);
  const auto with = [&](double ActivationBytes::*during, double value) {
    ActivationBytes out = bytes;
    out.*during = value;
    return most(out);
  };
  EXPECT_DOUBLE_EQ(with(&ActivationBytes::in_forward, 13), 10 + 13);
  EXPECT_DOUBLE_EQ(with(&ActivationBytes::in_input_gradient, 15), 10 + 15);
  EXPECT_DOUBLE_EQ(with(&ActivationBytes::in_backward, 18), 4 + 18);
  EXPECT_DOUBLE_EQ(with(&ActivationBytes::in_weight_gradient, 25), 25);
  EXPECT_DOUBLE_EQ(with(&ActivationBytes::in_backward, 16), 20) << "4 + 16, no more than before";
}

TEST(Makers, StagesAreOnTheRanksOfThePapers) {
  EXPECT_EQ(find_maker("interleaved").make(3, 2, 3).ranks_of, (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(find_maker("zb_v").make(3, 2, 3).ranks_of, (std::vector{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(find_maker("zb_v").make(3, 2, 3).stages_of(1), (std::vector{1, 4}));
}

TEST(Makers, NamesAreOursAndThoseOfTorch) {
  EXPECT_EQ(find_maker("1F1B").name, "1f1b");
  EXPECT_EQ(find_maker("Interleaved1F1B").name, "interleaved");
  EXPECT_EQ(find_maker("zbvzerobubble").name, "zb_v");
  try {
    find_maker("zb_h3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("sequential, gpipe, 1f1b, interleaved, zb_h1, zb_h2, zb_v"));
  }
}

TEST(Makers, RefuseNumbersThatTheyDoNotAllow) {
  const auto refuses = [](std::string_view name, int ranks, int chunks, std::int64_t m,
                          const char* why) {
    try {
      find_maker(name).make(ranks, chunks, m);
      ADD_FAILURE() << name << " " << ranks << " " << chunks << " " << m;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  refuses("1f1b", 4, 2, 8, "a rank has one stage, not 2");
  refuses("zb_v", 4, 1, 8, "a rank has two stages, not 1");
  refuses("interleaved", 4, 2, 6, "6 micro-batches cannot be divided by 4 ranks");
  refuses("gpipe", 0, 1, 6, "at least one of each");
  refuses("gpipe", 4, 1, 0, "at least one of each");
  refuses("gpipe", 1000, 1, 1000, "too many");
  refuses("gpipe", 4, 1, std::int64_t{1} << 62, "too many");
}

}  // namespace
}  // namespace ringside::pipeline
