// CheckpointPart: what one worker, or one server, writes of each checkpoint of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/host_copies.h"
#include "core/observe/rank_record.h"
#include "core/optim/loss_scale.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/state.h"

namespace ringside {

/// Writes the state that a worker or a server keeps: a file of its ranges, if it has any, and then
/// an entry in the run's store, by which worker 0 lists the file in the manifest. begin() and
/// take() copy the state to the host's memory; a thread writes the copy while the run goes on. The
/// copy stays until the next one. In an elastic run the state is also kept where it outlives this
/// process (HostCopies), and is not on the disk after every step that is copied. A part that cannot
/// be written is given up: the run goes on, its record says why, and this checkpoint gets no
/// manifest. For one thread.
///
/// A simulated rank (Links::storage) writes no file and no entry: it counts the bytes, lets the
/// time pass that the copy and the write take in its cluster, and waits where a real one does.
class CheckpointPart {
 public:
  /// The context outlives this object. `meanwhile` is called at least every train.timeout_s / 16 in
  /// waits for a part that is still being written, so that nobody takes this rank for a dead one.
  CheckpointPart(const RankContext& context, RankPart part, std::function<void()> meanwhile = {});
  /// Waits for what is being written.
  ~CheckpointPart();
  CheckpointPart(const CheckpointPart&) = delete;
  CheckpointPart& operator=(const CheckpointPart&) = delete;

  /// Begins the copy of the state after `done` steps. Waits until the one before is written.
  void begin(std::int64_t done);
  /// Copies this rank's share of the range (StateRange::holder). Blocks until it has its values.
  void take(const StateRange& range);
  /// Adds values that are on the host already. Ranges of one name that follow each other become
  /// one.
  void add(HostRange range);
  /// Ends the copy and, if it belongs on the disk, begins to write it; waits for that too unless
  /// [checkpoint] asynchronous is set. `entry` is what else worker 0 gets to know of this part. The
  /// thread that writes calls `then`, with the folder of checkpoints, when the part is on the disk;
  /// errors that it throws are those of this checkpoint.
  void write(nlohmann::ordered_json entry, bool on_disk,
             std::function<void(const OpenFolder&)> then = {});
  /// What every copy in the host's memory says about itself; before the first one.
  void copies_say(nlohmann::ordered_json constant) { copies_.emplace(std::move(constant)); }

  /// The run went on from a checkpoint after so many steps. `note` is what it did not take over.
  void went_on_after(std::int64_t steps, std::string note = "") {
    cost_.resumed_after = steps;
    cost_.note = std::move(note);
  }
  /// No more checkpoints will be written, for this reason.
  void give_up(const std::string& why) { cost_.failure = why; }
  /// Waits until all is written, and sets the record's cost if the run has checkpoints.
  void finish(RankRecord& record);

 private:
  struct Snapshot;

  double now() const;
  void run();
  void write_in_time();
  void wait();
  void keep_copy();

  const RankContext& context_;
  RankPart part_;
  std::function<void()> meanwhile_;
  std::unique_ptr<Snapshot> snapshot_;
  std::future<void> writer_;
  std::optional<HostCopies> copies_;
  int told_ = 0;                             // how often the store was told of the copies' files
  std::unique_ptr<VirtualStorage> storage_;  // of a simulated rank; else null
  CheckpointCost cost_;                      // the thread's while it runs
  double begun_at_ = 0;
};

/// The entry of a part after `done` steps, whose member "file" is for checkpoint_file_from_json();
/// it has none if the part has no ranges. Blocks until the part is on the disk. Throws Error that
/// names the part if it could not be written, or is not there after train.timeout_s and 10 minutes,
/// or if this process of the worker is lost (lost_key).
nlohmann::json written_part(const RankContext& context, RankPart part, int number,
                            std::int64_t done, std::int64_t process = 0);

/// A server says whether it keeps values, and so has a part in every checkpoint. has_server_part()
/// blocks until it has said so.
void say_server_part(const RankContext& context, bool has);
bool has_server_part(const RankContext& context, int server);

/// Worker 0 says, before it saves, that the run stops after `done` steps, where [checkpoint] asks
/// for no checkpoint. By then all workers have the values of that step, and begin no other.
/// said_stop() does not block; it returns 0 while this process knows of no stop.
void say_stop(const RankContext& context, std::int64_t done);
std::int64_t said_stop(const RankContext& context);

/// Whether the run goes on from a checkpoint (RunPlan::resume, or copies in the host's memory).
bool goes_on(const RunPlan& plan);
/// That checkpoint. Throws Error if its model has not
/// so many parameters.
Checkpoint resumed_checkpoint(const RunPlan& plan, std::int64_t parameters);
LossScale::State saved_loss_scale(const Manifest& manifest);

}  // namespace ringside
