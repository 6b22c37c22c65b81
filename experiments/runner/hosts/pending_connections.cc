#include "experiments/runner/hosts/pending_connections.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside::runner {
namespace {

constexpr int nap_ms = 50;
/// So many that wait are accepted at once, however many there are.
constexpr int most_at_once = 32;

/// Whether what has come begins as a line of a job does: who speaks the protocol of another port
/// need not be listened to until the line ends.
bool begins_as_a_line(int socket) {
  char first = 0;
  const ssize_t n = recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  return n != 1 || first == '{';
}

}  // namespace

std::vector<bool> poll_files(const std::vector<int>& files) {
  std::vector<pollfd> polled;
  for (const int file : files) polled.push_back({file, POLLIN, 0});
  poll(polled.data(), polled.size(), nap_ms);
  std::vector<bool> ready;
  for (const pollfd& one : polled) ready.push_back(one.revents != 0);
  return ready;
}

std::vector<int> PendingConnections::files() const {
  std::vector<int> files = {listener_.file()};
  for (const Unknown& unknown : unknown_) files.push_back(unknown.line->socket());
  return files;
}

std::vector<AcceptedConnection> PendingConnections::hear(const std::vector<bool>& ready) {
  std::vector<AcceptedConnection> introduced;
  std::vector<Unknown> still;
  for (std::size_t i = 0; i < unknown_.size(); ++i)
    if (!ready.at(1 + i) || !hear(unknown_[i], introduced)) still.push_back(std::move(unknown_[i]));
  unknown_ = std::move(still);
  std::erase_if(unknown_, [&](const Unknown& unknown) {
    const bool silent = seconds_now() - unknown.since > introduction_s;
    if (silent)
      refusals_.add(fmt::format("a connection is dropped: it has not said within {} s who it is",
                                introduction_s));
    return silent;
  });
  if (ready.front()) accept();
  const std::size_t strangers = listener_.strangers();
  if (strangers > strangers_)
    refusals_.add("a connection is dropped: it has shown no key of this job",
                  strangers - std::exchange(strangers_, strangers));
  refusals_.look();
  return introduced;
}

void PendingConnections::accept() {
  for (int i = 0; i < most_at_once; ++i) try {
      if (!accept_one()) return;
    } catch (const Error& error) {
      refusals_.add(error.what());
    }
}

bool PendingConnections::accept_one() {
  const auto connection = listener_.accept();
  if (!connection) return false;
  if (unknown_.size() == most_unknown) {
    refusals_.add(
        fmt::format("more than {} connections have not said who they are; the oldest is dropped",
                    most_unknown));
    unknown_.erase(unknown_.begin());
  }
  unknown_.push_back({std::make_unique<JsonLine>(connection->socket, longest_job_line),
                      connection->holder, seconds_now()});
  return true;
}

bool PendingConnections::hear(Unknown& unknown, std::vector<AcceptedConnection>& introduced) const {
  try {
    if (!begins_as_a_line(unknown.line->socket())) throw Error("it is of no process of a job");
    auto values = unknown.line->receive();
    if (values && values->empty()) return false;
    // Whoever only looks whether somebody listens has done no harm.
    if (!values) return true;
    if (values->size() > 1) throw Error("it says more than who it is");
    introduced.push_back({std::move(unknown.line), unknown.holder,
                          std::make_unique<nlohmann::json>(std::move(values->front()))});
  } catch (const nlohmann::json::exception&) {
    refusals_.add("a connection is dropped: its line is no JSON");
  } catch (const Error& error) {
    refusals_.add(fmt::format("a connection is dropped: {}", error.what()));
  }
  return true;
}

void PendingConnections::refuse(const AcceptedConnection& newcomer,
                                const std::string& cause) const {
  newcomer.line->send({{"refused", cause}});
  refusals_.add(fmt::format("a process is refused: {}", cause));
}

}  // namespace ringside::runner
