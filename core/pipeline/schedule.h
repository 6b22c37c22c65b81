// Schedule: the order of a pipeline's work, as data.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/named_enum.h"

namespace ringside::pipeline {

/// What an action does with one micro-batch in one stage of the model. Names are those of
/// torch.distributed.pipelining. A value leaves a stage by a send and comes into the next one by a
/// receive, both of which only begin there: the action that needs the value waits for it.
enum class Operation : std::uint8_t {
  forward,           // F
  backward,          // B: both gradients
  input_gradient,    // I: backward's first half, which the stage before waits for
  weight_gradient,   // W: its second half, which only the optimizer waits for
  send_forward,      // SEND_F: the output, to the next stage
  receive_forward,   // RECV_F: the input, from the stage before
  send_backward,     // SEND_B: the input's gradient, to the stage before
  receive_backward,  // RECV_B: the output's gradient, from the next stage
};
inline constexpr std::string_view operation_names[] = {"F",      "B",      "I",      "W",
                                                       "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr EnumNames names_of(Operation) { return operation_names; }

/// Whether the operation computes; the others move values between ranks.
constexpr bool computes(Operation operation) { return operation <= Operation::weight_gradient; }

struct Action {
  int stage = 0;
  Operation operation = Operation::forward;
  std::int64_t micro_batch = 0;
  bool operator==(const Action&) const = default;
};
/// The action as CSV files have it: "2F0", "0SEND_F3".
std::string text_of(const Action& action);

/// No schedule has more actions, so that a file or an option cannot ask for all memory.
inline constexpr std::int64_t most_actions = 1 << 20;

/// The actions of one step. Stage s follows stage s - 1 in the model. A rank carries out its
/// actions in their order, one after the other.
struct Schedule {
  std::string name{};
  std::int64_t micro_batches = 0;
  std::vector<int> ranks_of{};                 // the rank of each stage
  std::vector<std::vector<Action>> actions{};  // of each rank

  int ranks() const { return static_cast<int>(actions.size()); }
  int stages() const { return static_cast<int>(ranks_of.size()); }
  /// The stages of a rank, ascending.
  std::vector<int> stages_of(int rank) const;
  bool operator==(const Schedule&) const = default;
};

/// Whether any action sends or receives. A schedule either has all its sends and receives or none;
/// without them it only says who computes what and in which order.
bool has_sends(const Schedule& schedule);

/// Adds the sends and receives between stages of different ranks to a schedule that only computes:
/// a send directly behind the action that makes its value, a receive before the action that comes
/// before the one that needs it, so that the value travels beside compute in both directions. The
/// receives from a rank are in the order of its sends. Returns a schedule that has sends unchanged.
/// For schedules that pass check().
Schedule with_sends(Schedule schedule);

/// What is wrong with a schedule, where, and what to do. The text is "schedule NAME: CAUSE;
/// REMEDY".
class WrongSchedule : public Error {
 public:
  static constexpr int everywhere = -1;  // as `rank`
  WrongSchedule(std::string_view schedule, std::string_view cause, std::string_view remedy,
                int rank = everywhere, std::optional<std::size_t> action = {})
      : Error("schedule {}: {}; {}", schedule, cause, remedy),
        told(fmt::format("{}; {}", cause, remedy)),
        rank(rank),
        action(action) {}

  std::string told;                   // cause and remedy
  int rank;                           // whose actions are wrong
  std::optional<std::size_t> action;  // which of them, if it is one
};

/// Throws WrongSchedule, which names rank, stage, operation and micro-batch, unless every stage
/// does F and B (or I and W) of every micro-batch exactly once and in a possible order, every value
/// that crosses ranks is sent once and received once, receives from a rank are in the order of its
/// sends, no ranks wait for each other in a circle, and every stage completes the backward (B or W)
/// of micro-batches in ascending order, so that gradients add up as in a run of one rank. A stage
/// must also take the micro-batches in the order in which the stages beside it pass them on, or
/// values would wait for those behind them. A schedule without any sends is checked as if every
/// value were sent when it is made.
void check(const Schedule& schedule);

}  // namespace ringside::pipeline
