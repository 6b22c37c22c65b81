// Server: keeps a part of the model's parameters and updates it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/models/initial_values.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/consistency.h"
#include "ps/protocol/message.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

struct ServerConfig {
  int server = 0;
  int workers = 1;
  std::uint64_t token = 0;
  std::shared_ptr<const InitialValues> initial_values = drawn_values(1);
  DType dtype = DType::f32;  // dtype of parameters and gradients
  OptimizerConfig optimizer{};
  std::int64_t steps = 1;   // steps of the run
  std::int64_t pushes = 1;  // how often a worker pushes each chunk's gradient in a step
  std::int64_t warmup = 0;  // steps left out of optimizer_seconds()
};

struct Reply {
  int worker = 0;
  Message message;
};
using Replies = std::vector<Reply>;

/// A passive object: messages go in, replies come out; it has no thread and no socket. The server
/// sums a chunk's gradients in rank order (a gradient that arrives early waits its turn) and adds
/// up the sums of several pushes a step. Then the optimizer updates the chunk, and the workers that
/// asked get views of the new values. Some optimizers need sums over the whole model before they
/// update, in one or more rounds. In each round the workers ask for this server's part of the sums,
/// and get it once all chunks of the server have their gradients. The workers add up the parts of
/// all servers and send back the totals. When the first worker sends the totals of the last round,
/// the server updates all of its chunks. The server holds parameters, gradient sums and optimizer
/// state of its own chunks. For one thread at a time.
class Server {
 public:
  /// Writes the initial values of those chunks that belong to this server. The device outlives the
  /// server.
  Server(const Model& model, const std::vector<Chunk>& chunks, Device& device,
         const ServerConfig& config);
  virtual ~Server() = default;

  /// Handles a message of `worker` and returns the replies that it causes, to this worker and to
  /// others that waited. A wrong message changes nothing; its reply is an error that names the
  /// cause.
  Replies handle(int worker, Message message);

  /// Throws Error if handle() would refuse the message whatever the values of its frames: it is
  /// nobody's of the run, or its frames are not those of the range that it names.
  void check_frames(int worker, const Header& header, std::span<const FrameShape> frames) const;

  bool is_done(int worker) const { return done_[static_cast<std::size_t>(worker)]; }
  /// Whether every worker has said that it is done.
  bool finished() const;
  /// Names the first worker that gave up, and its reason; empty while no worker has given up.
  const std::string& failure() const { return failure_; }
  /// The number of steps for which every worker has pushed every chunk of this server.
  std::int64_t steps() const;
  /// Seconds spent in the optimizer after the warm-up. Blocks until the updates have run.
  double optimizer_seconds();

 protected:
  /// Handles the kinds of messages that this class does not know. Throws Error to refuse a message.
  virtual Replies handle_other(int worker, Message message);
  const ServerConfig& config() const { return config_; }
  Device& device() const { return device_; }

 private:
  /// A worker that waits for a reply about a chunk.
  struct Reader {
    int worker;
    Header reply;
    std::int64_t pushes;  // pushes that must be complete before the reply
    bool values;          // whether the reply carries the chunk's values; else it is empty
  };
  struct Slot {
    Chunk chunk;
    std::int64_t begin;  // first element, in this server's own range
    Clocks clocks;
    std::vector<Tensor> waiting;  // by worker: gradients that came before their turn
    int next = 0;                 // the worker whose turn it is
    std::vector<Reader> readers;
    /// How many pushes are over. A push is over once the gradients of all workers are added up
    /// and, if it is the last push of its step, the chunk is updated.
    std::int64_t done = 0;
  };

  /// The rounds of sums of one step.
  struct Rounds {
    std::int64_t step = 0;
    float loss_scale = 1;
    std::vector<std::vector<double>> sums{};    // this server's sums, by round
    std::vector<std::vector<double>> totals{};  // over all servers, by round
    std::vector<std::size_t> asked{};           // rounds that each worker has asked for
    std::vector<bool> settled{};                // whether each worker has sent the last totals
  };

  void check_sender(int worker, const Header& header) const;
  Slot& slot_of(const Header& header);
  std::size_t index_of(const Header& header) const;
  void check_gradient(const Header& header, std::span<const FrameShape> frames) const;
  Replies push(int worker, const Header& header, std::vector<Tensor> frames);
  Replies pull(int worker, const Header& header);
  Replies sum(int worker, const Header& header, const std::vector<Tensor>& frames);
  Replies add_in_turn(Slot& slot);
  Replies answer_readers(Slot& slot);
  void update(std::int64_t step, const ParameterRange& range);
  ParameterRange range_of(const Slot& slot) const;
  // server_rounds.cc
  Replies measure(int worker, const Header& header, const std::vector<Tensor>& frames);
  Replies settle(int worker, const Header& header, const std::vector<Tensor>& frames);
  /// The rounds of the header's step. Throws Error if that is neither the current step nor the one
  /// before, or if the loss scale differs from another worker's.
  Rounds& rounds_of_step(const Header& header);
  std::vector<double> totals_in(const Header& header, std::int64_t round,
                                const std::vector<Tensor>& frames) const;
  /// Gives the totals of a round to the optimizer. If another worker has sent totals of this round
  /// before, only compares the two, and throws Error if they differ.
  void take_totals(Rounds& rounds, std::size_t round, std::vector<double> totals);
  Replies answer_measures();
  Replies end_rounds(bool finite);
  /// Adds up the times of the oldest updates, until at most `left` updates are not yet added.
  void add_up_updates(std::size_t left);

  Device& device_;
  ServerConfig config_;
  std::vector<Slot> slots_;
  std::map<std::int64_t, std::size_t> slot_at_;  // index of a slot, by its first element
  Tensor parameters_, sums_;                     // the server's own range
  Tensor partial_;  // the sum of a push after the step's first; empty if there is one push a step
  std::unique_ptr<Optimizer> optimizer_;
  std::deque<std::pair<Mark, Mark>> updates_;  // begin and end of the updates not yet added up
  double optimizer_seconds_ = 0;
  Rounds rounds_, last_rounds_;  // of the current step, and of the one before
  std::size_t gathered_ = 0;     // chunks whose gradients are complete
  std::vector<Reply> measures_;  // replies whose sums are still missing
  std::int64_t sums_done_ = 0;
  std::vector<std::optional<std::vector<double>>> summands_;  // by worker, for the sum under way
  std::vector<bool> done_;
  std::string failure_;
};

}  // namespace ringside::ps
