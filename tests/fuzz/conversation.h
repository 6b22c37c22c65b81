// Messages made from a fuzzer's bytes, and the checks of every answer.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ps/protocol/parameter_server.h"
#include "tests/fuzz/input.h"

namespace ringside::fuzz {

/// A sequence of messages to a server: mostly valid ones, some of them wrong in any way.
class Conversation {
 public:
  Conversation(Input& input, Device& device, const std::vector<ps::Chunk>& chunks,
               const ps::ServerConfig& config);
  /// Changes a message before it is sent, for messages that only one kind of server understands.
  virtual void shape(ps::Message&, int) {}
  virtual ~Conversation() = default;

  /// Sends messages until the bytes are used up.
  void hold(ps::Server& server);

 protected:
  Tensor frame(DType dtype, std::int64_t count);
  Input& input() { return input_; }

 private:
  ps::Message next(int worker);
  void check(const ps::Server& server, int worker, const ps::Header& asked, std::int64_t steps,
             const ps::Replies& replies);

  Input& input_;
  Device& device_;
  std::vector<ps::Chunk> chunks_;
  ps::ServerConfig config_;
  /// Pushes that the server has taken, by worker and first element.
  std::map<std::pair<int, std::int64_t>, std::int64_t> pushed_;
  std::set<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>> applied_;
  std::vector<std::int64_t> rounds_;  // rounds of sums that each worker has asked for, in its step
  std::vector<std::int64_t> settled_;
  std::int64_t sums_ = 0;
  Tensor totals_;  // the sums that the server measured last
};

}  // namespace ringside::fuzz
