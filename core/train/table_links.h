// TableLinks: tables that units of two stages read.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "core/models/model_part.h"
#include "core/scheme/pipeline_group.h"

namespace ringside {

/// The tables of a pipeline that two stages read (BorderTable), such as the token table that a
/// language model's head reads. The owner's stage sends the table's values once before the reader
/// needs them, V * h elements a step and evaluation; the reader's stage sends its part of the
/// gradient after every micro-batch, and the owner adds the two parts up as a model on one rank
/// does, so that the sums have its bits. The owner receives one part at a time, beside what it
/// computes, from its first backward on: V * h elements of kind gradient. Stages of one rank hand
/// both over without a message. For the thread that trains.
class TableLinks {
 public:
  /// The arguments outlive this object.
  TableLinks(const RankContext& context, const Model& model);

  /// Parameters may have changed: the next micro-batch sends the values again.
  void begin_pass();
  /// A unit of this rank's model is about to compute, and is bound to its values.
  void bound(std::size_t unit);
  /// Before a stage's forward: writes the tables that its units read to `side`. Blocks until they
  /// are here.
  void take_values(int stage, SideValues& side);

  /// What waits for a table's gradient in a micro-batch of its owner's stage: the first units of
  /// the stage, up to the owner, as gradients of units are complete from the last to the first. It
  /// is the end of the stage's B or W, or comes later (pipeline::TablePlace).
  struct Rest {
    std::size_t units = 0;  // 0: no unit waits
    bool is_late = false;
    std::size_t before = 0;  // the index of the action, if it is late
  };
  Rest rest_of(int stage, std::int64_t micro_batch) const;

  /// After the stage's gradients of parameters of a micro-batch: sends the parts of its readers.
  void send_gradients(int stage, SideValues& side);
  /// Begins to receive the readers' part of the next micro-batch, if none is on its way.
  void receive_gradients(int stage);
  /// Before the owner adds up: writes the readers' parts to the `side` of the owner, in the order
  /// of micro-batches. Blocks until they are here.
  void take_gradients(int stage, SideValues& side);

  /// The forward of a pass has been given up before any gradient was sent: takes the values that
  /// are on their way, which are those of owners' stages for which `was_sent` holds. Blocks until
  /// they are here and all sends are over.
  void drop(const std::function<bool(int stage)>& was_sent);
  /// Blocks until all sends are over.
  void finish_sends();

 private:
  struct Table {
    BorderTable of{};
    int owner = 0, reader = 0;                   // their ranks
    std::size_t unit = 0;                        // the owner, in this rank's model, if it is here
    std::size_t units = 0;                       // of the owner's stage, up to the owner
    std::vector<pipeline::TablePlace> places{};  // of the owner
    bool current = false;                        // the owner has sent the present values
    Tensor values{};                             // of the reader
    std::deque<Tensor> made{};                   // gradients, if both stages are on this rank
    std::int64_t received = 0;                   // gradients of this pass, with that on its way
    Tensor gradient{};                           // on its way
    WorkPtr work{};

    bool is_here() const { return owner == reader; }
  };
  struct Sent {
    Tensor value;  // kept until the send is over
    WorkPtr work;
  };

  bool is_owners(const Table& table, int stage) const;
  bool is_readers(const Table& table, int stage) const;
  void receive_gradient(Table& table);
  void send(const Tensor& value, int to);
  Tensor new_table(const Table& table, MemoryKind kind) const;
  Tensor receive_values(const Table& table, const char* what);

  const RankContext& context_;
  const Model& model_;
  PipelineGroup& group_;
  std::vector<Table> tables_;
  std::deque<Sent> sent_;
};

}  // namespace ringside
