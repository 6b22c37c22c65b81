#include "experiments/run/rank.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/explain.h"
#include "core/device/sim/sim_device.h"
#include "core/interchange/weights.h"
#include "core/plan/places.h"
#include "core/plan/slices.h"
#include "experiments/registry/registry.h"
#include "experiments/run/model_work.h"
#include "experiments/run/rank_timer.h"

namespace ringside {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The number of tokens of the longest sample.
double most_tokens(const RunPlan& plan, const Model& model) {
  return static_cast<double>(model.task == Task::target_tokens ? model.input.count()
                                                               : plan.model.context);
}

/// The mean number of tokens of a sample of the measured steps; 0 for images. What only fills
/// samples up does not count.
double tokens_per_sample(const RunPlan& plan, const Model& model, const Loader& training) {
  if (model.task == Task::image_class) return 0;
  const TrainConfig& train = plan.train;
  std::int64_t sum = 0;
  for (std::int64_t step = train.warmup; step < train.steps; ++step)
    sum += training.targets({step, 0, train.global_batch});
  if (sum == 0) return most_tokens(plan, model);
  return static_cast<double>(sum) /
         static_cast<double>((train.steps - train.warmup) * train.global_batch);
}

/// `tokens` is the mean number of tokens of a sample, 0 for images.
StepShape step_shape(const RunPlan& plan, const Model& model, double tokens) {
  // Samples that differ in length need not be filled up to be sent.
  const double filled = tokens > 0 ? tokens / most_tokens(plan, model) : 1;
  const auto element = static_cast<std::int64_t>(size_of(parameter_dtype(plan.train)));
  const auto reduced = static_cast<std::int64_t>(size_of(reduce_dtype(plan.train)));
  std::int64_t lent = 0;
  for (const auto& unit : model.units)
    if (unit->lender()) lent += unit->lender()->layout().count();
  std::int64_t others = 0;
  for (int worker = 1; worker < plan.world; ++worker)
    others = std::max(others, samples_of(plan, worker));
  return {.world = plan.world,
          .servers = plan.servers,
          .micro_batches = plan.train.accumulation,
          .reductions = plan.train.reduce == Reduce::every ? plan.train.accumulation : 1,
          .parameters = model.parameter_count(),
          .parameter_bytes = element * model.parameter_count(),
          .gradient_bytes = reduced * model.parameter_count(),
          .lent_bytes = element * lent,
          .first_samples = samples_of(plan, 0),
          .other_samples = others,
          .samples = plan.train.global_batch,
          .input_bytes = std::llround(filled * static_cast<double>(model.input_bytes())),
          .logit_bytes =
              std::llround(filled * static_cast<double>(element * model.logits_per_sample()))};
}

/// Makes the communicator in which this worker's batch norms share their statistics, and gives it
/// to the units. Returns null if the batch norms use this worker's rows alone.
std::unique_ptr<Communicator> join_batch_norms(const RankContext& context, Model& model) {
  const RunPlan& plan = context.plan;
  const auto size = static_cast<int>(plan.model.batch_norm_group);
  const bool any = std::any_of(model.units.begin(), model.units.end(),
                               [](const auto& unit) { return !unit->statistics().empty(); });
  if (size == 1 || !any) return nullptr;
  const int worker = context.self().worker;
  auto group =
      context.communicator({fmt::format("batch-norm-{}", worker / size), worker % size, size});
  for (auto& unit : model.units) unit->join(group.get());
  return group;
}

/// Opens the file with the initial values of the parameters, and sets the units' running statistics
/// from it. Returns null if the plan names no file: then the plan's seed draws the values.
std::shared_ptr<const InitialValues> initial_weights(const RunPlan& plan, const Model& model) {
  if (plan.train.initial_weights.empty()) return nullptr;
  auto values = open_weights(plan.train.initial_weights, model, plan.model);
  for (const auto& unit : model.units) values->write_statistics(*unit);
  return values;
}

/// Writes the trained weights of replica 0 if the plan asks for that. Collective: all workers call
/// it, and worker 0 writes.
void save_weights(const RunPlan& plan, int worker, const Model& model, SyncScheme& scheme) {
  if (plan.save.empty()) return;
  std::optional<WeightsFile> file;
  if (worker == 0) file.emplace(plan.save, model, plan.model, parameter_dtype(plan.train));
  scheme.visit_parameters([&](int replica, const Unit& unit, const Tensor& values) {
    if (replica == 0) file->add(unit, values);
  });
  if (file) file->finish(plan.train.steps);
}

/// Does `work`. If it throws, tells the listener at once, and throws again.
RankRecord heard(const RankListener& listener, const std::function<RankRecord()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    listener.error(explain(error));
    throw;
  }
}

/// A server beside a worker, on the same device. It runs in a thread of its own, or, in a simulated
/// world, as an actor of its own.
class Companion {
 public:
  Companion(sim::World* world, sim::Place place, const std::string& name,
            std::function<RankRecord()> serve)
      : world_(world), serve_(std::move(serve)) {
    if (!world_) {
      thread_ = std::jthread([this] { run(); });
      return;
    }
    ended_ = world_->make_event();
    world_->spawn(name, place, [this] {
      run();
      done_ = true;
      ended_->notify_all();
    });
  }
  ~Companion() { wait(); }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  /// Blocks until the server has ended, and returns its record. Throws what the server threw.
  RankRecord join() {
    wait();
    if (error_) std::rethrow_exception(error_);
    return std::move(record_);
  }

