// TableLinks: tables that units of two stages read.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/models/model_part.h"
#include "core/scheme/pipeline_group.h"

namespace ringside {

/// The tables of edges of kind Edge::Kind::table whose two units are in different stages, such as
/// the token table that a language model's head reads. The owner's stage sends the table's values
/// once before the reader needs them, V * h elements a step and evaluation; the reader's stage
/// sends its part of the gradient after every micro-batch, and the owner adds the two parts up as a
/// model on one rank does, so that the sums have its bits. For the thread that trains.
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
  /// After the stage's gradients of parameters of a micro-batch: sends the parts of its readers.
  void send_gradients(int stage, SideValues& side);
  /// Before them: writes the readers' parts to the `side` of the owner. Blocks until they are here.
  void take_gradients(int stage, SideValues& side);
  /// The forward of a pass has been given up before any gradient was sent: takes the values that
  /// are on their way, which are those of owners' stages for which `was_sent` holds. Blocks until
  /// they are here and all sends are over.
  void drop(const std::function<bool(int stage)>& was_sent);
  /// Blocks until all sends are over.
  void finish_sends();

 private:
  struct Table {
    std::size_t edge = 0, parameter = 0;
    int owner = 0, reader = 0;  // their stages
    std::size_t unit = 0;       // the owner, in this rank's model, if it is here
    Shape shape{};
    bool is_owner = false, is_reader = false;
    bool current = false;  // the owner has sent the present values, or the reader has them
    Tensor values{};       // of the reader
  };
  struct Sent {
    Tensor value;  // kept until the send is over
    WorkPtr work;
  };

  void send(const Tensor& value, int to_stage);
  Tensor receive(Shape shape, MemoryKind kind, int from_stage, const char* what);

  const RankContext& context_;
  const Model& model_;
  PipelineGroup& group_;
  std::vector<Table> tables_;
  std::deque<Sent> sent_;
};

}  // namespace ringside
