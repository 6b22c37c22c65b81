// The weights of push-sum (scheme sgp): they are conserved and divided by on every graph.
#include <gtest/gtest.h>

#include <optional>

#include "core/models/models.h"
#include "peer/schemes/sgp.h"
#include "tests/schemes/algorithms_fixture.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

using peer::Graph;
using testing::algorithm_steps;
using testing::algorithm_workers;
using testing::phase_of;
using testing::sines;

/// Workers of sgp whose messages a loop moves, with replicas that begin with different values.
class PushSum : public testing::AlgorithmsTest {
 protected:
  using Update = std::function<void(std::size_t worker, const Tensor& values)>;

  void begin(const peer::SgpOptions& options, int workers, std::int64_t steps) {
    options_ = options;
    steps_ = steps;
    rules_.clear(), replicas_.clear(), messages_.clear();
    given_after_.reset();
    for (int w = 0; w < workers; ++w) {
      rules_.push_back(peer::make_sgp_rule(
          {.device = *device_, .model = model_, .worker = w, .workers = workers, .steps = steps},
          options));
      replicas_.push_back(made(sines(count_, 2.0 + w)));
      rules_.back()->attach(replicas_.back());
    }
  }
  void step(std::int64_t step, const Update& update) {
    const std::int64_t done = step + 1, delay = rules_[0]->delay();
    if (delay > 0 && rules_[0]->gives(0, step)) give(step);
    for (std::size_t w = 0; w < rules_.size(); ++w) {
      update(w, replicas_[w]);
      if (rules_[w]->corrects()) rules_[w]->correct(replicas_[w]);
    }
    if (delay == 0 && rules_[0]->gives(0, done)) give(done);
    if (given_after_ && (*given_after_ + delay == done || done == steps_)) take();
  }

  double weight(std::size_t worker) const { return rules_[worker]->figures().at(0).value; }
  double value(std::size_t worker, std::size_t element) const {
    return replicas_[worker].data<float>()[element];
  }
  /// The weights of all workers and of all messages on their way.
  double all_weights() const {
    double sum = under_way(static_cast<std::size_t>(count_));
    for (std::size_t w = 0; w < rules_.size(); ++w) sum += weight(w);
    return sum;
  }
  /// One element of x of all workers, and of all messages on their way.
  double all_values(std::size_t element) const {
    double sum = under_way(element);
    for (std::size_t w = 0; w < rules_.size(); ++w) sum += weight(w) * value(w, element);
    return sum;
  }

  const Model model_ = make_model(testing::tiny("mlp").model, *device_);
  const std::int64_t count_ = model_.parameter_count();
  std::vector<Tensor> replicas_;

 private:
  int workers() const { return static_cast<int>(rules_.size()); }
  double under_way(std::size_t element) const {
    double sum = 0;
    for (std::size_t w = 0; given_after_ && w < messages_.size(); ++w)
      sum += double{messages_[w].data<float>()[element]} *
             peer::out_degree(options_.graph, static_cast<int>(w), workers());
    return sum;
  }
  void give(std::int64_t done) {
    messages_.clear();
    for (std::size_t w = 0; w < rules_.size(); ++w) {
      messages_.push_back(zeros(count_ + 1));
      rules_[w]->give({0, count_}, replicas_[w], messages_[w]);
    }
    given_after_ = done;
  }
  void take() {
    for (std::size_t w = 0; w < rules_.size(); ++w) {
      std::vector<Tensor> received;
      for (const int source : rules_[w]->sources(static_cast<int>(w), *given_after_))
        received.push_back(messages_[static_cast<std::size_t>(source)]);
      rules_[w]->take({0, count_}, {.messages = received, .given = messages_[w]}, replicas_[w]);
    }
    given_after_.reset();
  }

  peer::SgpOptions options_;
  std::int64_t steps_ = 0;
  std::vector<std::unique_ptr<peer::LocalRule>> rules_;
  std::vector<Tensor> messages_;  // of each worker, last given
  std::optional<std::int64_t> given_after_;
};

