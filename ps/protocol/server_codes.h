// ServerCodes: a server's decoding of pushes and encoding of pulls.
#pragma once

#include <optional>
#include <vector>

#include "ps/protocol/chunk_codes.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

/// The codes of a server's chunks, by their index on the server. Where all workers read every
/// version (`alike`) one code of a version is for all of them, and the server keeps one copy of
/// what they have; otherwise one of what each has: N copies for N workers.
/// Where a server gives codes, it also keeps the values that these have led to, so both ends hold
/// them: of one worker, or of all workers.
class ServerCodes {
 public:
  ServerCodes(Device& device, const ServerConfig& config, bool alike);
  /// Adds the code of the next chunk, whose values are now these.
  void add(const Model& model, const Chunk& chunk, const Tensor& values);

  bool of_pushes() const { return compresses(config_.codes.pushes); }
  bool of_pulls() const { return compresses(config_.codes.pulls); }
  /// The frame of a push to a chunk.
  FrameShape form(std::size_t index) const;
  /// The gradient for which a push stands, in the dtype of the parameters.
  Tensor pushed(std::size_t index, const Tensor& code) const;
  /// The code by which the worker gets these values of version `version`.
  Tensor pulled(std::size_t index, int worker, const Tensor& values, std::int64_t version);

  /// What the worker reads next of the chunk is the values themselves, and codes follow them from
  /// then on, as from the beginning.
  void begin_anew(std::size_t index, int worker);
  /// Whether that is so; then these are the values.
  bool takes_values(std::size_t index, int worker, const Tensor& values);

  /// Visits the values that workers have of the chunk, which those have too ("worker_values").
  void visit_state(std::size_t index, std::int64_t begin, const StateVisitor& visit);
  /// The numbers of codes of pulls so far, by chunk, and in each by worker or for all.
  std::vector<std::vector<std::uint32_t>> steps() const;
  /// The chunks have these versions now.
  void restored(const std::vector<std::vector<std::uint32_t>>& steps,
                const std::vector<std::int64_t>& versions);

 private:
  struct Pulls {
    FollowedValues followed;
    Tensor code;  // of the latest version
    std::int64_t version = 0;
    bool anew = false;
  };
  struct Of {
    std::optional<ChunkCodes> pushes;
    std::vector<Pulls> pulls;  // by worker, or one for all
  };

  Device& device_;
  const ServerConfig& config_;
  bool alike_;
  std::vector<Of> chunks_;
};

}  // namespace ringside::ps
