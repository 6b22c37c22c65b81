// The gain of ddp on a real device from reducing gradients while backward goes on, over a link that
// is slowed until communication takes a third of the step. Needs two quiet cores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/comm/window.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/rank.h"
#include "peer/schemes/ddp.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::runner {
namespace {

/// Work that has also crossed a slow link when wait() returns.
class SlowedWork : public Work {
 public:
  SlowedWork(WorkPtr work, const Clock& clock, double begin, double end)
      : work_(std::move(work)), clock_(clock), begin_(begin), end_(end) {}
  void wait() override {
    work_->wait();
    while (clock_.now() < end_) std::this_thread::yield();
  }
  bool ready() override { return work_->ready() && clock_.now() >= end_; }
  Span span() const override { return {{begin_}, {end_}}; }

 private:
  WorkPtr work_;
  const Clock& clock_;
  double begin_, end_;
};

/// A communicator whose all-reduces cross a link, one after the other, besides what they do.
class SlowedCommunicator : public Communicator {
 public:
  SlowedCommunicator(std::unique_ptr<Communicator> inner, const Clock& clock, double seconds_a_byte)
      : Communicator(inner->rank(), inner->size()),
        inner_(std::move(inner)),
        clock_(clock),
        seconds_a_byte_(seconds_a_byte) {}

  WorkPtr all_reduce(const Tensor& array) override {
    WorkPtr work = inner_->all_reduce(array);
    const double begin = std::max(clock_.now(), free_);
    free_ = begin + seconds_a_byte_ * static_cast<double>(array.bytes());
    return std::make_unique<SlowedWork>(std::move(work), clock_, begin, free_);
  }
  WorkPtr reduce_scatter(const Tensor& array, const Tensor& part) override {
    return inner_->reduce_scatter(array, part);
  }
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    return inner_->all_gather(part, array);
  }
  WorkPtr broadcast(const Tensor& array, int root) override {
    return inner_->broadcast(array, root);
  }
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    return inner_->all_to_all(in, out);
  }
  WorkPtr send(const Tensor& array, int to) override { return inner_->send(array, to); }
  WorkPtr recv(const Tensor& array, int from) override { return inner_->recv(array, from); }
  std::unique_ptr<Window> expose(const Tensor& own) override { return inner_->expose(own); }
  Tensor share(std::int64_t count, MemoryKind kind, DType dtype) override {
    return inner_->share(count, kind, dtype);
  }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return inner_->split(colour, key);
  }
  Traffic traffic() const override { return inner_->traffic(); }

 private:
  std::unique_ptr<Communicator> inner_;
  const Clock& clock_;
  double seconds_a_byte_;
  double free_ = 0;  // when the link has carried everything so far
};

struct Medians {
  double step = 0, exposed = 0;  // seconds
  std::int64_t bytes = 0;        // of all gradients
};

/// Runs ddp on two threads over the slowed link.
Medians measure(bool overlap, double seconds_a_byte) {
  auto config = testing::tiny("mlp");
  config.model.width = 512;
  config.model.layers = 12;
  config.train.steps = 40;
  config.train.warmup = 5;
  config.train.global_batch = 128;
  config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 1, .overlap = overlap};
  const RunPlan plan = plan_training(config, "ddp", 2);

  std::mutex mutex;
  std::vector<std::unique_ptr<RankContext>> contexts;
  SchemeInfo row = find_scheme("ddp");
  row.make = [&](const RankContext& context, const Options& options) {
    const Links links(
        [seconds_a_byte, fast = context.links](const RankContext& own, const Group& group) {
          return std::make_unique<SlowedCommunicator>(fast.communicator(own, group),
                                                      own.device.clock(), seconds_a_byte);
        });
    auto own = std::make_unique<RankContext>(context);
    own->links = links;
    const RankContext& slowed = *own;
    {
      const std::lock_guard lock(mutex);
      contexts.push_back(std::move(own));
    }
    return peer::make_ddp(slowed, options.as<peer::DdpOptions>());  // waits for the other rank
  };
  const std::vector<RankRecord> ranks = run_ranks_as_threads(plan, &row);

  const auto median = [&](const auto& value) {
    std::vector<double> all;
    for (std::size_t s = 5; s < ranks[0].steps.size(); ++s) all.push_back(value(ranks[0].steps[s]));
    std::nth_element(all.begin(), all.begin() + std::ssize(all) / 2, all.end());
    return all[all.size() / 2];
  };
  return {median([](const StepTime& step) { return step.total; }), median([](const StepTime& step) {
            return step.by_activity[static_cast<std::size_t>(Activity::exposed)];
          }),
          4 * ranks[0].parameters};
}

TEST(RealOverlap, ExposesLessThanHalfOfWhatItExposesWithoutOverASlowedLink) {
  const Medians fast = measure(false, 0);
  // A link that is busy for half of a step without it is busy for a third of a step with it.
  const double seconds_a_byte = fast.step / 2 / static_cast<double>(fast.bytes);
  const Medians without = measure(false, seconds_a_byte), with = measure(true, seconds_a_byte);
  std::printf(
      "a step takes %.1f ms; over the slowed link %.1f ms and exposes %.1f ms; with overlap "
      "%.1f ms and %.1f ms\n",
      fast.step * 1e3, without.step * 1e3, without.exposed * 1e3, with.step * 1e3,
      with.exposed * 1e3);
  EXPECT_GT(without.exposed, 0.28 * without.step);
  EXPECT_LT(with.exposed, 0.5 * without.exposed);
  EXPECT_LT(with.step, without.step);
}

}  // namespace
}  // namespace ringside::runner
