// StageLinks: values and gradients on their way between the stages of a pipeline.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/device/ledger.h"
#include "core/models/model_part.h"
#include "core/scheme/pipeline_group.h"

namespace ringside {

/// The direction of a value in a pipeline.
enum class Way : std::uint8_t { forward, backward };

/// This rank's ends of the borders between stages (BorderValue). What a stage has made waits here
/// for its send, or for the next stage if that is on the same rank; what a receive brings waits for
/// the stage that needs it; meanwhile it is set aside in the device's ledger, as no stage's
/// schedule has it. A micro-batch sends b * s * h elements over each border and in each direction
/// for an output [b, s, h], and those of the edges that the border cuts. For the thread that
/// trains.
class StageLinks {
 public:
  /// The arguments outlive this object.
  explicit StageLinks(const RankContext& context);

  /// Takes what the stage has made of a micro-batch: the output of its last unit and the values of
  /// `side`, or on the way back the gradient of its first unit's input and those of `side`.
  void put(Way way, int stage, std::int64_t micro_batch, Tensor made, SideValues& side);
  /// Returns what the stage needs, and writes the rest to `side`. Blocks until it is here; records
  /// the wait as exposed.
  Tensor take(Way way, int stage, std::int64_t micro_batch, SideValues& side);
  /// Begin to send what put() has taken, and to receive what take() will return.
  void send(Way way, int stage, std::int64_t micro_batch);
  void receive(Way way, int stage, std::int64_t micro_batch);

  /// Lets go of the values whose sends are over, so that they take no memory until the step's end.
  void let_go();
  /// Lets go of all values. Blocks until all receives that have begun and all sends are over.
  void drop();
  /// Blocks until at most so many sends are not over.
  void finish_sends(std::size_t left = 0);

 private:
  /// A stage's values of a micro-batch: one for each BorderValue, in that order.
  using Key = std::pair<int, std::int64_t>;
  struct Waiting {
    SetAside aside;  // ends behind the value
    Tensor value;
  };
  struct Parcel {
    std::vector<Waiting> values{};
    std::vector<WorkPtr> works{};  // while they are on their way
  };

  /// Memory in which a border's value is received.
  Waiting new_value(Way way, const BorderValue& value) const;
  /// What a stage has made; a value that the stage keeps too is not set aside.
  Waiting waiting(Tensor made) const;

  /// The border that values of the stage cross which it makes, or which it needs.
  const std::vector<BorderValue>& border_out(Way way, int stage) const;
  const std::vector<BorderValue>& border_in(Way way, int stage) const;
  int rank_of(int stage) const;
  Communicator& communicator(Way way) const;
  std::string name(Way way, int stage, std::int64_t micro_batch) const;

  const RankContext& context_;
  PipelineGroup& group_;
  std::map<Key, Parcel> made_[2], needed_[2];  // by way: until they are sent, until they are taken
  struct Sent {
    std::string name;
    Waiting value;  // kept until the send is over
    WorkPtr work;
  };
  std::deque<Sent> sent_;
};

}  // namespace ringside
