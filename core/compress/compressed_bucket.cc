#include "core/compress/compressed_bucket.h"

#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/device/convert.h"

namespace ringside {

CompressedBucket::CompressedBucket(CompressorContext context)
    : device_(context.device), worker_(context.worker) {
  for (const Piece& piece : context.pieces)
    if (piece.shape.count() > std::numeric_limits<std::int32_t>::max())
      throw Error(
          "compressor '{}': tensor {} has {} elements, but at most 2^31 - 1 can be compressed",
          context.options.compressor, piece.number, piece.shape.count());
  if (remembers(context.options)) {
    memory_ = device_.tensor({context.count()}, MemoryKind::gradient);
    device_.kernels().fill({.out = memory_});
  }
  const CompressorInfo& row = find_compressor(context.options.compressor);
  compressor_ = row.make(std::move(context));
}

void CompressedBucket::begin(const Tensor& gradients) {
  compressor_->begin_step();
  if (memory_) add_converted(device_, gradients, memory_);
  values_ = memory_ ? memory_ : converted(device_, gradients, DType::f32);
}

void CompressedBucket::give(int round, const Tensor& message) {
  compressor_->give(round, values_, message);
}

void CompressedBucket::take(int round, std::span<const Tensor> messages, const Tensor& total) {
  if (round + 1 != rounds()) return compressor_->take(round, messages, {});
  finish(messages, total, true);
}

void CompressedBucket::remember(const Tensor& message) {
  if (memory_)
    compressor_->keep(move() == Compressor::Move::gather ? message : Tensor(), {}, memory_);
  values_ = {};
}

void CompressedBucket::decode(std::span<const Tensor> messages, const Tensor& total) {
  finish(messages, total, false);
}

void CompressedBucket::visit_state(const CompressorStateVisitor& visit) {
  if (memory_) visit({"error_memory", memory_});
  compressor_->visit_state(visit);
}

void CompressedBucket::finish(std::span<const Tensor> messages, const Tensor& total, bool keeps) {
  const bool direct = total.dtype() == DType::f32;
  const Tensor sum = direct ? total : device_.tensor(total.shape(), MemoryKind::workspace);
  compressor_->take(rounds() - 1, messages, sum);
  if (keeps && memory_)
    compressor_->keep(
        move() == Compressor::Move::gather ? messages[static_cast<std::size_t>(worker_)] : Tensor(),
        sum, memory_);
  if (!direct) device_.kernels().cast({.in = sum, .out = total});
  if (keeps) values_ = {};
}

}  // namespace ringside