TEST_F(PushSum, KeepsTheSumsOfWeightsAndValues) {
  for (const Graph graph : {Graph::one_peer, Graph::exponential, Graph::ring, Graph::star})
    for (const std::int64_t overlap : {0, 1, 3})
      for (const int workers : {1, 2, 4, 5}) {
        SCOPED_TRACE(fmt::format("{}, overlap {}, {} workers", name_of(graph), overlap, workers));
        begin({.graph = graph, .overlap = overlap}, workers, 10);
        double expected = all_values(3);
        for (int s = 0; s < 10; ++s) {
          step(s, [&](std::size_t w, const Tensor& values) {
            const std::vector<float> update = sines(count_, phase_of(static_cast<int>(w), s), 0.1F);
            expected += update[3];
            device_->kernels().add({.in = made(update), .out = values});
          });
          EXPECT_NEAR(all_weights(), workers, 1e-5) << "after step " << s + 1;
          EXPECT_NEAR(all_values(3), expected, 1e-5) << "after step " << s + 1;
        }
      }
}

TEST_F(PushSum, HasWeightsOfOneWhereAllSendAndTakeEquallyMany) {
  for (const Graph graph : {Graph::one_peer, Graph::exponential, Graph::torus, Graph::complete})
    for (const int workers : {1, 2, 3, 6}) {
      begin({.graph = graph}, workers, 7);
      for (int s = 0; s < 7; ++s) step(s, [](std::size_t, const Tensor&) {});
      for (int w = 0; w < workers; ++w) EXPECT_NEAR(weight(static_cast<std::size_t>(w)), 1, 1e-6);
    }
}

/// What is on its way is not in the weights: of two parts that are kept and sent, half is missing.
TEST_F(PushSum, HasSmallerWeightsWhileMessagesAreOnTheirWay) {
  begin({.graph = Graph::one_peer, .overlap = 4}, 4, 8);
  for (int s = 0; s < 3; ++s) step(s, [](std::size_t, const Tensor&) {});
  for (std::size_t w = 0; w < 4; ++w) EXPECT_EQ(weight(w), 0.5);
  step(3, [](std::size_t, const Tensor&) {});
  for (std::size_t w = 0; w < 4; ++w) EXPECT_EQ(weight(w), 1);
}

/// The weights approach the eigenvector of the mixing, which is in proportion to degree + 1.
TEST_F(PushSum, OnAStarApproachesTheWeightsOfItsDegreesAndTheMeanOfAllReplicas) {
  constexpr int workers = 5, steps = 80;
  begin({.graph = Graph::star}, workers, steps);
  double mean = 0;
  for (std::size_t w = 0; w < workers; ++w) mean += value(w, 7) / workers;
  for (int s = 0; s < steps; ++s) step(s, [](std::size_t, const Tensor&) {});
  EXPECT_NEAR(weight(0), 25.0 / 13, 1e-5);
  for (std::size_t w = 1; w < workers; ++w) EXPECT_NEAR(weight(w), 10.0 / 13, 1e-5);
  for (std::size_t w = 0; w < workers; ++w) EXPECT_NEAR(value(w, 7), mean, 1e-5) << w;
}

/// Every worker descends to a point of its own by plain SGD.
TEST_F(PushSum, IsThatOfThePaper) {
  for (const auto& [name, overlap] : {std::pair("sgp", 0), {"overlap_sgp", 2}}) {
    begin({.graph = Graph::star, .overlap = overlap}, algorithm_workers, algorithm_steps);
    for (int s = 0; s < algorithm_steps; ++s)
      step(s, [&](std::size_t w, const Tensor& values) {
        const Tensor target = made(sines(count_, phase_of(static_cast<int>(w), 0)));
        device_->kernels().blend(
            {.in = target, .out = values, .in_scale = 0.1F, .out_scale = 0.9F});
      });
    const auto expected = golden(name);
    for (std::size_t w = 0; w < algorithm_workers; ++w) {
      EXPECT_LT(distance(replicas_[w], expected[0][w].get<std::vector<double>>()), 1e-5) << name;
      EXPECT_NEAR(weight(w), expected[1][w].get<double>(), 1e-6) << name;
    }
  }
}

}  // namespace
}  // namespace ringside::runner
