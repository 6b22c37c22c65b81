// The definition of bulk synchronous servers whose workers push or pull in fewer bytes.
#include <memory>
#include <optional>
#include <vector>

#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"
#include "ps/protocol/chunk_codes.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/ps_parts.h"

namespace ringside::ps {
namespace {

/// One rank with the gradients of all workers, the servers' values, and the values that every
/// worker has of them.
class CompressedDefinition final : public SyncScheme {
 public:
  CompressedDefinition(const RankContext& context, const PsOptions& options)
      : SyncScheme(context), options_(options) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    Device& device = context().device;
    model_ = &model;
    replica_.emplace(model, context());
    const Shape whole = replica_->parameters().shape();
    servers_ = device.tensor(whole, MemoryKind::parameter, replica_->parameters().dtype());
    kernels().copy({.in = replica_->parameters(), .out = servers_});
    for (int w = 0; w < plan.defines; ++w)
      gradients_.push_back(device.tensor(whole, MemoryKind::gradient, servers_.dtype()));
    total_ = device.tensor(whole, MemoryKind::gradient, servers_.dtype());
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.defines}, device, servers_,
                                parameter_map(model));
    const ChunkCompression compression = compression_of(options_, plan);
    for (const Chunk& chunk : chunks_of(model, plan.defines, options_))
      add_codes(chunk, compression);
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, within_worker(pass));
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    const Pass within = within_worker(pass);
    replica_->after_backward(unit, within);
    if (!within.last()) return;
    const auto worker = static_cast<std::size_t>(pass.micro_batch / within.micro_batches);
    const Tensor own = replica_->gradients(unit);
    kernels().copy(
        {.in = own, .out = gradients_[worker].range(model_->first_parameter(unit), own.count())});
  }

  bool step(const StepInfo& info) override {
    for (Codes& codes : codes_) add_up(codes);
    const ParameterRange all{0, servers_, total_};
    settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    optimizer_->update(all, info);
    for (Codes& codes : codes_) give_out(codes);
    return true;
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u], replica_->parameters(u));
  }

 private:
  struct Codes {
    std::int64_t begin = 0, count = 0;
    std::vector<ChunkCodes> pushes;         // by worker; empty: not compressed
    std::optional<FollowedValues> pulls{};  // none: not compressed
  };

  void add_codes(const Chunk& chunk, const ChunkCompression& compression) {
    Device& device = context().device;
    Codes codes{chunk.begin, chunk.count, {}};
    if (compresses(compression.pushes))
      for (int w = 0; w < context().plan.defines; ++w)
        codes.pushes.push_back(
            codes_of_pushes(compression, *model_, chunk.begin, chunk.count, device, w));
    if (compresses(compression.pulls))
      codes.pulls.emplace(codes_of_pulls(compression, *model_, chunk.begin, chunk.count, device, 0),
                          servers_.range(chunk.begin, chunk.count), device);
    codes_.push_back(std::move(codes));
  }

  /// The sum of what servers make of the workers' pushes, in the order of workers.
  void add_up(Codes& codes) {
    const Tensor sum = total_.range(codes.begin, codes.count);
    for (std::size_t w = 0; w < gradients_.size(); ++w) {
      Tensor gradient = gradients_[w].range(codes.begin, codes.count);
      if (!codes.pushes.empty()) {
        const Tensor decoded = context().device.tensor({codes.count}, MemoryKind::workspace);
        codes.pushes[w].decode(codes.pushes[w].encode(gradient), decoded);
        kernels().cast({.in = decoded, .out = gradient});
      }
      if (w == 0)
        kernels().copy({.in = gradient, .out = sum});
      else
        kernels().add({.in = gradient, .out = sum});
    }
  }

  void give_out(Codes& codes) {
    const Tensor now = servers_.range(codes.begin, codes.count);
    if (codes.pulls) codes.pulls->follow(now);
    kernels().cast({.in = codes.pulls ? codes.pulls->values() : now,
                    .out = replica_->parameters().range(codes.begin, codes.count)});
  }

  Pass within_worker(Pass pass) const {
    pass.micro_batches /= context().plan.defines;
    pass.micro_batch %= pass.micro_batches;
    return pass;
  }
  const Kernels& kernels() const { return context().device.kernels(); }

  PsOptions options_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;  // with the values that workers have
  Tensor servers_, total_;
  std::vector<Tensor> gradients_;  // by worker
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Codes> codes_;  // by chunk
};

}  // namespace

std::unique_ptr<SyncScheme> define_compressed_ps(const RankContext& context,
                                                 const PsOptions& options) {
  return std::make_unique<CompressedDefinition>(context, options);
}

}  // namespace ringside::ps
