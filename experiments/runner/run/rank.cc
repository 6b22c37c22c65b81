#include "experiments/runner/run/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/comm/store.h"
#include "core/device/sim/sim_device.h"
#include "core/device/sim/timed_operations.h"
#include "core/device/timed_device.h"
#include "core/observe/rank_record.h"
#include "core/plan/places.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/registry/model_borders.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/mesh_rank.h"
#include "experiments/runner/run/rank_links.h"
#include "experiments/runner/run/rank_parts.h"
#include "experiments/runner/run/saved_weights.h"
#include "experiments/runner/run/timed_flats.h"
#include "experiments/runner/run/timed_steps.h"

namespace ringside::runner {
namespace {

std::vector<sim::TimedOperation> as_recorded(const std::vector<TimedOp>& ops, bool tf32) {
  std::vector<sim::TimedOperation> out;
  for (const TimedOp& op : ops)
    out.push_back(sim::timed_operation(op.cost, op.seconds + op.before, tf32));
  return out;
}

/// Timing of a rank's operations (Purpose::timing). Ranks wait for each other through the store
/// before their measured steps and before each kind of pieces, but not in between: ranks that began
/// every step together would all use the memory at the same moments, unlike ranks of a run. For the
/// thread that trains.
class RankTimer {
 public:
  /// All arguments outlive this object.
  RankTimer(TimedDevice& device, const RunPlan& plan, int rank, Store& store)
      : device_(device), steps_(device), plan_(plan), rank_(rank), store_(store) {}

  /// Call end_step() when `done` steps are done and begin_step() when the next one begins; the time
  /// in between belongs to no operation.
  void end_step(std::int64_t done) { steps_.end(done > plan_.train.warmup); }
  void begin_step(std::int64_t done);
  /// Adds the times to the record of a rank that has trained. The first repeat of a run times
  /// pieces of the model too (experiments/runner/run/timed_flats.h).
  void finish(RankRecord& record);

 private:
  void meet();

  TimedDevice& device_;
  TimedSteps steps_;
  const RunPlan& plan_;
  const int rank_;
  Store& store_;
  int meetings_ = 0;
};

void RankTimer::begin_step(std::int64_t done) {
  if (done == plan_.train.warmup) meet();
  steps_.begin();
}

void RankTimer::finish(RankRecord& record) {
  const bool tf32 = plan_.device.tf32;
  record.operations = as_recorded(steps_.take_medians(), tf32);
  if (plan_.repeat == 0)
    record.pieces =
        as_recorded(time_flats(plan_, device_, record.parameters, [this] { meet(); }), tf32);
}

void RankTimer::meet() {
  const auto key = [this](std::size_t rank) {
    return fmt::format("timing/{}/{}", meetings_, rank);
  };
  const std::size_t ranks = plan_.ranks.size();
  if (ranks > 1) {
    store_.set(key(static_cast<std::size_t>(rank_)), "");
    for (std::size_t r = 0; r < ranks; ++r) store_.get(key(r), plan_.train.timeout_s);
  }
  ++meetings_;
}

/// Makes the communicator in which this worker's batch norms share their statistics, and gives it
/// to the units. Returns null if the batch norms use this worker's rows alone, or if the rank
/// stands for all workers of a group.
std::unique_ptr<Communicator> join_batch_norms(const RankContext& context, Model& model) {
  const RunPlan& plan = context.plan;
  const auto size = static_cast<int>(plan.model.batch_norm_group);
  const bool any = std::any_of(model.units.begin(), model.units.end(),
                               [](const auto& unit) { return !unit->statistics().empty(); });
  if (size == 1 || plan.world == 1 || !any) return nullptr;
  const int worker = context.self().worker;
  auto group =
      context.communicator({fmt::format("batch-norm-{}", worker / size), worker % size, size});
  for (auto& unit : model.units) unit->join(group.get());
  return group;
}

/// Does `work`. If it throws, reports the error to the listener at once, and throws again.
RankRecord heard(const RankListener& listener, const std::function<RankRecord()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    listener.error(error_text(error));
    throw;
  }
}

/// A server colocated with a worker, on the same device. It runs in a thread of its own, or, in a
/// simulated world, as an actor of its own.
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
  if (record.checkpoints && serving.checkpoints) {
    CheckpointCost& both = *record.checkpoints;
    both.bytes += serving.checkpoints->bytes;
    both.stall_s += serving.checkpoints->stall_s;
    both.write_s = std::max(both.write_s, serving.checkpoints->write_s);
    if (both.failure.empty()) both.failure = std::move(serving.checkpoints->failure);
  }
  record.slices.insert(record.slices.end(), std::make_move_iterator(serving.slices.begin()),
                       std::make_move_iterator(serving.slices.end()));
}

}  // namespace

