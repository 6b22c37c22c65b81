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
#include "ps/protocol/consistency.h"
#include "ps/protocol/message.h"
#include "ps/protocol/partition.h"

namespace ringside::ps {

struct ServerConfig {
  int server = 0;
  int workers = 1;
  std::uint64_t token = 0;
  std::shared_ptr<const InitialValues> initial_values = drawn_values(1);
  DType dtype = DType::f32;  // of parameters and gradients
  OptimizerConfig optimizer{};
  std::int64_t steps = 1;   // of the run
  std::int64_t pushes = 1;  // of a worker, a chunk and step: micro-batches, or their sum
  std::int64_t warmup = 0;  // steps left out of optimizer_seconds()
};

struct Reply {
  int worker = 0;
  Message message;
};
using Replies = std::vector<Reply>;

/// Passive: messages in, replies out; no thread, no socket. A chunk's gradients are summed in rank
/// order (one that arrives early waits its turn), the sums of several pushes a step are added up,
/// then the optimizer updates the chunk, then those who asked get views of the new values. Where
/// the optimizer wants sums over the model first (its rounds), workers ask for this server's part
/// of them, which waits for all of its chunks, and bring the totals of all servers: the first who
/// does has all chunks updated. Holds parameters, gradient sums and optimizer state of its own
/// chunks. For one thread at a time.
class Server {
 public:
  /// Makes the initial values of those of `chunks` that are its own. Device outlives it.
  Server(const Model& model, const std::vector<Chunk>& chunks, Device& device,
         const ServerConfig& config);
  virtual ~Server() = default;

  /// What `worker`'s message leads to, for it and for others that waited. A message that is wrong
  /// changes nothing and is answered with an error that names the cause.
  Replies handle(int worker, Message message);

  bool is_done(int worker) const { return done_[static_cast<std::size_t>(worker)]; }
  /// Every worker has said that it is done.
  bool finished() const;
  /// Why the first worker that gave up did; empty while none has.
  const std::string& failure() const { return failure_; }
  /// Updates that all of its chunks have had.
  std::int64_t steps() const;
  /// Spent in the optimizer after the warm-up. Blocks until its updates have run.
  double optimizer_seconds();

 protected:
  /// Kinds of messages that this class does not know. Throws Error to refuse.
  virtual Replies handle_other(int worker, Message message);
  const ServerConfig& config() const { return config_; }
  Device& device() const { return device_; }

 private:
  struct Reader {
    int worker;
    Header reply;
    std::int64_t pushes;  // that have to be there
    bool values;          // or a word that they are
  };
  struct Slot {
    Chunk chunk;
    std::int64_t begin;  // in this server's own range
    Clocks clocks;
    std::vector<Tensor> waiting;  // by worker: gradients that came before their turn
    int next = 0;                 // whose turn it is
    std::vector<Reader> readers;
    std::int64_t done = 0;  // pushes of all workers that are added up and, where one is the step's
                            // last, in the parameters
  };

  /// The rounds of one step.
  struct Rounds {
    std::int64_t step = 0;
    float loss_scale = 1;
    std::vector<std::vector<double>> sums{};    // of this server, by round
    std::vector<std::vector<double>> totals{};  // by round
    std::vector<std::size_t> asked{};           // rounds, by worker
    std::vector<bool> settled{};                // by worker
  };

  void check_sender(int worker, const Header& header) const;
  Slot& slot_of(const Header& header);
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
  /// Those of the header's step; throws Error for one that is not under way.
  Rounds& rounds_of_step(const Header& header);
  std::vector<double> totals_in(const Header& header, std::int64_t round,
                                const std::vector<Tensor>& frames) const;
  /// Settles on the totals of a round, or holds them against those that there are.
  void take_totals(Rounds& rounds, std::size_t round, std::vector<double> totals);
  Replies answer_measures();
  Replies end_rounds(bool finite);
  /// Adds up the oldest updates, until at most `left` are not.
  void add_up_updates(std::size_t left);

  Device& device_;
  ServerConfig config_;
  std::vector<Slot> slots_;
  std::map<std::int64_t, std::size_t> slot_at_;  // by first element
  Tensor parameters_, sums_;                     // own range
  Tensor partial_;                               // of a later push's sum; empty without
  std::unique_ptr<Optimizer> optimizer_;
  std::deque<std::pair<Mark, Mark>> updates_;  // begin and end, of those not added up yet
  double optimizer_seconds_ = 0;
  Rounds rounds_, last_rounds_;  // of this step, and of the one that ended
  std::size_t gathered_ = 0;     // chunks whose gradients are complete
  std::vector<Reply> measures_;  // to be filled in and sent
  std::int64_t sums_done_ = 0;
  std::vector<std::optional<std::vector<double>>> summands_;  // of the sum under way, by worker
  std::vector<bool> done_;
  std::string failure_;
};

}  // namespace ringside::ps
