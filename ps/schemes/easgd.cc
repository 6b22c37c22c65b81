#include "ps/schemes/easgd.h"

#include <utility>

#include "core/base/error.h"
#include "core/scheme/local_replicas.h"
#include "core/scheme/rank_context.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/replay_order.h"
#include "ps/schemes/step_tickets.h"

namespace ringside::ps {
namespace {

/// The common part of a worker and of the definition. Each implements the rule itself.
class Elastic : public LocalReplicas {
 protected:
  Elastic(const RankContext& context, const PsOptions& options, int replicas)
      : LocalReplicas(context, replicas), options_(options) {}

  bool exchanges_after(std::int64_t step) const {
    return (step + 1) % options_.communication_period == 0;
  }
  void bind(std::size_t unit, const Tensor& parameters) {
    model().units[unit]->bind(of_unit(unit, parameters), {});
  }
  void visit(const Tensor& parameters, const ParameterVisitor& visitor) {
    for (std::size_t u = 0; u < model().units.size(); ++u)
      visitor(0, *model().units[u], of_unit(u, parameters));
  }
  const PsOptions& options() const { return options_; }
  const Kernels& kernels() const { return context().device.kernels(); }
  Tensor parameters_like_replicas(MemoryKind kind) {
    return context().device.tensor({model().parameter_count()}, kind,
                                   parameter_dtype(context().plan.train));
  }

 private:
  Tensor of_unit(std::size_t unit, const Tensor& parameters) {
    return parameters.range(model().first_parameter(unit), model().units[unit]->layout().count());
  }

  PsOptions options_;
};

class Easgd final : public Elastic {
 public:
  Easgd(const RankContext& context, const PsOptions& options)
      : Elastic(context, options, 1),
        rate_(static_cast<float>(moving_rate_of(options, context.plan.world))),
        transport_(context.links.transport<Transport>()) {}

  void attach(Model& model) override {
    LocalReplicas::attach(model);
    chunks_ = chunks_of(model, context().plan.world, options());
    missing_.resize(model.units.size());
    client_ = connect(context(), *transport_, transport_options(context(), options()));
    client_->sum({});  // workers begin together
    if (!options().equal_steps) tickets_.emplace(*client_);
  }

  /// Every ticket is for the steps up to the next exchange, with which a worker ends.
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    const bool begins = done % options().communication_period == 0;
    if (begins && !(tickets_ ? tickets_->take() : done < context().plan.train.steps)) return {};
    return StepAssignment{.step = done, .micro_batches = context().plan.train.accumulation};
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    wait_for(unit);
    if (pass.training) return LocalReplicas::before_forward(unit, pass);
    if (!std::exchange(centre_is_new_, true)) pull_centre();
    bind(unit, centre_);
  }
  void after_forward(std::size_t, const Pass&) override { client_->progress(); }
  void after_backward(std::size_t unit, const Pass& pass) override {
    LocalReplicas::after_backward(unit, pass);
    client_->progress();
  }
  void drain() override { client_->drain(); }

  void visit_parameters(const ParameterVisitor& visitor) override {
    if (!std::exchange(finished_, true)) {
      client_->finish();
      if (client_->worker() == 0) pull_centre();
    }
    if (client_->worker() == 0) visit(centre_, visitor);
  }
  Traffic traffic() const override { return client_ ? client_->traffic() : Traffic{}; }

 private:
  void synchronise(const StepInfo& info) override {
    centre_is_new_ = false;
    if (!exchanges_after(info.step)) return;
    for (const Chunk& chunk : chunks_) {
      Message push = about(Kind::push_pull, chunk, info.step);
      push.frames.push_back(values(0).range(chunk.begin, chunk.count));
      ask(chunk, std::move(push),
          [this, chunk](const Tensor& difference) { pull_back(chunk, difference); });
    }
  }

  /// The worker's part of a chunk moves towards the centre by the rate.
  void pull_back(const Chunk& chunk, const Tensor& difference) const {
    const auto span = context().timeline.scope(Activity::encoding, "elastic force");
    kernels().blend({.in = difference,
                     .out = values(0).range(chunk.begin, chunk.count),
                     .in_scale = -rate_,
                     .out_scale = 1});
    round_parameters(0, chunk.begin, chunk.count);
  }

  void pull_centre() {
    if (!centre_) centre_ = parameters_like_replicas(MemoryKind::parameter);
    for (const Chunk& chunk : chunks_)
      ask(chunk, about(Kind::pull, chunk, 0), [this, chunk](const Tensor& values) {
        kernels().cast({.in = values, .out = centre_.range(chunk.begin, chunk.count)});
      });
    client_->drain();
  }

  static Message about(Kind kind, const Chunk& chunk, std::int64_t step) {
    Message message;
    message.header.kind = kind;
    message.header.step = step;
    message.header.begin = chunk.begin;
    message.header.count = chunk.count;
    return message;
  }

  void ask(const Chunk& chunk, Message request, std::function<void(const Tensor&)> take) {
    ++missing_[chunk.unit];
    std::string what =
        fmt::format("{} {}", name_of(request.header.kind), model().units[chunk.unit]->name());
    client_->ask(
        chunk.server, std::move(request), std::move(what),
        [this, chunk, take = std::move(take)](const Message& reply) {
          if (reply.frames.size() != 1 || reply.frames[0].dtype() != DType::f32 ||
              reply.frames[0].count() != chunk.count)
            throw Error("server {} sent no fp32 values of the {} elements from {} on", chunk.server,
                        chunk.count, chunk.begin);
          take(reply.frames[0]);
          --missing_[chunk.unit];
        },
        chunk.begin);
  }

