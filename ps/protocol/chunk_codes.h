// Codes of chunks: what workers push and pull, in fewer bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/compress/compressed_bucket.h"
#include "core/models/model.h"
#include "core/scheme/state.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/server_config.h"

namespace ringside::ps {

/// The code of one chunk, of one sender. A tensor that is cut by chunks is compressed part by part.
class ChunkCodes {
 public:
  /// Elements [begin, begin + count) of the model. `sender` distinguishes senders, which have
  /// random numbers of their own. The device outlives the code.
  ChunkCodes(const CompressionOptions& options, const Model& model, std::int64_t begin,
             std::int64_t count, Device& device, std::uint64_t seed, int sender);

  std::int64_t count() const { return count_; }
  /// The dtype and the extent of a code.
  FrameShape form() const;
  /// Returns the code of the values, of any floating-point dtype, in new memory. What it loses is
  /// remembered for the next one, if the options say so.
  Tensor encode(const Tensor& values);
  /// out = what the code stands for; fp32. Knows nothing of earlier codes.
  void decode(const Tensor& code, const Tensor& out) const;

  /// Visits the memory of errors, if there is one, as values [begin, ...) of `like`; and the number
  /// of codes so far, which decides what is drawn for the next one.
  void visit_state(StateRange like, const StateVisitor& visit);
  std::uint32_t steps() const { return sender_.steps(); }
  void set_steps(std::uint32_t steps) { sender_.set_steps(steps); }

 private:
  Device& device_;
  std::int64_t count_;
  bool remembers_;
  CompressedBucket sender_;
  std::unique_ptr<Compressor> reader_;
};

/// The codes of a worker's pushes to a chunk, and of the values that a server gives it. Both ends
/// make them alike, but only the sender's remember.
ChunkCodes codes_of_pushes(const ChunkCompression& compression, const Model& model,
                           std::int64_t begin, std::int64_t count, Device& device, int worker);
ChunkCodes codes_of_pulls(const ChunkCompression& compression, const Model& model,
                          std::int64_t begin, std::int64_t count, Device& device, int worker);

/// Values that a reader has, when what it reads are codes of the differences from these: a sender
/// and a reader that begin alike keep the same values, and no loss of one code outlives the next.
class FollowedValues {
 public:
  /// Begins with `values`, which may have 16 bits; what it keeps is fp32.
  FollowedValues(ChunkCodes codes, const Tensor& values, Device& device);

  /// Begins anew with these values, as a new object would.
  void begin_with(const Tensor& values);
  /// Returns the code of the step from the reader's values to these, which they take.
  Tensor follow(const Tensor& values);
  const Tensor& values() const { return values_; }
  /// The number of codes so far.
  std::uint32_t steps() const { return codes_.steps(); }
  void set_steps(std::uint32_t steps) { codes_.set_steps(steps); }

 private:
  Device& device_;
  ChunkCodes codes_;
  Tensor values_;
};

/// values += what the code stands for.
void add_decoded(Device& device, const ChunkCodes& codes, const Tensor& code, const Tensor& values);

}  // namespace ringside::ps
