// Connections to a job's leader that have not yet identified themselves.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_line.h"
#include "experiments/runner/hosts/refusals.h"
#include "experiments/runner/hosts/rendezvous.h"

namespace ringside::runner {

/// Waits briefly until one of the files can be read or has ended, and returns which ones.
std::vector<bool> poll_files(const std::vector<int>& files);

/// A connection that has identified itself in one line.
struct AcceptedConnection {
  std::unique_ptr<JsonLine> line;
  std::optional<ps::KeyHolder> holder;
  std::unique_ptr<nlohmann::json> said;
};

/// Accepts connections and reads their first line. A connection that sends anything but one line of
/// JSON, or nothing for `introduction_s`, is dropped, and so is the oldest one of more than
/// `most_unknown`.
class PendingConnections {
 public:
  /// Every dropped connection is reported to `refusals`. Both arguments outlive this object.
  PendingConnections(ps::StreamListener& listener, Refusals& refusals)
      : listener_(listener), refusals_(refusals) {}

  /// The files to poll for news.
  std::vector<int> files() const;
  /// The connections that have identified themselves by now; does not block. `ready` says which of
  /// files() can be read.
  std::vector<AcceptedConnection> hear(const std::vector<bool>& ready);
  /// Sends a connection the reason of its refusal, and drops it.
  void refuse(const AcceptedConnection& newcomer, const std::string& cause) const;

 private:
  struct Unknown {
    std::unique_ptr<JsonLine> line;
    std::optional<ps::KeyHolder> holder;
    double since = 0;
  };

  void accept();
  /// Returns false once no connection is pending.
  bool accept_one();
  /// Whether the connection is settled: it is added to `introduced`, or dropped.
  bool hear(Unknown& unknown, std::vector<AcceptedConnection>& introduced) const;

  ps::StreamListener& listener_;
  Refusals& refusals_;
  std::size_t strangers_ = 0;  // of the listener, that have been counted
  std::vector<Unknown> unknown_;
};

}  // namespace ringside::runner
