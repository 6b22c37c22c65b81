// Schemes that are wrong on purpose, each made of a right scheme of the registry.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/runner/registry/registry.h"
#include "tests/schemes/wrapped.h"

namespace ringside::testing {

/// Ends a step, with its reduction or averaging, before the last micro-batch, whose gradients are
/// lost. With one micro-batch on each rank it is right.
class StepsEarly : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void after_backward(std::size_t unit, const Pass& pass) override {
    if (pass.micro_batches == 1) return Wrapped::after_backward(unit, pass);
    if (pass.last()) return;
    Pass without_last = pass;
    --without_last.micro_batches;
    Wrapped::after_backward(unit, without_last);
    if (without_last.last() && unit == 0) Wrapped::step({.step = pass.step});
  }
  bool step(const StepInfo& info) override {
    return context().plan.train.accumulation > 1 || Wrapped::step(info);
  }
};

/// Halves the last worker's share of one loss: that of the third training step, or that of the
/// evaluation after the second step. The gradients stay right.
template <bool training>
class MisreportsLoss : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
            const Pass& pass) override {
    Loss loss = Wrapped::loss(logits, batch, terms, pass);
    const bool last_worker = context().self().worker + 1 == context().plan.world;
    if (last_worker && pass.training == training && pass.step == (training ? 2 : 1)) {
      loss.known = value_of(context().device, loss);
      loss.known.loss /= 2;
      loss.rows.clear();
    }
    return loss;
  }
};

/// Shows the parameters of the first replica only.
class HidesReplicas : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void visit_parameters(const ParameterVisitor& visit) override {
    Wrapped::visit_parameters([&](int replica, const Unit& unit, const Tensor& values) {
      if (replica == 0) visit(replica, unit, values);
    });
  }
};

/// Leaves out the last update on all workers but worker 0. With one step these never train.
class SkipsLastUpdate : public Wrapped {
 public:
  using Wrapped::Wrapped;
  bool step(const StepInfo& info) override {
    const bool skips = context().self().worker > 0 && info.step + 1 == context().plan.train.steps;
    return skips || Wrapped::step(info);
  }
};

/// Shows the parameters of worker 0 only.
class HidesWorkers : public Wrapped {
 public:
  using Wrapped::Wrapped;
  void visit_parameters(const ParameterVisitor& visit) override {
    const bool shows = context().self().worker == 0;
    Wrapped::visit_parameters([&](int replica, const Unit& unit, const Tensor& values) {
      if (shows) visit(replica, unit, values);
    });
  }
};

/// Sums that leave out the last rank's array.
class ForgetsLastRank : public WrappedCommunicator {
 public:
  ForgetsLastRank(Device& device, std::unique_ptr<Communicator> right)
      : WrappedCommunicator(std::move(right)), device_(device) {}
  WorkPtr all_reduce(const Tensor& array) override {
    if (rank() + 1 == size()) device_.kernels().fill({.out = array, .value = 0});
    return WrappedCommunicator::all_reduce(array);
  }

 private:
  Device& device_;
};

/// The row of a scheme that promises what the scheme `name` promises, and wraps it.
template <class Wrapper>
SchemeInfo wrapping(const std::string& name) {
  SchemeInfo row = runner::find_scheme(name);
  row.make = [make = row.make](const RankContext& context, const Options& options) {
    return std::make_unique<Wrapper>(context, make(context, options));
  };
  return row;
}

/// The row of a scheme whose communicators are wrapped.
template <class Wrapper>
SchemeInfo communicating_by(const std::string& name) {
  SchemeInfo row = runner::find_scheme(name);
  row.make = [make = row.make](const RankContext& context, const Options& options) {
    RankContext other = context;
    other.links = Links([right = context.links](const RankContext& own, const Group& group) {
      if constexpr (std::is_constructible_v<Wrapper, Device&, std::unique_ptr<Communicator>>)
        return std::make_unique<Wrapper>(own.device, right.communicator(own, group));
      else
        return std::make_unique<Wrapper>(right.communicator(own, group));
    });
    return make(other, options);
  };
  return row;
}

/// The row of a scheme that leaves the last worker out of every all-reduce.
inline SchemeInfo forgetting_last_worker(const std::string& name) {
  return communicating_by<ForgetsLastRank>(name);
}

struct Done : Work {
  void wait() override {}
  bool ready() override { return true; }
  Span span() const override { return {}; }
};