 private:
  void run() {
    try {
      record_ = serve_();
    } catch (const std::exception&) {
      error_ = std::current_exception();
    }
  }
  /// Blocks until the server has ended. It ends after its worker, even if the worker fails.
  void wait() {
    constexpr double look_again_s = 3600;
    while (world_ && !done_) ended_->wait(look_again_s);
    if (thread_.joinable()) thread_.join();
  }

  sim::World* world_;
  std::function<RankRecord()> serve_;
  RankRecord record_;
  std::exception_ptr error_;
  std::unique_ptr<sim::Event> ended_;
  bool done_ = false;
  std::jthread thread_;
};

/// Adds the server's figures to the worker's record, for a rank that both works and serves.
void add_serving(RankRecord& record, RankRecord serving) {
  record.serving_optimizer_ms = serving.serving_optimizer_ms;
  record.bytes_sent_per_step += serving.bytes_sent_per_step;
  record.bytes_received_per_step += serving.bytes_received_per_step;
  record.bytes_computed = record.bytes_computed || serving.bytes_computed;
  record.staleness = std::move(serving.staleness);
  record.history = std::move(serving.history);
  record.slices.insert(record.slices.end(), std::make_move_iterator(serving.slices.begin()),
                       std::make_move_iterator(serving.slices.end()));
}

}  // namespace

RankRecord run_rank(const RunPlan& plan, int rank, const RankSite& site,
                    const RankListener& listener, const SchemeRow* row) {
  const RankPlan& self = plan.ranks.at(static_cast<std::size_t>(rank));
  const SchemeRow& scheme_row = row ? *row : find_scheme(plan.scheme);
  std::unique_ptr<Device> device =
      find_device(device_kind(plan, self)).make(plan, rank, site.world);
  std::optional<RankTimer> timer;
  if (plan.purpose == Purpose::timing) {
    auto timed = std::make_unique<TimedDevice>(std::move(device));
    timer.emplace(*timed, plan, rank, site.store);
    device = std::move(timed);
  }
  Model model = find_model(plan.model.kind).make(plan.model, *device);
  const Datasets data = find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  std::unique_ptr<HostSide> host;
  if (plan.train.offload != Offload::none && self.worker >= 0)
    host = find_device(device_kind(plan, self)).host_side(plan, rank, *device);
  const auto seed = static_cast<std::uint64_t>(plan.train.seed);
  const auto reading = site.world ? Loader::Reading::when_asked : Loader::Reading::ahead;
  const Loader training(*data.training, *device, plan.train.global_batch, seed, reading);
  std::optional<Loader> held_out;
  if (data.held_out && plan.train.evaluate_every > 0)
    held_out.emplace(*data.held_out, *device, plan.train.global_batch, seed);

  Timeline timeline(*device);
  Shared shared;
  const RankContext context{plan,
                            rank,
                            *device,
                            site.store,
                            timeline,
                            &shared,
                            initial_weights(plan, model),
                            find_device(plan.device.kind).links,
                            host.get(),
                            site.program};
  const auto serve = [&] {
    return heard(listener,
                 [&] { return scheme_row.serve(context, plan.options, model, training); });
  };

  RankRecord record;
  if (self.worker < 0) {
    record = serve();
  } else {
    std::optional<Companion> server;
    if (self.server >= 0 && site.world) sim::sim_device(*device).share();
    if (self.server >= 0)
      server.emplace(site.world, site.world ? place_of(plan, rank) : sim::Place{},
                     fmt::format("server {}", self.server), serve);
    {
      const auto batch_norms = join_batch_norms(context, model);
      const auto scheme = plan.defines > 0 ? scheme_row.define(context, plan.options)
                                           : scheme_row.make(context, plan.options);
      Trainer trainer(context, model, *scheme, training, held_out ? &*held_out : nullptr);
      record = heard(listener, [&] {
        RankRecord trained = trainer.run([&](const Progress& progress) {
          if (timer) timer->end_step(progress.step);
          listener.progress(progress);
          if (timer) timer->begin_step(progress.step);
        });
        if (timer) timer->finish(trained);
        save_weights(plan, self.worker, model, *scheme);
        return trained;
      });
    }
    if (server) add_serving(record, server->join());
  }
  record.rank = rank;
  record.role = self.role();
  record.host = host_name();
  record.tokens_per_sample = tokens_per_sample(plan, model, training);
  if (rank == 0)
    record.work =
        work_of_sample(plan, model.task == Task::image_class ? 0 : most_tokens(plan, model));
  if (plan.defines == 0)  // a definition is one rank, and sends nothing
    record.minimum_bytes_per_step =
        scheme_row.minimum_bytes(plan.options, step_shape(plan, model, record.tokens_per_sample));
  return record;
}

std::vector<RankRecord> run_ranks_as_threads(const RunPlan& plan, const SchemeRow* row) {
  MemoryStore store;
  std::vector<RankRecord> records(plan.ranks.size());
  std::vector<std::exception_ptr> errors(plan.ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          records[r] = run_rank(plan, static_cast<int>(r), {store},
                                {[](const Progress&) {}, [](const std::string&) {}}, row);
        } catch (...) {
          errors[r] = std::current_exception();
        }
      });
  }
  for (std::size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r]) continue;
    try {
      std::rethrow_exception(errors[r]);
    } catch (const std::exception& error) {
      throw Error("rank {}: {}", r, error.what());
    }
  }
  return records;
}

}  // namespace ringside
