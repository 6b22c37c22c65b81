// Schemes that PyTorch runs: their ranks are programs of experiments/python.
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/models/model_defaults.h"
#include "core/scheme/plain_scheme.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/registry/user_code.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/local_sgd.h"
#include "ps/schemes/dp.h"

namespace ringside::runner {
namespace {

/// How PyTorch updates parameters: in one kernel for all of them, in one for each operation of the
/// update, or one parameter after the other.
enum class Update : std::uint8_t { fused, foreach, loop };
constexpr std::string_view update_names[] = {"fused", "foreach", "loop"};
constexpr EnumNames names_of(Update) { return update_names; }

struct TorchOptions {
  std::string python = "python3";
  Update update = Update::fused;
};

Fields fields_of(TorchOptions& options) {
  return {{"python", &options.python, "the Python that has PyTorch: a file, or a name in PATH"},
          {"update", &options.update, "how PyTorch's optimizer works: fused, foreach or loop"}};
}

Fields with(TorchOptions& options, Fields more) {
  Fields fields = fields_of(options);
  for (Field& field : more) fields.push_back(std::move(field));
  return fields;
}

/// Code of the user's own (experiments/runner/registry/user_code.h).
struct OwnCode {
  std::string code, definition, settings;
};

/// The fields of all members but `code`.
Fields fields_of(OwnCode& own) {
  return {
      {"definition", &own.definition,
       "what the row is held against: \"file.py:NAME\"; \"none\"; or empty: what the same file "
       "defines"},
      {"settings", &own.settings, "\"NAME=VALUE, NAME=VALUE\", for the code and its definition"}};
}

struct TorchDdpOptions : TorchOptions {
  double bucket_mb = 25;
  bool static_graph = true;
  OwnCode hook;
};

Fields fields_of(TorchDdpOptions& options) {
  Fields fields = with(
      options, {{"bucket_mb", &options.bucket_mb, "bucket_cap_mb of DistributedDataParallel",
                 Range::positive},
                {"static_graph", &options.static_graph, "static_graph of DistributedDataParallel"},
                {"hook", &options.hook.code,
                 "communication hook: \"file.py:function\", or one of PyTorch's, as "
                 "\"torch:powerSGD_hook\""}});
  for (Field& field : fields_of(options.hook)) fields.push_back(std::move(field));
  return fields;
}

struct TorchFileOptions : TorchOptions {
  OwnCode file;
};

Fields fields_of(TorchFileOptions& options) {
  Fields fields =
      with(options, {{"file", &options.file.code, "the class of a worker: \"file.py:Class\""}});
  for (Field& field : fields_of(options.file)) fields.push_back(std::move(field));
  return fields;
}

struct TorchFsdpOptions : TorchOptions {
  bool reshard_after_forward = true;
};

Fields fields_of(TorchFsdpOptions& options) {
  return with(options, {{"reshard_after_forward", &options.reshard_after_forward,
                         "reshard_after_forward of fully_shard"}});
}

struct TorchLocalSgdOptions : TorchOptions {
  std::int64_t sync_every = 4;
};

Fields fields_of(TorchLocalSgdOptions& options) {
  return with(options, {{"sync_every", &options.sync_every,
                         "number of steps from one averaging to the next (PyTorch's period)",
                         Range::positive}});
}

/// Throws Error for what the programs of experiments/python do not do as we do.
void check_torch(std::string_view scheme, const RunPlan& plan) {
  const auto refuse = [&](std::string_view setting, std::string_view why) {
    throw Error("scheme {} runs in PyTorch: {} {}", scheme, setting, why);
  };
  if (plan.cluster)
    refuse("device.kind = 'sim'", "cannot be simulated; leave the scheme out of simulations");
  if (plan.train.precision != Precision::fp32)
    refuse(fmt::format("train.precision = '{}'", name_of(plan.train.precision)),
           "is not known there; choose 'fp32'");
  if (plan.train.recompute != Recompute::none)
    refuse(fmt::format("train.recompute = '{}'", name_of(plan.train.recompute)),
           "is not known there; choose 'none'");
  if (plan.train.shares != Shares::equal)
    refuse("train.shares", "is not known there; workers have equal shares");
  if (plan.model.dropout > 0)
    refuse(fmt::format("model.dropout = {}", plan.model.dropout),
           "would drop other elements there; set it to 0");
  if (plan.model.batch_norm_group > 1)
    refuse(fmt::format("model.batch_norm_group = {}", plan.model.batch_norm_group),
           "is not known there; leave it at 1");
  const ModelConfig model = completed(plan.model);
  ModelConfig published = model;
  published.epsilon = 0;
  published.activation = ModelActivation::published;
  published = completed(published);
  if (model.epsilon != published.epsilon)
    refuse(fmt::format("model.epsilon = {}", model.epsilon),
           fmt::format("is not known there; leave it at {}", published.epsilon));
  if (model.activation != published.activation)
    refuse(fmt::format("model.activation = '{}'", name_of(model.activation)),
           fmt::format("is not known there; leave it at '{}'", name_of(published.activation)));
  const OptimizerConfig& optimizer = plan.optimizer;
  if (optimizer.kind != "adamw" && optimizer.kind != "sgd")
    refuse(fmt::format("optimizer.kind = '{}'", optimizer.kind),
           "is not known there; choose 'adamw' or 'sgd'");
  if (optimizer.clip_norm > 0)
    refuse(fmt::format("optimizer.clip_norm = {}", optimizer.clip_norm),
           "is not known there; leave it at 0");
  if (!plan.device.slow.empty() || plan.device.jitter != 0)
    refuse("device.slow and device.jitter", "are not known there; leave them out");
}

/// Throws Error if gradients shall be summed over ranks after every micro-batch.
void check_reduced_once(std::string_view scheme, const RunPlan& plan) {
  if (plan.train.reduce == Reduce::every)
    throw Error(
        "scheme {} runs in PyTorch, which sums gradients over ranks after the last micro-batch "
        "there: leave train.reduce = 'every' out",
        scheme);
}

/// PyTorch's own hooks (torch.distributed.algorithms.ddp_comm_hooks).
constexpr std::string_view of_torch = "torch:";
constexpr std::string_view torch_hooks[] = {"allreduce_hook", "bf16_compress_hook",
                                            "fp16_compress_hook", "powerSGD_hook",
                                            "batched_powerSGD_hook"};

bool is_torch_hook(std::string_view hook) {
  return hook.starts_with(of_torch) && std::count(std::begin(torch_hooks), std::end(torch_hooks),
                                                  hook.substr(of_torch.size())) > 0;
}

void check_hook(const OwnCode& hook) {
  if (hook.code.empty() && !(hook.definition.empty() && hook.settings.empty()))
    throw Error(
        "scheme.torch-ddp.definition and scheme.torch-ddp.settings are those of a hook: give "
        "scheme.torch-ddp.hook too, or leave them out");
  if (!hook.code.empty() && !names_file(hook.code) && !is_torch_hook(hook.code))
    throw Error(
        "scheme.torch-ddp.hook = '{}': write \"file.py:function\", or torch: and one of PyTorch's, "
        "which are {}",
        hook.code, fmt::join(torch_hooks, ", "));
  check_settings("scheme.torch-ddp.settings", hook.settings);
}

/// SchemeInfo::paths of a scheme with code of the user's own.
template <class Own>
std::vector<std::string*> paths_of(Options& options, OwnCode Own::*member) {
  std::vector<std::string*> out;
  if (Own* own = options.get_if<Own>())
    for (std::string* text : {&(own->*member).code, &(own->*member).definition})
      if (names_file(*text)) out.push_back(text);
  return out;
}

/// Ranks find each other over the loopback, compute with as many threads as ours, and leave no
/// files of Python's.
std::vector<std::string> torch_environment(const RunPlan& plan) {
  const std::int64_t threads = plan.device.threads;
  std::vector<std::string> out = {fmt::format("OMP_NUM_THREADS={}", threads),
                                  fmt::format("MKL_NUM_THREADS={}", threads),
                                  "GLOO_SOCKET_IFNAME=lo", "PYTHONDONTWRITEBYTECODE=1"};
  if (threads > 1) out.emplace_back("OMP_THREAD_LIMIT");
  const auto teams = static_cast<std::int64_t>(plan.ranks.size());
  const std::optional<int> cores = allowed_cores();
  if (threads > 1 && cores && teams * threads > *cores)
    out.insert(out.end(), {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT"});  // as for our own ranks
  return out;
}

template <class Own>
SchemeInfo torch_row(std::string_view name, std::string_view summary) {
  auto r = plain_scheme(name, summary, Own{});
  r.check = [name](const Options&, const RunPlan& plan) {
    check_torch(name, plan);
    check_reduced_once(name, plan);
  };
  r.program = [](const Options& options) {
    return OtherProgram{.command = options.as<Own>().python, .script = "peers/ringside_peers"};
  };
  r.environment = torch_environment;
  return r;
}

SchemeInfo torch_ddp_row() {
  using Own = TorchDdpOptions;
  const auto hooked = [](const Options& options) { return !options.as<Own>().hook.code.empty(); };
  auto r = torch_row<Own>("torch-ddp", "PyTorch's DistributedDataParallel");
  r.promise = [=](const Options& options) {
    return hooked(options) ? Promise::own_algorithm : Promise::same_run;
  };
  r.check = [](const Options& options, const RunPlan& plan) {
    check_torch("torch-ddp", plan);
    check_reduced_once("torch-ddp", plan);
    check_hook(options.as<Own>().hook);
  };
  r.paths = [](Options& options) { return paths_of(options, &Own::hook); };
  r.program = [=, plain = r.program](const Options& options) {
    OtherProgram program = plain(options);
    const OwnCode& hook = options.as<Own>().hook;
    if (hooked(options))
      add_user_code(program, {.key = "scheme.torch-ddp.hook",
                              .code = hook.code,
                              .definition = hook.definition,
                              .brings = "def definition"});
    return program;
  };
  // What a hook has to send is not known.
  r.minimum_bytes = [=](const Options& options, const StepShape& shape) {
    return hooked(options) ? 0.0 : peer::ddp_minimum_bytes(shape);
  };
  return r;
}

SchemeInfo torch_file_row() {
  using Own = TorchFileOptions;
  auto r = torch_row<Own>("torch", "a scheme of your own in PyTorch, from a file");
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.own_replicas = true;
  r.check = [](const Options& options, const RunPlan& plan) {
    check_torch("torch", plan);
    check_reduced_once("torch", plan);
    const OwnCode& file = options.as<Own>().file;
    if (file.code.empty())
      throw Error(
          "scheme torch runs a class of yours: name it with scheme.torch.file = "
          "\"file.py:Class\"");
    check_settings("scheme.torch.settings", file.settings);
  };
  r.paths = [](Options& options) { return paths_of(options, &Own::file); };
  r.program = [plain = r.program](const Options& options) {
    OtherProgram program = plain(options);
    const OwnCode& file = options.as<Own>().file;
    add_user_code(program, {.key = "scheme.torch.file",
                            .code = file.code,
                            .definition = file.definition,
                            .brings = "class Definition"});
    return program;
  };
  return r;
}

SchemeInfo torch_fsdp_row() {
  using Own = TorchFsdpOptions;
  auto r = torch_row<Own>("torch-fsdp", "PyTorch's FSDP2 (fully_shard)");
  r.reduces_each_micro_batch = true;
  r.check = [](const Options&, const RunPlan& plan) { check_torch("torch-fsdp", plan); };
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return peer::fsdp_minimum_bytes(
        shape, {.reshard_after_forward = options.as<Own>().reshard_after_forward});
  };
  return r;
}

SchemeInfo torch_dp_row() {
  using Own = TorchOptions;
  auto r = torch_row<Own>("torch-dp", "PyTorch's DataParallel: one process drives all GPUs");
  r.topology = SchemeTopology::master;
  r.check = [](const Options&, const RunPlan& plan) {
    check_torch("torch-dp", plan);
    check_reduced_once("torch-dp", plan);
    if (plan.device.kind != "cuda")
      throw Error(
          "scheme torch-dp runs in PyTorch, whose DataParallel needs GPUs: set device.kind = "
          "'cuda', or take scheme torch-ddp");
  };
  r.program = [](const Options& options) {
    return OtherProgram{
        .command = options.as<Own>().python, .script = "peers/ringside_peers", .all_ranks = true};
  };
  r.minimum_bytes = [](const Options&, const StepShape& shape) {
    return ps::dp_minimum_bytes(shape, {});
  };
  return r;
}

SchemeInfo torch_local_sgd_row() {
  using Own = TorchLocalSgdOptions;
  const auto ours = [](const Options& options) -> Options {
    return peer::LocalSgdOptions{.sync_every = options.as<Own>().sync_every};
  };
  const SchemeInfo same = peer::local_sgd_info();
  auto r = torch_row<Own>("torch-local-sgd", "PyTorch's post-local SGD: see local_sgd");
  r.promise = same.promise;
  r.own_replicas = same.own_replicas;
  r.check = [](const Options&, const RunPlan& plan) {
    check_torch("torch-local-sgd", plan);
    check_reduced_once("torch-local-sgd", plan);
  };
  r.define = [=](const RankContext& context, const Options& options) {
    return same.define(context, ours(options));
  };
  r.minimum_bytes = [=](const Options& options, const StepShape& shape) {
    return same.minimum_bytes(ours(options), shape);
  };
  return r;
}

}  // namespace

std::vector<SchemeInfo> torch_rows() {
  return {torch_ddp_row(), torch_fsdp_row(), torch_dp_row(), torch_local_sgd_row(),
          torch_file_row()};
}

}  // namespace ringside::runner