/// All-gathers and all-to-alls in which every rank takes the next rank's message for its own.
class MistakesSenders : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    WrappedCommunicator::all_gather(part, array)->wait();
    return mistaken(array);
  }
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    WrappedCommunicator::all_to_all(in, out)->wait();
    return mistaken(out);
  }

 private:
  WorkPtr mistaken(const Tensor& array) const {
    const auto bytes = static_cast<std::ptrdiff_t>(array.bytes()) / size();
    auto* all = array.data<std::uint8_t>();
    std::rotate(all, all + bytes, all + size() * bytes);
    return std::make_unique<Done>();
  }
};

/// All-gathers in which every rank's values come with the indices of the next rank. Indices are the
/// words that are small as integers on all ranks: no value of a gradient has such bits but 0.
class MistakesIndices : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    WrappedCommunicator::all_gather(part, array)->wait();
    const std::size_t ranks = static_cast<std::size_t>(size()), words = array.bytes() / 4 / ranks;
    auto* all = array.data<std::uint32_t>();
    for (std::size_t w = 0; w < words; ++w) {
      bool is_index = true;
      for (std::size_t r = 0; r < ranks; ++r) is_index = is_index && all[r * words + w] < 1'000'000;
      for (std::size_t r = 0; is_index && r + 1 < ranks; ++r)
        std::swap(all[r * words + w], all[(r + 1) * words + w]);
    }
    return std::make_unique<Done>();
  }
};

/// All-reduces of which every second one leaves each rank with its own array, as if it went on
/// before the others' had come.
class SumsEverySecondArray : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  WorkPtr all_reduce(const Tensor& array) override {
    sums_ = !sums_;
    return sums_ ? WrappedCommunicator::all_reduce(array) : std::make_unique<Done>();
  }

 private:
  bool sums_ = false;
};

/// All-to-alls that bring zeros from the last rank.
class HearsNothingOfLastRank : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  WorkPtr all_to_all(const Tensor& in, const Tensor& out) override {
    WrappedCommunicator::all_to_all(in, out)->wait();
    auto* end = out.data<std::uint8_t>() + out.bytes();
    std::fill(end - out.bytes() / static_cast<std::size_t>(size()), end, std::uint8_t{0});
    return std::make_unique<Done>();
  }
};

/// All-gathers that bring what they brought the first time, for each length; in the groups into
/// which the ranks are split.
class GathersOldValues : public WrappedCommunicator {
 public:
  explicit GathersOldValues(std::unique_ptr<Communicator> right, bool old = false)
      : WrappedCommunicator(std::move(right)), old_(old) {}
  WorkPtr all_gather(const Tensor& part, const Tensor& array) override {
    if (!old_) return WrappedCommunicator::all_gather(part, array);
    WrappedCommunicator::all_gather(part, array)->wait();
    const auto* values = array.data<std::uint8_t>();
    auto& first = first_[array.count()];
    if (first.empty()) first.assign(values, values + array.bytes());
    std::copy(first.begin(), first.end(), array.data<std::uint8_t>());
    return std::make_unique<Done>();
  }
  std::unique_ptr<Communicator> split(int colour, int key) override {
    return std::make_unique<GathersOldValues>(WrappedCommunicator::split(colour, key), true);
  }

 private:
  bool old_;
  std::map<std::int64_t, std::vector<std::uint8_t>> first_;
};

/// Groups of every second worker in place of consecutive ones, where a group splits in two.
class SplitsByTurns : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;
  std::unique_ptr<Communicator> split(int, int key) override {
    return WrappedCommunicator::split(rank() % 2, key);
  }
};

/// The row of a scheme whose workers, and with `alike` the definition too, take other options than
/// the plan says.
template <class Own, class Change>
SchemeInfo misled(const std::string& name, const Change& change, bool alike = false) {
  SchemeInfo row = runner::find_scheme(name);
  const auto other = [change](const auto& make) {
    return [make, change](const RankContext& context, const Options& options) {
      Own own = options.as<Own>();
      change(own);
      return make(context, own);
    };
  };
  row.make = other(row.make);
  if (alike) row.define = other(row.define);
  return row;
}

/// The row of a scheme that promises what the scheme `name` promises, and exchanges nothing.
inline SchemeInfo never_exchanging(const std::string& name) {
  SchemeInfo row = runner::find_scheme(name);
  row.make = runner::find_scheme("independent").make;
  return row;
}

}  // namespace ringside::testing
