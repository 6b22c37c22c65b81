// The program, but that a scheme named by RINGSIDE_TEST_SLOWED ("ddp=0.05") takes this share longer
// for each step: it rests at the step's end.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "core/base/error_text.h"
#include "core/base/json_fields.h"
#include "core/base/seconds_now.h"
#include "core/launch/launch.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/rank.h"
#include "experiments/tools/cli/cli.h"

namespace ringside {
namespace {

class Slowed : public SyncScheme {
 public:
  Slowed(const RankContext& context, double share, std::unique_ptr<SyncScheme> scheme)
      : SyncScheme(context), share_(share), scheme_(std::move(scheme)) {}

  void attach(Model& model) override { scheme_->attach(model); }
  void before_forward(std::size_t unit, const Pass& pass) override {
    scheme_->before_forward(unit, pass);
  }
  void after_forward(std::size_t unit, const Pass& pass) override {
    scheme_->after_forward(unit, pass);
  }
  void before_backward(std::size_t unit, const Pass& pass) override {
    scheme_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    scheme_->after_backward(unit, pass);
  }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    std::optional<StepAssignment> assignment = scheme_->next_assignment(done);
    begin_s_ = seconds_now();
    return assignment;
  }
  bool step(const StepInfo& info) override {
    const bool stepped = scheme_->step(info);
    std::this_thread::sleep_for(std::chrono::duration<double>(share_ * (seconds_now() - begin_s_)));
    return stepped;
  }
  void drain() override { scheme_->drain(); }
  std::int64_t gradient_batch() const override { return scheme_->gradient_batch(); }
  int own_replicas() const override { return scheme_->own_replicas(); }
  void sum(std::span<double> values) override { scheme_->sum(values); }
  Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass) override {
    return scheme_->fetch(slice, loader, pass);
  }
  Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
            const Pass& pass) override {
    return scheme_->loss(logits, batch, terms, pass);
  }
  void visit_parameters(const ParameterVisitor& visit) override {
    scheme_->visit_parameters(visit);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> kept() const override {
    return scheme_->kept();
  }
  Traffic traffic() const override { return scheme_->traffic(); }
  std::vector<SchemeFigure> figures() const override { return scheme_->figures(); }

 private:
  double share_, begin_s_ = 0;
  std::unique_ptr<SyncScheme> scheme_;
};

/// The scheme of the plan, slowed if the variable names it.
SchemeInfo scheme_of(const RunPlan& plan) {
  SchemeInfo row = runner::find_scheme(plan.scheme);
  const char* variable = std::getenv("RINGSIDE_TEST_SLOWED");
  const std::string slowed = variable ? variable : "";
  if (slowed.rfind(plan.scheme + "=", 0) != 0) return row;
  const double share = std::stod(slowed.substr(plan.scheme.size() + 1));
  row.make = [make = row.make, share](const RankContext& context, const Options& options) {
    return std::make_unique<Slowed>(context, share, make(context, options));
  };
  return row;
}

/// As rank_command() for real ranks.
int run_one_rank(int socket) {
  LauncherLink link(socket, runner::read_plan);
  try {
    const SchemeInfo row = scheme_of(link.plan());
    const runner::RankListener listener = {
        [&](const Progress& progress) { link.report_progress(to_json(progress)); },
        [&](const std::string& error) { link.fail(error); }};
    link.finish(to_json(runner::run_rank(link.plan(), link.rank(),
                                         {link.store(), nullptr, "", true}, listener, &row)));
    return 0;
  } catch (const std::exception& error) {
    link.fail(error_text(error));
    return 1;
  }
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "rank")
    return ringside::run_one_rank(std::stoi(argv[2]));
  ringside::tools::cli::Process process{.arguments = {argv + 1, argv + argc},
                                        .environment = {},
                                        .program = "/proc/self/exe",
                                        .built_commit = "slowed",
                                        .catch_interrupts = [] {},
                                        .interrupted = [] { return false; }};
  for (char** variable = environ; *variable; ++variable)
    process.environment.emplace_back(*variable);
  return ringside::tools::cli::run_command_line(process);
}
