#include "ps/protocol/chunk_codes.h"

#include <algorithm>
#include <utility>

#include "core/models/model_part.h"
#include "core/num/random.h"

namespace ringside::ps {
namespace {

/// The tensors of elements [begin, begin + count), or their parts, by their numbers in the whole
/// model.
std::vector<Piece> pieces_within(const Model& model, std::int64_t begin, std::int64_t count) {
  std::vector<Piece> out;
  std::uint32_t number = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (model.part) number = static_cast<std::uint32_t>(model.part->first_tensors[u]);
    for (const Parameter& parameter : model.units[u]->layout().parameters()) {
      const std::int64_t first = model.first_parameter(u) + parameter.begin;
      const std::int64_t from = std::max(begin, first);
      const std::int64_t end = std::min(begin + count, first + parameter.shape.count());
      if (from < end)
        out.push_back({from - begin,
                       end - from == parameter.shape.count() ? parameter.shape : Shape{end - from},
                       number});
      ++number;
    }
  }
  return out;
}

CompressorContext context_of(const CompressionOptions& options, const Model& model,
                             std::int64_t begin, std::int64_t count, Device& device,
                             std::uint64_t seed, int sender) {
  constexpr std::uint64_t most_senders = 1 << 20;
  const auto first = static_cast<std::uint64_t>(in_whole_model(model, begin, 1).front().begin);
  const std::uint64_t place = first * most_senders + static_cast<std::uint64_t>(sender);
  return {.device = device,
          .options = options,
          .pieces = pieces_within(model, begin, count),
          .seed = random_bits(seed, Stream::codes, place)};
}

}  // namespace

ChunkCodes::ChunkCodes(const CompressionOptions& options, const Model& model, std::int64_t begin,
                       std::int64_t count, Device& device, std::uint64_t seed, int sender)
    : device_(device),
      count_(count),
      remembers_(remembers(options)),
      sender_(context_of(options, model, begin, count, device, seed, sender)),
      reader_(find_compressor(options.compressor)
                  .make(context_of(options, model, begin, count, device, seed, sender))) {}

FrameShape ChunkCodes::form() const {
  const Compressor::Form form = sender_.form(0);
  return {form.dtype, {form.count}};
}

Tensor ChunkCodes::encode(const Tensor& values) {
  const FrameShape form = this->form();
  const Tensor code = device_.tensor(form.shape, MemoryKind::communication, form.dtype);
  sender_.begin(values);
  sender_.give(0, code);
  if (remembers_)
    sender_.take(0, std::span(&code, 1), device_.tensor({count_}, MemoryKind::workspace));
  return code;
}

void ChunkCodes::decode(const Tensor& code, const Tensor& out) const {
  reader_->take(0, std::span(&code, 1), out);
}

void ChunkCodes::visit_state(StateRange like, const StateVisitor& visit) {
  sender_.visit_state([&](const CompressorState& state) {
    like.name = state.name;
    like.values = state.values.reshaped({state.values.count()});
    like.device = &device_;
    visit(like);
  });
}

ChunkCodes codes_of_pushes(const ChunkCompression& compression, const Model& model,
                           std::int64_t begin, std::int64_t count, Device& device, int worker) {
  return {compression.pushes, model, begin, count, device, compression.seed, 2 * worker};
}

ChunkCodes codes_of_pulls(const ChunkCompression& compression, const Model& model,
                          std::int64_t begin, std::int64_t count, Device& device, int worker) {
  return {compression.pulls, model, begin, count, device, compression.seed, 2 * worker + 1};
}

FollowedValues::FollowedValues(ChunkCodes codes, const Tensor& values, Device& device)
    : device_(device),
      codes_(std::move(codes)),
      values_(device.tensor(values.shape(), MemoryKind::communication)) {
  device.kernels().cast({.in = values, .out = values_});
}

void FollowedValues::begin_with(const Tensor& values) {
  device_.kernels().cast({.in = values, .out = values_});
  codes_.set_steps(0);
}

Tensor FollowedValues::follow(const Tensor& values) {
  const Tensor step = device_.tensor(values.shape(), MemoryKind::workspace);
  device_.kernels().cast({.in = values, .out = step});
  device_.kernels().blend({.in = values_, .out = step, .in_scale = -1, .out_scale = 1});
  Tensor code = codes_.encode(step);
  add_decoded(device_, codes_, code, values_);
  return code;
}

void add_decoded(Device& device, const ChunkCodes& codes, const Tensor& code,
                 const Tensor& values) {
  const Tensor step = device.tensor(values.shape(), MemoryKind::workspace);
  codes.decode(code, step);
  device.kernels().add({.in = step, .out = values});
}

}  // namespace ringside::ps
