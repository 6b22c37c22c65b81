// ChunkReaders: the workers that wait for a chunk's values, and the versions that all have read.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ps/protocol/message.h"

namespace ringside::ps {

/// A worker that waits for a reply.
struct ChunkReader {
  int worker = 0;
  Header reply;
  std::int64_t number = 0;  // the argument of Policy::may_read() for this worker
  bool values = true;       // whether the reply carries the values; else it is empty
  bool trains = true;       // whether the worker computes its next push from these values
};

/// The requests for the values of one chunk that have no reply yet. The chunk says who may read
/// (ChunkState::take_readers); this class keeps what has been read.
class ChunkReaders {
 public:
  /// The version that a worker read last to train with it, and the time.
  struct Read {
    std::int64_t version = 0;
    double at = 0;
  };

  /// Workers begin with the initial values, as if they had read them at `now`.
  ChunkReaders(int workers, double now) : reads_(static_cast<std::size_t>(workers), Read{0, now}) {}

  void add(ChunkReader reader) { waiting_.push_back(std::move(reader)); }
  /// The worker waits no more.
  void leave(int worker);
  const std::vector<ChunkReader>& waiting() const { return waiting_; }
  /// Takes out those that `may` read, in the order in which they came; they have read `version`
  /// now.
  std::vector<ChunkReader> take(const std::function<bool(const ChunkReader& reader)>& may,
                                const Read& now);

  const Read& last(int worker) const { return reads_[static_cast<std::size_t>(worker)]; }
  /// The versions of last(), by worker.
  std::vector<std::int64_t> versions() const;
  /// Workers have read these versions, all at `now`.
  void restored(const std::vector<std::int64_t>& versions, double now);

 private:
  std::vector<ChunkReader> waiting_;
  std::vector<Read> reads_;  // by worker
};

}  // namespace ringside::ps
