// CompressedBucket: one worker's gradients of a bucket, their compressor and its memory.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/compress/compressor_info.h"

namespace ringside {

/// The steps of a compressed sum, which a worker and the definition of its scheme take alike:
/// begin() with the gradients, then give() and take() for every round. Where one worker takes the
/// sum for others (CompressorInfo::in_parts), it calls decode() in place of take(), and every
/// worker remember(). For one thread; blocks nowhere.
class CompressedBucket {
 public:
  /// With a memory of errors the bucket has one fp32 value of kind gradient for each element, zero
  /// at first.
  explicit CompressedBucket(CompressorContext context);

  Compressor::Move move() const { return compressor_->move(); }
  int rounds() const { return compressor_->rounds(); }
  Compressor::Form form(int round) const { return compressor_->form(round); }

  /// The gradients of this step, of any floating-point dtype. They stay as they are until the last
  /// take(), or remember().
  void begin(const Tensor& gradients);
  void give(int round, const Tensor& message);
  /// `total`, of any floating-point dtype, gets the sum in the last round. It may be the memory of
  /// the gradients.
  void take(int round, std::span<const Tensor> messages, const Tensor& total);
  /// Keeps what this worker's `message` lacks of its gradients.
  void remember(const Tensor& message);
  /// Writes the sum of all messages to `total`, of any floating-point dtype.
  void decode(std::span<const Tensor> messages, const Tensor& total);

  /// Visits, between two steps, the memory ("error_memory") and what the compressor keeps; the
  /// number of steps is by itself.
  void visit_state(const CompressorStateVisitor& visit);
  std::uint32_t steps() const { return compressor_->steps(); }
  void set_steps(std::uint32_t steps) { compressor_->set_steps(steps); }

 private:
  /// As decode(); also forgets the values of this step, or keeps what the sum lacks of them.
  void finish(std::span<const Tensor> messages, const Tensor& total, bool keeps);

  Device& device_;
  int worker_;
  std::unique_ptr<Compressor> compressor_;
  Tensor memory_;  // empty: none
  Tensor values_;  // what this step wants to have summed, fp32
};

/// The pieces of elements [begin, begin + count) of a model, which consist of whole tensors. Of a
/// part of a model, tensors have their numbers in the whole one.
/// `Model` has units with layouts (core/models/model.h).
template <class Model>
std::vector<Piece> pieces_of(const Model& model, std::int64_t begin, std::int64_t count) {
  std::vector<Piece> out;
  std::uint32_t number = 0;
  std::int64_t first = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const auto& unit = model.units[u];
    if (model.part) number = static_cast<std::uint32_t>(model.part->first_tensors[u]);
    for (const auto& parameter : unit->layout().parameters()) {
      const std::int64_t at = first + parameter.begin;
      if (at >= begin && at < begin + count) out.push_back({at - begin, parameter.shape, number});
      ++number;
    }
    first += unit->layout().count();
  }
  return out;
}

}  // namespace ringside