RankRecord run_rank(const RunPlan& plan, int rank, const RankSite& site,
                    const RankListener& listener, const SchemeInfo* row) {
  const RankPlan& self = plan.ranks.at(static_cast<std::size_t>(rank));
  const SchemeInfo& scheme_row = row ? *row : find_scheme(plan.scheme);
  std::unique_ptr<Device> device =
      find_device(device_kind(plan, self)).make(plan, rank, site.world);
  if (plan.purpose == Purpose::links) {
    Timeline timeline(*device);
    return heard(listener, [&] {
      return time_links({.plan = plan,
                         .rank = rank,
                         .device = *device,
                         .store = site.store,
                         .timeline = timeline,
                         .links = find_device(plan.device.kind).links,
                         .program = site.program});
    });
  }
  std::optional<RankTimer> timer;
  if (plan.purpose == Purpose::timing) {
    auto timed = std::make_unique<TimedDevice>(std::move(device));
    timer.emplace(*timed, plan, rank, site.store);
    device = std::move(timed);
  }
  MeshRank mesh(plan, rank, site.store, site.world);
  Model whole_model = make_model(plan.model, *device);
  const auto whole_values = initial_weights(plan, whole_model);
  Model model = mesh.part_of(std::move(whole_model));
  const Datasets own_data =
      site.data ? Datasets() : find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  const Datasets& data = site.data ? *site.data : own_data;
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
  const auto context_of = [&](const RunPlan& of, int number, Store& store,
                              std::shared_ptr<const InitialValues> values) {
    return RankContext{
        of,           number,       *device,           store,
        timeline,     &shared,      std::move(values), find_device(plan.device.kind).links,
        host.get(),   site.program, site.own_process,  site.interruption,
        listener.beat};
  };
  const RankContext whole = context_of(plan, rank, site.store, whole_values);
  RankContext context =
      context_of(mesh.plan(), mesh.rank(), mesh.store(), mesh.values_of(whole_values, model));
  const auto pipeline = mesh.pipeline(whole);
  context.pipeline = pipeline.get();
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
      std::optional<Beats> beats;
      if (listener.beat) beats.emplace(timeline, Beats::Of::worker, listener.beat);
      record = heard(listener, [&] {
        RankRecord trained = trainer.run([&](const Progress& progress) {
          if (timer) timer->end_step(progress.step);
          listener.progress(progress);
          if (beats) beats->note_progress();
          if (timer) timer->begin_step(progress.step);
        });
        if (trained.left) return trained;
        if (timer) timer->finish(trained);
        save_weights(context, model, *scheme);
        return trained;
      });
    }
    if (server) add_serving(record, server->join());
  }
  record.rank = rank;
  record.role = self.role();
  note_run(record, mesh.plan(), scheme_row, model, training);
  if (pipeline) {
    // The busiest rank of a scheme with servers may be one of these, which send nothing over
    // borders.
    const double own =
        border_bytes(plan, pipeline->schedule(), pipeline->borders(), pipeline->rank());
    double& least = record.minimum_bytes_per_step;
    least = plan.servers > 0 ? std::max(least, own) : least + own;
  }
  return record;
}

std::vector<RankRecord> run_ranks_as_threads(const RunPlan& plan, const SchemeInfo* row) {
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

}  // namespace ringside::runner