  void wait_for(std::size_t unit) {
    client_->wait("the centre's part of " + model().units[unit]->name(),
                  [&] { return missing_[unit] == 0; });
  }

  float rate_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Client> client_;
  std::optional<StepTickets> tickets_;
  std::vector<Chunk> chunks_;
  std::vector<int> missing_;    // how many replies have not come, by unit
  Tensor centre_;               // as it was read last; empty before
  bool centre_is_new_ = false;  // it was read after the latest step
  bool finished_ = false;
};

/// A worker computes steps up to its next exchange, which happens range by range as the record
/// says; it goes on once the exchange of every range has come back.
class ElasticDefinition final : public Elastic {
 public:
  ElasticDefinition(const RankContext& context, const PsOptions& options)
      : Elastic(context, options, context.plan.defines),
        rate_(static_cast<float>(moving_rate_of(options, context.plan.defines))),
        walk_(context.plan.history, context.plan.defines),
        workers_(static_cast<std::size_t>(context.plan.defines)) {}

  void attach(Model& model) override {
    LocalReplicas::attach(model);
    Device& device = context().device;
    centre_ = device.tensor({model.parameter_count()}, MemoryKind::parameter);
    const auto initial = initial_values(context());
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      const std::int64_t first = model.first_parameter(u);
      initial->write(*model.units[u], first, 0,
                     centre_.range(first, model.units[u]->layout().count()));
    }
    for (Worker& worker : workers_) {
      worker.centre = parameters_like_replicas(MemoryKind::workspace);
      worker.exchanges.resize(walk_.ranges());
    }
  }

  std::optional<StepAssignment> next_assignment(std::int64_t) override {
    const std::int64_t each = context().plan.train.accumulation / own_replicas();
    walk_.go_on([this](std::size_t range, const RangeEvent& event) { repeat(range, event); });
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      Worker& worker = workers_[w];
      if (!walk_.has_read(w)) continue;
      const std::int64_t first = static_cast<std::int64_t>(w) * each;
      if (std::exchange(worker.evaluates, false))
        return StepAssignment{worker.steps - 1, first, each, false, true};
      if (worker.steps == walk_.pushes(w) * options().communication_period) continue;
      computing_ = w;
      return StepAssignment{worker.steps, first, each, true, false};
    }
    walk_.check_end();
    return {};
  }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass&) override {
    return loader.read(slice);
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    if (pass.training) return LocalReplicas::before_forward(unit, pass);
    const std::int64_t each = pass.micro_batches / own_replicas();
    bind(unit, workers_[static_cast<std::size_t>(pass.micro_batch / each)].centre);
  }

  bool step(const StepInfo& info) override {
    update(static_cast<int>(computing_), info);
    Worker& worker = workers_[computing_];
    ++worker.steps;
    worker.evaluates = evaluates_after(context().plan.train, info.step);
    if (exchanges_after(info.step)) {
      walk_.offer(computing_);
      walk_.ask(computing_);
    }
    if (worker.evaluates) walk_.ask(computing_);
    return true;
  }

  void visit_parameters(const ParameterVisitor& visitor) override {
    kernels().cast({.in = centre_, .out = workers_[0].centre});
    visit(workers_[0].centre, visitor);
  }

 private:
  struct Worker {
    std::int64_t steps = 0;
    bool evaluates = false;         // after its latest step, once it has read the centre
    Tensor centre;                  // as the worker read it last
    std::vector<Tensor> exchanges;  // by range: the server's reply; empty otherwise
  };

  /// The rule: d = x - c, c += a * d, and, once the worker reads, x -= a * d.
  void repeat(std::size_t range, const RangeEvent& event) {
    const auto& [begin, count, text, cut] = context().plan.history[range];
    const Tensor centre = centre_.range(begin, count);
    const Tensor own = values(event.worker).range(begin, count);
    Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
    Tensor& exchange = worker.exchanges[range];
    const auto add = [this](const Tensor& to, float factor, const Tensor& in) {
      kernels().blend({.in = in, .out = to, .in_scale = factor, .out_scale = 1});
    };
    if (event.kind == RangeEvent::Kind::accepted) {
      exchange = context().device.tensor({count}, MemoryKind::workspace);
      kernels().copy({.in = own, .out = exchange});
      add(exchange, -1, centre);
      add(centre, rate_, exchange);
    } else if (event.kind == RangeEvent::Kind::read && exchange) {
      add(own, -rate_, exchange);
      round_parameters(event.worker, begin, count);
      exchange = {};
    } else if (event.kind == RangeEvent::Kind::read) {
      kernels().cast({.in = centre, .out = worker.centre.range(begin, count)});
    }
  }

  float rate_;
  ReplayOrder walk_;
  std::vector<Worker> workers_;
  Tensor centre_;
  std::size_t computing_ = 0;
};

}  // namespace

std::unique_ptr<SyncScheme> make_easgd(const RankContext& context, const PsOptions& options) {
  return std::make_unique<Easgd>(context, options);
}

std::unique_ptr<SyncScheme> define_easgd(const RankContext& context, const PsOptions& options) {
  return std::make_unique<ElasticDefinition>(context, options);
}

}  // namespace ringside::ps
