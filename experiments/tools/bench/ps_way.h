// One way of push and pull, as a rank of `ringside bench ps` uses it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/comm/store.h"
#include "core/scheme/replica.h"
#include "ps/schemes/ps.h"
#include "ps/schemes/replica_link.h"

namespace ringside::tools::bench {

/// The roles of one rank. Workers come first: rank w is worker w, and, if servers are dedicated,
/// rank `workers` + s is server s; if they are beside workers, server s is on rank s.
struct PsRoles {
  int rank = 0, workers = 1, servers = 1;
  ps::Placement placement = ps::Placement::dedicated;
  int threads = 1;                                     // of the rank's device
  double timeout_s = 60;                               // for other ranks to connect and to answer
  std::int64_t partition_bytes = ps::max_chunk_bytes;  // of a range, at most
  ps::Reach reach{};      // of the rank's server with transport tcp, and its keys
  std::string program{};  // see RankContext::program

  int ranks() const { return workers + (placement == ps::Placement::dedicated ? servers : 0); }
  bool works() const { return rank < workers; }
  /// -1 for a rank that does not serve.
  int server() const;
  /// "worker 0", "server 1", "worker 0 with server 0".
  std::string name() const;
};

/// The names of all ranks; which rank `roles` describes does not matter.
std::vector<std::string> names_of_ranks(PsRoles roles);

/// A transport and a consistency as a name: "ipc/bsp". ps_way_named() throws Error for a name that
/// no way has.
std::string name_of_way(const ps::PsOptions& options);
ps::PsOptions ps_way_named(std::string_view name);

/// The connections of a rank for one way and one size, and what the rank sends through them: a
/// model of one unit for each server, which only has parameters. A rank that serves does so in a
/// thread of its own, by the loop that servers of a run have, until all workers have left.
class PsWay {
 public:
  /// Starts the server if the rank has one. `device` and what `links` need outlive this object.
  /// `count` is the number of elements, a multiple of the number of servers.
  PsWay(const PsRoles& roles, const ps::PsOptions& way, std::int64_t count, Device& device,
        const Links& links, std::unique_ptr<Store> store);
  /// Collective: a server waits for the last worker.
  ~PsWay();
  PsWay(const PsWay&) = delete;
  PsWay& operator=(const PsWay&) = delete;

  /// Throws Error if this rank's server has failed.
  void check_server() const;

  // The rest is for workers.
  /// Collective; called first. Blocks until all servers listen.
  void connect();
  /// Rewrites the whole gradient for the next round.
  void fill();
  /// Pushes every range of the gradient as the scheme `ps` does and returns when the sums of all
  /// workers are in this worker's own values.
  void push_pull();
  /// The number of wrong elements in the replies of all rounds since the last call.
  std::int64_t count_wrong();
  /// Returns when all workers have called it.
  void meet() { client_->sum({}); }

 private:
  void serve(const ps::Connection& connection);
  std::vector<ps::Chunk> chunks() const {
    return ps::partition(model_, plan_.servers, partition_bytes_);
  }
  void check_round();

  ps::PsOptions way_;
  std::int64_t partition_bytes_;
  ps::TransportOptions transport_options_;
  RunPlan plan_, serving_plan_;
  Device& device_;
  std::unique_ptr<Store> store_;
  Timeline timeline_;
  Shared shared_;
  RankContext context_, serving_context_;
  Model model_;
  std::unique_ptr<ps::Transport> transport_;
  std::unique_ptr<ps::Client> client_;
  std::optional<Replica> replica_;
  std::optional<ps::ReplicaLink> link_;
  std::int64_t rounds_ = 0, wrong_ = 0;
  bool unchecked_ = false;  // the last round's values
  mutable std::mutex failure_mutex_;
  std::string failure_;  // of the server
  std::jthread server_;
};

}  // namespace ringside::tools::bench
