// ChunkState: a server's state for one chunk of parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/history.h"
#include "core/tensor/tensor.h"
#include "ps/protocol/chunk_readers.h"
#include "ps/protocol/clocks.h"
#include "ps/protocol/gradient_queue.h"
#include "ps/protocol/merges.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

/// The state of one chunk: gradients that have arrived from the workers that push it, the update
/// under way, workers that wait for values, and the history. It holds no parameters: the server
/// adds gradients up and updates.
class ChunkState {
 public:
  /// `begin` is the chunk's first element in its server's own parameters. `workers` are all of the
  /// run; those that do not push the chunk count as gone from the start. The policy and `merges`,
  /// of its server, outlive this object. At most `history_bytes` of history() are kept; 0 keeps
  /// none. Workers begin with the initial values, as if they had read them at `now`.
  ChunkState(const Chunk& chunk, std::int64_t begin, int workers, std::int64_t pushes,
             const Policy& policy, Merges& merges, std::size_t history_bytes, double now);

  const Chunk& chunk() const { return chunk_; }
  /// Whether this chunk decides which workers the merges of all chunks take.
  bool decides_merges() const { return chunk_.begin == 0; }
  /// The number of gradients of an update, if no worker is gone.
  int wanted() const { return policy_.gradients(pushers()); }
  std::int64_t begin() const { return begin_; }
  const Clocks& clocks() const { return clocks_; }
  /// The number of updates so far. (Where a step has several pushes, each counts as an update,
  /// although only the last one of a step changes values.)
  std::int64_t version() const { return version_; }

  /// Takes push `push` of `step`; throws Error as Clocks::push() does. Returns false, and keeps
  /// nothing, if the gradient arrives too late for any update.
  bool push(int worker, std::int64_t step, std::int64_t push, Tensor values, float weight = 1);
  /// The next gradient to add to the sum of the update under way, in the order of workers; none if
  /// it has not arrived, or if it is not yet `now` that the update may begin (due()).
  std::optional<PushedGradient> next_gradient(double now = 0);
  /// The time until which a merge waits for further pushes (Policy::grace_s); none while it waits
  /// for a quorum, or for what decides_merges().
  std::optional<double> due() const { return due_; }
  /// Whether all gradients of the update under way have been taken.
  bool complete() const { return complete_; }
  /// The number of gradients of the update under way that have been taken. A complete update has
  /// fewer than Policy::gradients() if workers are gone that would have pushed the others; it may
  /// have none.
  int taken() const { return taken_; }
  /// The sum of the weights of these gradients.
  float weight() const { return weight_; }
  /// Ends the update under way.
  void updated();
  /// Replaces each gradient that waits for a later update by its `copy`, once.
  void keep_waiting(const std::function<Tensor(const Tensor&)>& copy) { waiting_.keep(copy); }

  void add_reader(ChunkReader reader) { readers_.add(std::move(reader)); }
  /// The workers that wait for a reply.
  const std::vector<ChunkReader>& readers() const { return readers_.waiting(); }
  /// Takes out the readers that may read now (Policy::may_read), and counts them as having read
  /// this version at `now`. The others go on waiting: this is where a server holds a worker back.
  std::vector<ChunkReader> take_readers(double now);
  /// The chunk's values are those of this version, which every worker read at `now`, and every
  /// worker has pushed all gradients below `number`. The history lacks what came before. Called
  /// before the first push.
  void restored(std::int64_t version, std::int64_t number, double now);
  /// Version, clocks, versions that workers have read, history, for restore_course(). Throws Error
  /// while a gradient or a worker waits.
  nlohmann::ordered_json course() const;
  void restore_course(const nlohmann::json& course, double now);
  /// Whether the worker stands at a meeting, so that no merge waits for its next push.
  void rest(int worker, bool rests) { resting_[static_cast<std::size_t>(worker)] = rests; }
  /// The worker pushes no more, so no update waits for it.
  void leave(int worker);
  /// The worker has pushed this number to another chunk of its server. Where the gradients of a
  /// step have one number, it pushes none below that here any more. Returns whether that may
  /// complete the update under way, which lacks gradients of workers that are gone.
  bool skip(int worker, std::int64_t number);
  /// The first push that a new process of the worker can make: none that was made before, and of no
  /// update that is over or under way.
  std::int64_t first_push(int worker) const;
  /// A new process of the worker is there, and pushes from number `first` on, which is not smaller
  /// than first_push(). Updates before that do not wait for it.
  void come(int worker, std::int64_t first);

  const ChunkHistory& history() const { return history_; }
  std::int64_t dropped() const { return dropped_; }

 private:
  /// The number of workers that push this chunk.
  int pushers() const { return world_ / chunk_.group; }
  bool all_workers() const { return wanted() == pushers(); }
  void choose_first();
  void decide_merge(double now);
  void choose_merged();
  /// Adds to the history, if there is one.
  void note(const RangeEvent& event);

  Chunk chunk_;
  std::int64_t begin_;
  int world_;
  const Policy& policy_;
  Merges& merges_;
  Clocks clocks_;
  std::int64_t version_ = 0;
  GradientQueue waiting_;
  int turn_;  // for updates of all workers: the worker whose gradient is added next
  std::vector<PushedGradient> chosen_;  // other updates: their gradients that are not yet added
  int taken_ = 0;                       // gradients of the update under way
  float weight_ = 0;
  bool complete_ = false;
  std::optional<double> due_;
  ChunkReaders readers_;
  std::vector<bool> resting_;  // by worker
  std::size_t history_bytes_;
  ChunkHistory history_;
  std::int64_t dropped_ = 0;
};

}  // namespace ringside::ps
