#include "ps/schemes/ps.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/device_traits.h"
#include "core/plan/worlds.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/easgd.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/ps_parts.h"
#include "ps/schemes/replica_scheme.h"
#include "ps/schemes/server_scheme.h"
#include "ps/schemes/sum_group.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

/// Bulk synchronous: when a worker begins a step, its values have all workers' gradients of the
/// step before.
class Ps : public ReplicaScheme {
 public:
  Ps(const RankContext& context, const PsOptions& options)
      : ReplicaScheme(context),
        options_(options),
        barrier_(options.pull == Pull::barrier),
        in_rounds_(rounds_of(context.plan.optimizer, skips_steps(context.plan.train)) > 0) {}

  void before_forward(std::size_t unit, const Pass&) override { link().wait_for(unit); }
  void after_backward(std::size_t unit, const Pass& pass) override {
    ReplicaScheme::after_backward(unit, pass);
    client().progress();
  }

  /// The first unit's gradient is sent last and its values are needed first, so waiting here until
  /// all gradients have been sent loses nothing.
  bool step(const StepInfo& info) override {
    client().flush();
    const bool finite = ReplicaScheme::step(info);
    if (barrier_) client().sum({});
    if (in_rounds_ || barrier_) link().pull(steps());
    if (barrier_) client().drain();
    return finite;
  }

 protected:
  /// If the optimizer updates only after sums over the whole model, this sends gradients without
  /// asking for new values: the requests would stay without a reply and fill the client's window.
  /// step() asks for these values after the sums, and after the barrier where there is one.
  void push(std::size_t unit, std::int64_t step) override {
    if (in_rounds_ || barrier_)
      link().push(unit, step);
    else
      link().push_pull(unit, step);
  }
  const PsOptions& options() const { return options_; }
  int group() const override { return sum_group_of(options_, context().plan.world); }
  ChunkCompression compression() const override { return compression_of(options_, context().plan); }
  /// All workers have read the same codes.
  ReplicaLink::OwnValues own_values() const override {
    const bool codes = options_.pull_compressor != no_compressor;
    return {codes, codes, codes};
  }

 private:
  TransportOptions transport_options(const Model&) const override {
    return ringside::ps::transport_options(context(), options_);
  }

  std::vector<Chunk> chunks(const Model& model) const override {
    return chunks_of(model, context().plan.world, options_);
  }

  PsOptions options_;
  bool barrier_;    // values are read within the step, once all workers have pushed
  bool in_rounds_;  // the optimizer needs sums over the model before it updates
};

/// Bulk synchronous, with workers that push in groups. All members of a group begin sums and
/// gatherings in one order, because a step's sums, from the last unit to the first, have all begun
/// before the values of the first unit can come, and values are gathered from the first unit on.
/// An exchange within a group never depends on a later reply of a server, so the worker that is
/// furthest behind can always go on.
class GroupedPs final : public Ps {
 public:
  using Ps::Ps;

  void attach(Model& model) override {
    Ps::attach(model);
    group_.emplace(context(), model, replica(), group());
    gathers_.resize(model.units.size());
    gathered_ = gathers_.size();
  }

  void before_forward(std::size_t unit, const Pass&) override {
    gather_until(unit);
    gathers_[unit].wait(context().timeline);
  }
  void after_forward(std::size_t unit, const Pass& pass) override {
    Ps::after_forward(unit, pass);
    push_sums();
    while (gathered_ < gathers_.size() && link().has_come(gathered_)) gather();
  }
  bool step(const StepInfo& info) override {
    while (!sums_.empty()) push_first();
    const bool finite = Ps::step(info);
    gathered_ = 0;
    return finite;
  }
  void drain() override {
    Ps::drain();
    gather_until(gathers_.size() - 1);
    for (SumGroup::Exchange& gather : gathers_) gather.wait(context().timeline);
  }
  void restored(std::int64_t skipped) override {
    Ps::restored(skipped);
    gathered_ = 0;
    drain();
  }

  Traffic traffic() const override {
    return group_ ? Ps::traffic() + group_->traffic() : Ps::traffic();
  }
  std::vector<SchemeFigure> figures() const override {
    const auto steps = static_cast<double>(context().plan.train.steps);
    return {
        {"sent to servers", "MB a step", 1e-6 * static_cast<double>(Ps::traffic().sent) / steps}};
  }

 private:
  /// A gradient that is being added up, and the push that follows.
  struct AddedUp {
    std::size_t unit = 0;
    std::int64_t step = 0;
    std::optional<std::int64_t> micro_batch;  // none: the last one of the step
    SumGroup::Exchange exchange;
  };
  /// The number of sums of units that may be under way in backward before a worker waits for the
  /// oldest. A host that runs ahead of its device would see none of them end before the end of
  /// backward.
  static constexpr std::size_t most_sums = 2;

