#include "peer/schemes/onebit_momentum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/device/convert.h"
#include "core/device/on_host.h"

namespace ringside::peer {
namespace {

std::int64_t code_of(std::int64_t count) { return 4 + (count + 31) / 32 * 4; }

Tensor zeros(Device& device, std::int64_t count) {
  const Tensor out = device.tensor({count}, MemoryKind::optimizer);
  device.kernels().fill({.out = out});
  return out;
}

Tensor named(const std::vector<OptimizerState>& state, std::string_view name) {
  const auto found = std::find_if(state.begin(), state.end(),
                                  [&](const OptimizerState& one) { return one.name == name; });
  return found == state.end() ? Tensor() : found->values;
}

}  // namespace

OnebitMomentum::OnebitMomentum(Device& device, const std::vector<Piece>& pieces, int worker,
                               int workers)
    : device_(device), worker_(worker) {
  const std::int64_t all = pieces.back().begin + pieces.back().shape.count();
  const std::int64_t each = (all + workers - 1) / workers;
  for (int c = 0; c < workers; ++c) {
    std::vector<Part>& parts = chunks_.emplace_back();
    std::int64_t code = 0;
    for (const Piece& piece : pieces) {
      const std::int64_t begin = std::max(piece.begin, c * each);
      const std::int64_t end = std::min(piece.begin + piece.shape.count(), (c + 1) * each);
      if (begin >= end) continue;
      parts.push_back({begin, end - begin, code});
      code += code_of(end - begin);
    }
    chunk_bytes_ = std::max(chunk_bytes_, code);
  }
  first_ = std::min(worker * each, all);
  errors_ = zeros(device, all);
  server_errors_ = zeros(device, std::min(each, all - first_));
}

Tensor OnebitMomentum::magnitude(const Part& part, const Tensor& code) const {
  return {code.buffer(), code.byte_offset() + static_cast<std::size_t>(part.code), {1}, DType::f32};
}

Tensor OnebitMomentum::signs(const Part& part, const Tensor& code) const {
  return code.range(part.code + 4, (part.count + 7) / 8);
}

Tensor OnebitMomentum::of_chunk(const Tensor& codes, std::size_t chunk) const {
  return codes.range(static_cast<std::int64_t>(chunk) * chunk_bytes_, chunk_bytes_);
}

void OnebitMomentum::add(std::size_t chunk, std::span<const Tensor> codes, float scale, bool onto,
                         const Tensor& values, std::int64_t first) const {
  for (const Part& part : chunks_[chunk]) {
    AddSigns sum{.out = values.range(part.begin - first, part.count), .scale = scale, .onto = onto};
    for (const Tensor& code : codes) {
      sum.signs.push_back(signs(part, code));
      sum.magnitudes.push_back(magnitude(part, code));
    }
    device_.kernels().add_signs(sum);
  }
}

void OnebitMomentum::encode(std::size_t chunk, const Tensor& values, std::int64_t first,
                            const Tensor& code) const {
  for (const Part& part : chunks_[chunk])
    device_.kernels().pack_signs({.in = values.range(part.begin - first, part.count),
                                  .signs = signs(part, code),
                                  .magnitude = magnitude(part, code),
                                  .root_mean_square = true});
  add(chunk, std::span(&code, 1), -1, true, values, first);
}

void OnebitMomentum::give(const Tensor& momentum, const Tensor& gradient, float beta1,
                          const Tensor& codes) {
  const auto workers = static_cast<float>(chunks_.size());
  const Tensor own = device_.tensor(momentum.shape(), MemoryKind::workspace);
  device_.kernels().copy({.in = momentum, .out = own});
  device_.kernels().blend({.in = converted(device_, gradient, DType::f32),
                           .out = own,
                           .in_scale = (1 - beta1) * workers,
                           .out_scale = beta1});
  device_.kernels().add({.in = own, .out = errors_});
  for (std::size_t c = 0; c < chunks_.size(); ++c) encode(c, errors_, 0, of_chunk(codes, c));
}

void OnebitMomentum::combine(const Tensor& given, const Tensor& code) {
  const auto own = static_cast<std::size_t>(worker_);
  const float share = 1 / static_cast<float>(chunks_.size());
  const Tensor mean = device_.tensor(server_errors_.shape(), MemoryKind::workspace);
  std::vector<Tensor> codes;
  for (std::size_t w = 0; w < chunks_.size(); ++w) codes.push_back(of_chunk(given, w));
  add(own, codes, share, false, mean, first_);
  device_.kernels().add({.in = mean, .out = server_errors_});
  encode(own, server_errors_, first_, code);
}

void OnebitMomentum::take(const Tensor& codes, const Tensor& momentum) const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Tensor code = of_chunk(codes, c);
    add(c, std::span(&code, 1), 1, false, momentum, 0);
  }
}

void OnebitMomentum::visit_state(const StateVisitor& visit) {
  visit({.name = "worker_error", .replica = worker_, .values = errors_, .device = &device_});
  if (server_errors_.count() > 0)
    visit({.name = "server_error", .begin = first_, .values = server_errors_, .device = &device_});
}

FrozenAdam::FrozenAdam(Device& device, const OptimizerConfig& config, const RunSize& run,
                       ParameterMap map, const std::vector<OptimizerState>& state)
    : device_(device),
      config_(config),
      run_(run),
      map_(std::move(map)),
      master_(named(state, master_values)),
      first_moment_(named(state, "first_moment")),
      second_moment_(named(state, second_moment)) {}

void FrozenAdam::freeze(std::int64_t frozen) {
  const float correction =
      static_cast<float>(1 / (1 - std::pow(config_.beta2, static_cast<double>(frozen))));
  const auto count = static_cast<double>(second_moment_.count());
  on_host(device_, {second_moment_}, {second_moment_}, {.operations = count, .bytes = 8 * count},
          [&](HostValues& in, HostValues& out) {
            const auto from = in.of<float>(0), to = out.of<float>(0);
            std::transform(from.begin(), from.end(), to.begin(), [&](float v) {
              return v == 0 ? std::numeric_limits<float>::infinity() : correction * v;
            });
          });
}

void FrozenAdam::update(const Tensor& parameters, const StepInfo& info) const {
  const auto update = [&](std::int64_t begin, std::int64_t count, double decay) {
    device_.kernels().lamb_update(
        {.parameters = parameters.range(begin, count),
         .master = master_ ? master_.range(begin, count) : Tensor(),
         .first_moment = first_moment_.range(begin, count),
         .second_moment = second_moment_.range(begin, count),
         .rate = static_cast<float>(info.lr_factor * learning_rate(config_, info.step, run_)),
         .beta1 = static_cast<float>(config_.beta1),
         .beta2 = 0,  // v is corrected already
         .epsilon = static_cast<float>(config_.epsilon),
         .weight_decay = static_cast<float>(decay),
         .step = info.step + 1});
  };
  if (config_.decay == Decay::all || config_.weight_decay == 0)
    return update(0, parameters.count(), config_.weight_decay);
  for (const auto& [begin, count, parameter, matrix] : map_.stretches)
    update(begin, count, matrix ? config_.weight_decay : 0);
}

}  // namespace ringside::peer
