// check() of schedules: first every action by itself, then each stage, then values between stages,
// and last the ranks together.
#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "core/base/counted.h"
#include "core/pipeline/circular_wait.h"
#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

constexpr std::size_t operations = std::size(operation_names);
constexpr std::int64_t nowhere = -1;

class ScheduleCheck {
 public:
  explicit ScheduleCheck(const Schedule& schedule)
      : schedule_(schedule), with_sends_(has_sends(schedule)) {}

  void run() {
    check_numbers();
    check_ranks();
    check_actions();
    for (int stage = 0; stage < schedule_.stages(); ++stage) check_stage(stage);
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) check_values(stage, m);
    check_order_between_stages();
    if (with_sends_) check_order_of_receives();
    if (const auto circle = circular_wait(schedule_))
      fail(circle->text, "let one of them do something else first", circle->rank, circle->action);
  }

 private:
  [[noreturn]] void fail(std::string_view cause, std::string_view remedy,
                         int rank = WrongSchedule::everywhere,
                         std::optional<std::size_t> action = {}) const {
    throw WrongSchedule(schedule_.name, cause, remedy, rank, action);
  }
  /// `at`: the index of the action among those of its rank; nothing if it is missing.
  [[noreturn]] void fail_at(const Action& action, std::optional<std::size_t> at,
                            std::string_view what, std::string_view remedy) const {
    const int rank = rank_of(schedule_, action.stage);
    fail(fmt::format("rank {}, stage {}: {} of micro-batch {} {}", rank, action.stage,
                     name_of(action.operation), action.micro_batch, what),
         remedy, rank, at);
  }
  [[noreturn]] void fail(const Action& action, std::string_view what, std::string_view remedy) {
    const std::int64_t at = place(action);
    fail_at(action, at == nowhere ? std::nullopt : std::optional(static_cast<std::size_t>(at)),
            what, remedy);
  }

  std::int64_t number_of_actions() const {
    std::int64_t out = 0;
    for (const auto& actions : schedule_.actions) out += static_cast<std::int64_t>(actions.size());
    return out;
  }

  /// The product of stages and micro-batches is less than the number of actions from here on.
  void check_numbers() const {
    if (schedule_.micro_batches < 1 || schedule_.stages() < 1 || schedule_.ranks() < 1)
      fail(fmt::format("it has {}, {} and {}", counted(schedule_.ranks(), "rank"),
                       counted(schedule_.stages(), "stage"),
                       counted(schedule_.micro_batches, "micro-batch", "es")),
           "give it at least one of each");
    const std::int64_t count = number_of_actions();
    if (count > most_actions)
      fail(fmt::format("it has {} actions, and at most {} are allowed", count, most_actions),
           "let it have fewer micro-batches or stages");
    if (schedule_.micro_batches > count / schedule_.stages())
      fail(fmt::format("it has {}, too few for F of {} in {}", counted(count, "action"),
                       counted(schedule_.micro_batches, "micro-batch", "es"),
                       counted(schedule_.stages(), "stage")),
           "number micro-batches and stages from 0 on, without gaps");
  }

  void check_ranks() const {
    std::vector<bool> has_stage(schedule_.actions.size());
    for (int stage = 0; stage < schedule_.stages(); ++stage) {
      const int rank = rank_of(schedule_, stage);
      if (rank < 0 || rank >= schedule_.ranks())
        fail(fmt::format("stage {} is on rank {}, but there {} {}", stage, rank,
                         schedule_.ranks() == 1 ? "is" : "are", counted(schedule_.ranks(), "rank")),
             "give it to one of these");
      has_stage[static_cast<std::size_t>(rank)] = true;
    }
    for (std::size_t rank = 0; rank < has_stage.size(); ++rank)
      if (!has_stage[rank])
        fail(fmt::format("rank {} has no stage", rank), "give it one, or leave the rank out",
             static_cast<int>(rank));
  }

  // ---- where each action is

  std::int64_t& place(const Action& action) {
    const std::int64_t cell = action.stage * schedule_.micro_batches + action.micro_batch;
    return places_[static_cast<std::size_t>(action.operation)][static_cast<std::size_t>(cell)];
  }
  bool has(const Action& action) { return place(action) != nowhere; }

  void check_belongs(int rank, std::size_t at, const Action& action) const {
    if (action.stage < 0 || action.stage >= schedule_.stages() || action.micro_batch < 0 ||
        action.micro_batch >= schedule_.micro_batches)
      fail(fmt::format("rank {}: there is no {}: stages go to {}, micro-batches to {}", rank,
                       text_of(action), schedule_.stages() - 1, schedule_.micro_batches - 1),
           "leave it out", rank, at);
    if (rank_of(schedule_, action.stage) != rank)
      fail(fmt::format("rank {} has {}, but stage {} is on rank {}", rank, text_of(action),
                       action.stage, rank_of(schedule_, action.stage)),
           "give all actions of a stage to one rank", rank, at);
  }

  void check_actions() {
    const auto cells = static_cast<std::size_t>(schedule_.stages() * schedule_.micro_batches);
    for (auto& places : places_) places.assign(cells, nowhere);
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& actions = schedule_.actions[static_cast<std::size_t>(rank)];
      for (std::size_t at = 0; at < actions.size(); ++at) {
        check_belongs(rank, at, actions[at]);
        if (has(actions[at])) fail_at(actions[at], at, "is there twice", "leave one out");
        place(actions[at]) = static_cast<std::int64_t>(at);
      }
    }
  }

  // ---- each stage

  void require(const Action& action) {
    if (has(action)) return;
    fail(action, "is missing",
         computes(action.operation) ? "add it" : "add it, or leave all sends and receives out");
  }
  /// Both actions are there, and of one rank.
  void require_order(const Action& first, const Action& then) {
    if (place(then) < place(first))
      fail(then, fmt::format("comes before {}, which it needs", text_of(first)),
           "put it behind that");
  }

  /// What does the backward whose results the optimizer needs: B, or else W.
  Action last_of(int stage, std::int64_t m) {
    const Action backward{stage, Operation::backward, m};
    return has(backward) ? backward : Action{stage, Operation::weight_gradient, m};
  }
  /// What makes the gradient for the stage before: B, or else I.
  Action input_gradient_of(int stage, std::int64_t m) {
    const Action backward{stage, Operation::backward, m};
    return has(backward) ? backward : Action{stage, Operation::input_gradient, m};
  }

  void check_backward(int stage, std::int64_t m) {
    const Action forward{stage, Operation::forward, m}, whole{stage, Operation::backward, m},
        input{stage, Operation::input_gradient, m}, weight{stage, Operation::weight_gradient, m};
    if (!has(whole) && !has(input) && !has(weight))
      fail(whole, "is missing, and so are I and W", "add it, or both of them");
    if (has(whole)) {
      if (has(input)) fail(input, "is there twice: B does it too", "leave it out, or B");
      if (has(weight)) fail(weight, "is there twice: B does it too", "leave it out, or B");
      require_order(forward, whole);
      return;
    }
    require(input);
    require(weight);
    require_order(forward, input);
    require_order(input, weight);
  }

  void check_stage(int stage) {
    for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) {
      require({stage, Operation::forward, m});
      check_backward(stage, m);
      if (m == 0) continue;
      const Action before = last_of(stage, m - 1), now = last_of(stage, m);
      if (place(now) < place(before))
        fail(now,
             fmt::format("comes before {}: gradients add up in ascending order of micro-batches",
                         text_of(before)),
             "put it behind that");
    }
  }

  // ---- values between stages

  /// That what stage `stage` needs for micro-batch `m` is there before.
  void check_values(int stage, std::int64_t m) {
    if (stage > 0)
      check_value({stage - 1, stage, m}, {stage - 1, Operation::forward, m},
                  {stage, Operation::forward, m});
    if (stage + 1 < schedule_.stages())
      check_value({stage + 1, stage, m}, input_gradient_of(stage + 1, m),
                  input_gradient_of(stage, m));
  }

  void check_value(const Value& value, const Action& maker, const Action& user) {
    const Action send = send_of(value), receive = receive_of(value);
    if (!crosses(schedule_, value)) {
      for (const Action& action : {send, receive})
        if (has(action)) fail(action, "moves a value between stages of one rank", "leave it out");
      require_order(maker, user);
    } else if (with_sends_) {
      require(send);
      require(receive);
      require_order(maker, send);
      require_order(receive, user);
    }
  }

  /// Actions of an operation in a stage, by their places.
  template <class ActionOf>
  std::vector<std::int64_t> order(int stage, ActionOf action_of) {
    std::map<std::int64_t, std::int64_t> by_place;
    for (std::int64_t m = 0; m < schedule_.micro_batches; ++m)
      by_place[place(action_of(stage, m))] = m;
    std::vector<std::int64_t> out;
    for (const auto& [at, m] : by_place) out.push_back(m);
    return out;
  }

  template <class ActionOf>
  void check_same_order(int from, int to, ActionOf action_of) {
    if (rank_of(schedule_, from) == rank_of(schedule_, to)) return;
    const auto makes = order(from, action_of), takes = order(to, action_of);
    for (std::size_t i = 0; i < makes.size(); ++i)
      if (makes[i] != takes[i])
        fail(action_of(to, takes[i]),
             fmt::format("comes before that of micro-batch {}, which stage {} on rank {} passes on "
                         "first",
                         makes[i], from, rank_of(schedule_, from)),
             "let both stages take micro-batches in the same order");
  }

  void check_order_between_stages() {
    const auto forward = [](int stage, std::int64_t m) {
      return Action{stage, Operation::forward, m};
    };
    const auto backward = [this](int stage, std::int64_t m) { return input_gradient_of(stage, m); };
    for (int stage = 0; stage + 1 < schedule_.stages(); ++stage) {
      check_same_order(stage, stage + 1, forward);
      check_same_order(stage + 1, stage, backward);
    }
  }

  /// Values that move between two ranks, in the order in which they are sent or received.
  using Channels = std::map<std::pair<int, int>, std::vector<Value>>;
  Channels channels(bool of_sends) const {
    Channels out;
    for (const auto& actions : schedule_.actions)
      for (const Action& action : actions) {
        const auto value = moved(schedule_, action);
        if (value && sends(action.operation) == of_sends)
          out[{rank_of(schedule_, value->from), rank_of(schedule_, value->to)}].push_back(*value);
      }
    return out;
  }

  /// Every value has one send and one receive.
  void check_order_of_receives() {
    for (std::size_t of = 0; of < operations; ++of) check_ends(static_cast<Operation>(of));
    const Channels sent = channels(true), received = channels(false);
    for (const auto& [ranks, values] : received)
      for (std::size_t i = 0; i < values.size(); ++i)
        if (const Value& first = sent.at(ranks)[i]; first != values[i])
          fail(receive_of(values[i]),
               fmt::format("comes before {}, but rank {} sends {} first",
                           text_of(receive_of(first)), ranks.first, text_of(send_of(first))),
               "receive in the order of the sends, or leave all sends and receives out");
  }

  /// No send leads out of the last stage, and no receive into the first one.
  void check_ends(Operation operation) {
    if (computes(operation)) return;
    for (const int stage : {0, schedule_.stages() - 1})
      for (std::int64_t m = 0; m < schedule_.micro_batches; ++m) {
        const Action action{stage, operation, m};
        if (has(action) && !moved(schedule_, action))
          fail(action, "has no stage at its other end", "leave it out");
      }
  }

  const Schedule& schedule_;
  bool with_sends_;
  /// Of each operation, stage and micro-batch: the index among the actions of its rank.
  std::array<std::vector<std::int64_t>, operations> places_{};
};

}  // namespace

void check(const Schedule& schedule) { ScheduleCheck(schedule).run(); }

}  // namespace ringside::pipeline
