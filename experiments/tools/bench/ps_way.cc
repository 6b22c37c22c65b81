#include "experiments/tools/bench/ps_way.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/nearest.h"
#include "experiments/tools/bench/ps_values.h"
#include "ps/protocol/parameter_server.h"
#include "ps/protocol/server_loop.h"
#include "ps/schemes/connect.h"

namespace ringside::tools::bench {
namespace {

/// The bench itself looks after its ranks. For a server a worker may be silent for longer: while
/// other ways have their turns.
constexpr double patience_of_servers = 1000;
constexpr std::int64_t most_rounds = 1 << 30;

/// A unit that has parameters and computes nothing.
class ParametersOnly : public Unit {
 public:
  ParametersOnly(std::string name, std::int64_t count, Device& device)
      : Unit(std::move(name), device) {
    declare().add("values", {count}, {});
  }
  Tensor forward(const Tensor&, const Pass&, Saved&) override {
    throw Error("{} computes nothing", name());
  }
  Tensor backward(const Tensor&, Saved&) override { throw Error("{} computes nothing", name()); }
};

Model model_of(const PsRoles& roles, std::int64_t count, Device& device) {
  Model model;
  for (int server = 0; server < roles.servers; ++server)
    model.units.push_back(std::make_unique<ParametersOnly>(fmt::format("part {}", server),
                                                           count / roles.servers, device));
  return model;
}

RunPlan plan_of(const PsRoles& roles, const ps::PsOptions& way) {
  RunPlan plan;
  plan.scheme = "ps";
  plan.options = way;
  plan.world = roles.workers;
  plan.servers = roles.servers;
  plan.train.steps = most_rounds;
  plan.train.warmup = most_rounds;  // servers keep no times of their own
  plan.train.timeout_s = roles.timeout_s;
  // What makes replies plain sums: see ps_values.h.
  plan.optimizer.kind = "sgd";
  plan.optimizer.lr = 1;
  plan.optimizer.momentum = 0;
  plan.optimizer.weight_decay = 1;
  PsRoles other = roles;
  for (other.rank = 0; other.rank < roles.ranks(); ++other.rank)
    plan.ranks.push_back(
        {.rank = other.rank, .worker = other.works() ? other.rank : -1, .server = other.server()});
  return plan;
}

RunPlan serving(RunPlan plan) {
  plan.train.timeout_s *= patience_of_servers;
  return plan;
}

template <NamedEnum Enum>
Enum named(std::string_view what, std::string_view name) {
  if (const auto value = value_named<Enum>(name)) return *value;
  throw Error("{} {}: unknown; choose {}", what, name, one_of(names_of(Enum{})));
}

}  // namespace

int PsRoles::server() const {
  if (placement == ps::Placement::dedicated) return rank < workers ? -1 : rank - workers;
  return rank < servers ? rank : -1;
}

std::string PsRoles::name() const {
  if (!works()) return fmt::format("server {}", server());
  return server() < 0 ? fmt::format("worker {}", rank)
                      : fmt::format("worker {} with server {}", rank, server());
}

std::vector<std::string> names_of_ranks(PsRoles roles) {
  std::vector<std::string> names;
  for (roles.rank = 0; roles.rank < roles.ranks(); ++roles.rank) names.push_back(roles.name());
  return names;
}

std::string name_of_way(const ps::PsOptions& options) {
  return fmt::format("{}/{}", name_of(options.transport), name_of(options.consistency));
}

ps::PsOptions ps_way_named(std::string_view name) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  ps::PsOptions options;
  options.transport = named<decltype(options.transport)>("transport", name.substr(0, slash));
  options.consistency =
      named<ps::Consistency>("consistency", name.substr(std::min(name.size(), slash + 1)));
  return options;
}

PsWay::PsWay(const PsRoles& roles, const ps::PsOptions& way, std::int64_t count, Device& device,
             const Links& links, std::unique_ptr<Store> store)
    : way_(way),
      partition_bytes_(roles.partition_bytes),
      transport_options_{.transport = way.transport,
                         .address = roles.reach.address,
                         .advertise = roles.reach.advertise,
                         .keys = roles.reach.keys,
                         .max_frame_bytes = std::max(ps::max_chunk_bytes, roles.partition_bytes),
                         .timeout_s = roles.timeout_s},
      plan_(plan_of(roles, way)),
      serving_plan_(serving(plan_)),
      device_(device),
      store_(std::move(store)),
      timeline_(device),
      context_{plan_, roles.rank, device_, *store_, timeline_, &shared_, {}, links},
      serving_context_{serving_plan_, roles.rank, device_, *store_, timeline_, &shared_, {}, links},
      model_(model_of(roles, count, device)),
      transport_(links.transport<ps::Transport>()) {
  context_.program = serving_context_.program = roles.program;
  if (roles.server() >= 0)
    server_ = std::jthread([this, connection = transport_->listen(context_, transport_options_)] {
      serve(connection);
    });
}

void PsWay::connect() {
  client_ = ps::connect(context_, *transport_, transport_options_);
  replica_.emplace(model_, context_);
  link_.emplace(model_, *replica_, context_, *client_, chunks(), ps::ChunkCompression{});
}

PsWay::~PsWay() { client_.reset(); }

/// If a server fails, the workers that have come are told why; the bench hears of it from them or
/// from check_server().
void PsWay::serve(const ps::Connection& connection) {
  try {
    ps::ServerConfig config = ps::server_config(serving_context_, connection.token);
    config.rules = ps::rules_of(way_);
    ps::ParameterServer server(model_, chunks(), device_, config);
    ps::serve(serving_context_, *connection.channel, server, model_.parameter_count());
  } catch (const std::exception& error) {
    std::lock_guard lock(failure_mutex_);
    failure_ = error_text(error);
  }
}

void PsWay::check_server() const {
  std::lock_guard lock(failure_mutex_);
  if (!failure_.empty()) throw Error("server {}: {}", context_.self().server, failure_);
}

void PsWay::fill() {
  check_round();
  if (rounds_ > 0) timeline_.end_step();
  timeline_.begin_step();
  fill_gradient(replica_->gradients().span<float>(), context_.self().worker, rounds_);
}

void PsWay::push_pull() {
  for (std::size_t unit = 0; unit < model_.units.size(); ++unit) link_->push_pull(unit, rounds_);
  for (std::size_t unit = 0; unit < model_.units.size(); ++unit) link_->wait_for(unit);
  ++rounds_;
  unchecked_ = true;
}

std::int64_t PsWay::count_wrong() {
  check_round();
  return std::exchange(wrong_, 0);
}

void PsWay::check_round() {
  if (!std::exchange(unchecked_, false)) return;
  for (const ps::Chunk& chunk : chunks())
    wrong_ +=
        count_wrong_values(replica_->parameters().range(chunk.begin, chunk.count).span<float>(),
                           chunk.begin, rounds_ - 1, plan_.world, way_.consistency);
}

}  // namespace ringside::tools::bench
