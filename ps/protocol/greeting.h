// The first message of a worker, which states the configuration that it was started with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/plan/run_plan.h"
#include "ps/protocol/message.h"

namespace ringside::ps {

/// The text of a worker's greeting: the version of the messages, the commit that the program was
/// built from (see RankContext::program), and a digest (XXH3-128) of everything that the ranks of a
/// run must agree on: model, data, training, optimizer, scheme with its options, workers and
/// servers. Paths, addresses and deadlines may differ from machine to machine and are left out.
std::string greeting_of(const RunPlan& plan, std::string_view program = {});

/// The server's check of greetings: it refuses all messages of a worker before its greeting.
class Greetings {
 public:
  Greetings(int server, int workers, std::string own);

  /// Returns the reason for which the worker's message is refused; an empty text for a greeting and
  /// for every message after it. Throws Error with both values if the worker was started with
  /// another program, model or plan: the run cannot go on without this worker.
  std::string refusal(int worker, const Header& header);
  /// Another process may greet as this worker.
  void forget(int worker) { greeted_[static_cast<std::size_t>(worker)] = false; }

 private:
  int server_;
  std::string own_;
  std::vector<bool> greeted_;  // by worker
};

}  // namespace ringside::ps