  void push(std::size_t unit, std::int64_t step) override { add_up(unit, step, {}); }
  void push_part(std::size_t unit, std::int64_t step, std::int64_t micro_batch) override {
    add_up(unit, step, micro_batch);
  }
  void free_gradients(std::size_t unit) override {
    while (std::ranges::any_of(sums_, [&](const AddedUp& sum) { return sum.unit == unit; }))
      push_first();
    Ps::free_gradients(unit);
  }

  void add_up(std::size_t unit, std::int64_t step, std::optional<std::int64_t> micro_batch) {
    sums_.push_back({unit, step, micro_batch, group_->add_up(unit)});
    push_sums();
  }
  void push_sums() {
    while (!sums_.empty() && (sums_.size() > most_sums || sums_.front().exchange.ready()))
      push_first();
  }
  void push_first() {
    AddedUp sum = std::move(sums_.front());
    sums_.pop_front();
    sum.exchange.wait(context().timeline);
    if (sum.micro_batch)
      Ps::push_part(sum.unit, sum.step, *sum.micro_batch);
    else
      Ps::push(sum.unit, sum.step);
  }

  /// Begins to gather the next unit, of which this worker has its own part.
  void gather() {
    gathers_[gathered_] = group_->gather(gathered_);
    ++gathered_;
  }
  void gather_until(std::size_t unit) {
    while (gathered_ <= unit) {
      link().wait_for(gathered_);
      gather();
    }
  }

  std::optional<SumGroup> group_;
  std::deque<AddedUp> sums_;                 // in the order in which they began
  std::vector<SumGroup::Exchange> gathers_;  // by unit
  std::size_t gathered_ = 0;                 // units whose gathering has begun since the last step
};

/// Workers may hold different values: asp, ssp, and bsp with backup workers.
class FreePs : public Ps {
 public:
  using Ps::Ps;

  /// Workers begin together: one that starts sooner should not train alone for a while. A process
  /// that takes a seat later reads all values, and begins with the steps that come next there.
  void attach(Model& model) override {
    Ps::attach(model);
    if (process_in_seat(context().plan) == 0)
      client().sum({});
    else
      join();
    if (!over_) course_.emplace(context(), client(), !shares_steps(), 1);
  }

  bool says_when_to_save() const override { return true; }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (over_) return {};
    auto [steps, saves] = course_->next(begun_ + done);
    if (saves) return saves;
    if (steps == 0) return {};
    return assignment(done);
  }

  std::int64_t gradient_batch() const override {
    return ringside::ps::gradient_batch(context().plan, context().plan.world, rules_of(options()));
  }
  int own_replicas() const override { return 1; }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (!finished_) {
      finished_ = true;
      client().finish();
      if (client().worker() == 0) link().peek();
      client().drain();
    }
    if (client().worker() == 0) link().visit(visit);
  }

 protected:
  /// The next assignment of a process that has done so many.
  StepAssignment assignment(std::int64_t done) const {
    return {.step = begun_ + done, .micro_batches = context().plan.train.accumulation};
  }
  bool is_over() const { return over_; }
  /// Between two steps a worker may have older values than servers, which may hold these too.
  ReplicaLink::OwnValues own_values() const override {
    return {true, false, Ps::own_values().shown || options().delay_compensation > 0};
  }

 private:
  /// The run ends after a number of steps of any workers.
  bool shares_steps() const {
    return options().consistency == Consistency::asp && !options().equal_steps;
  }

  void join() {
    const std::optional<std::int64_t> first = client().join();
    over_ = !first;
    begun_ = first.value_or(0);
    if (over_) return;
    link().read_anew(begun_);
    client().drain();
  }

  std::optional<WorkerCourse> course_;
  std::int64_t begun_ = 0;  // the first step of this process
  bool over_ = false;       // the process came when the run was over
  bool finished_ = false;
};

/// A worker whose gradients came too late goes on with the newest values, so it does fewer steps.
class BackupPs final : public FreePs {
 public:
  using FreePs::FreePs;

  void attach(Model& model) override {
    FreePs::attach(model);
    meetings_.emplace(context(), client());
  }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (is_over()) return {};
    number_ = link().newest_version();
    const StepAssignment next = assignment(done);
    if (auto saves = meetings_->before_step(number_, next.step)) return saves;
    if (meetings_->is_over()) return {};
    if (number_ >= context().plan.train.steps) return {};
    return next;
  }
  /// Waits within the step for all values, of which the newest one decides what comes next.
  bool step(const StepInfo& info) override {
    const bool finite = FreePs::step(info);
    client().drain();
    return finite;
  }

 private:
  void push(std::size_t unit, std::int64_t) override { link().push_pull(unit, number_); }

  std::optional<WorkerMeetings> meetings_;
  std::int64_t number_ = 0;  // of the step's gradients: the newest version read of any range
};

}  // namespace

std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options) {
  if (sum_group_of(options, context.plan.world) > 1)
    return std::make_unique<GroupedPs>(context, options);
  if (is_synchronous(options)) return std::make_unique<Ps>(context, options);
  if (options.consistency == Consistency::easgd) return make_easgd(context, options);
  if (options.backup_workers > 0) return std::make_unique<BackupPs>(context, options);
  return std::make_unique<FreePs>(context, options);
}

RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader&) {
  const auto transport = context.links.transport<Transport>();
  const Connection connection = transport->listen(context, transport_options(context, options));
  ParameterServer server(model, chunks_of(model, context.plan.world, options), context.device,
                         server_config(context, connection.token, options));
  return serve(context, *connection.channel, server, model.parameter_count());
}

double ps_minimum_bytes(const StepShape& shape, const PsOptions& options) {
  if (compresses(options)) return compressed_ps_bytes(shape, options);
  const bool elastic = options.consistency == Consistency::easgd;
  const double parameters = elastic ? 4 * static_cast<double>(shape.parameters) /
                                          static_cast<double>(options.communication_period)
                                    : static_cast<double>(shape.parameter_bytes);
  const double n = shape.world, s = shape.servers, g = sum_group_of(options, shape.world);
  const auto r = static_cast<double>(shape.reductions);
  const double pushed = parameters / g;
  const double within = (g - 1) * pushed * (r + 1);
  if (options.placement == Placement::dedicated)
    return std::max(within + r * pushed, n * pushed / s);
  // The bytes that a rank sends whose server keeps `kept` bytes and whose worker pushes as many of
  // them as possible.
  const auto worker_and_server = [&](double kept) {
    const double own = std::min(kept, pushed);
    return within + r * (pushed - own) + n / g * kept - own;
  };
  if (options.placement == Placement::mixed) {
    const auto shares = shares_of_servers(options.placement, options.servers, shape.world,
                                          sum_group_of(options, shape.world));
    const auto all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const double part = parameters / static_cast<double>(all);
    const double dedicated = options.servers > 0 ? part * static_cast<double>(shares.back()) : 0;
    return std::max(n / g * dedicated,
                    worker_and_server(part * static_cast<double>(shares.front())));
  }
  const double least = worker_and_server(parameters / s);
  return shape.servers < shape.world ? std::max(within + r * pushed, least) : least;
}

SumOrder ps_order(const PsOptions& options, const RunPlan& plan) {
  const int group = sum_group_of(options, plan.world);
  if (group == 1 || device_traits(plan.device.kind).sums_in_library) return SumOrder::of_single;
  return group < plan.world || pushes_a_step(plan.train) > 1 ? SumOrder::own : SumOrder::of_single;
}

SchemeInfo ps_info() {
  using Own = PsOptions;
  auto r = server_scheme<Own>("ps", "parameter servers: each holds and updates a part of the model",
                              make_ps, serve_ps, ps_minimum_bytes);
  r.promise = [](const Options& options) { return promise_of(options.as<Own>()); };
  r.resumes = [](const Options&) { return true; };
  r.expendable = with_own<Own>(expendable_workers);
  r.seats_are_taken_again = [](const Options& options) {
    return !is_synchronous(options.as<Own>());
  };
  r.order = with_own<Own>(ps_order);
  r.define = with_own<Own>(define_ps);
  const std::string all = "scheme.ps.ratio=1";
  r.identities = {{{"scheme.ps.compressor=topk", all}, "single"},
                  {{"scheme.ps.compressor=topk", "scheme.ps.pull_compressor=topk", all}, "single"}};
  const CompressionOptions int8 = {.compressor = "int8", .block = 100};
  r.tried = {
      {"topk", Own{.partition_mb = 0.01, .compression = {.compressor = "topk", .ratio = 0.25}}},
      {"int8_both", Own{.compression = int8, .pull_compressor = "int8"}},
      {"pulls_in_bf16", Own{.pull_compressor = "bf16"}},
      {"asp_onebit", Own{.consistency = Consistency::asp,
                         .partition_mb = 0.01,
                         .compression = {.compressor = "onebit"}}},
      {"asp_int8_both",
       Own{.consistency = Consistency::asp, .compression = int8, .pull_compressor = "int8"}},
      {"asp", Own{.consistency = Consistency::asp}},
      {"asp_compensated", Own{.consistency = Consistency::asp, .delay_compensation = 2}},
      {"ssp", Own{.consistency = Consistency::ssp, .staleness_bound = 1}},
      {"easgd", Own{.consistency = Consistency::easgd, .communication_period = 1}}};
  return r;
}

}  // namespace ringside::ps
