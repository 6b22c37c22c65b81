// AD-PSGD: workers that do not wait for each other, and average their replicas in pairs.
#pragma once

#include <memory>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/observe/rank_record.h"
#include "core/scheme/scheme_info.h"
#include "ps/schemes/server_options.h"

namespace ringside::ps {

/// The passive workers that an active one may meet.
enum class Neighbours : std::uint8_t {
  ring,  // the worker before and the one after, as far as they are passive
  all
};
inline constexpr std::string_view neighbours_names[] = {"ring", "all"};
constexpr EnumNames names_of(Neighbours) { return neighbours_names; }

struct AdpsgdOptions {
  Neighbours neighbours = Neighbours::ring;
  TransportKind transport = TransportKind::automatic;
  std::int64_t port = 0;
  Reach reach{};

  static constexpr ServerDevice server_device = ServerDevice::same;
};

Fields fields_of(AdpsgdOptions& options);

/// Throws Error for option values that are not allowed.
void check(const AdpsgdOptions& options, const RunPlan& plan);

/// The roles of workers: half of them, rounded down, are passive (but one worker alone is passive).
/// Passive worker s of these has server s in its process; the others are active.
class Pairing {
 public:
  Pairing(const AdpsgdOptions& options, int world, std::int64_t seed);

  const std::vector<int>& passive() const { return passive_; }
  /// The number of the server in the worker's process; -1 for an active worker.
  int server_of(int worker) const;
  /// The server whose replica an active worker meets in a step: drawn at random, by counter.
  int met_by(int worker, std::int64_t step) const;

 private:
  Neighbours neighbours_;
  int world_;
  std::uint64_t seed_;
  std::vector<int> passive_;
};

/// Servers 0, 1, ... are colocated with passive workers.
ServerCounts count_servers(const AdpsgdOptions& options, int world);

/// AD-PSGD (Lian et al., ICML 2018, algorithm 1, on its bipartite graph of active and passive
/// workers, so that no two averagings can wait for each other). Every worker does train.steps steps
/// with an optimizer of its own, and waits for no other worker's step. An active worker sends its
/// values x to the server of a passive neighbour, which holds that worker's values y, and computes
/// its gradient at x meanwhile. The server sets y = (x + y) / 2 and replies with that mean m. The
/// active worker goes on from m plus the update that its optimizer has made of its gradient. A
/// passive worker computes its gradient at a copy of y, and then adds its update to y, which others
/// may have averaged since. At the end a passive worker's replica is y.
///
/// In a step an active worker sends 4 bytes a parameter, and the server that it meets as many. A
/// worker holds two more copies of its replica; a server holds one, and one for each reply.
///
/// Blocks in its hooks until the replies of the step have come. Throws the errors of ps::Client.
std::unique_ptr<SyncScheme> make_adpsgd(const RankContext& context, const AdpsgdOptions& options);

/// The definition: replays RunPlan::history, which has the averagings and updates of every server
/// in their order, with the replicas of all workers side by side.
std::unique_ptr<SyncScheme> define_adpsgd(const RankContext& context, const AdpsgdOptions& options);

/// Runs this rank's server until all workers are done; see ps/protocol/server_loop.h.
RankRecord serve_adpsgd(const RankContext& context, const AdpsgdOptions& options, Model& model,
                        const Loader& loader);

/// The settings of the transport; the largest frame is a replica.
TransportOptions pair_transport(const RankContext& context, const AdpsgdOptions& options,
                                const Model& model);

/// The scheme's info, for the registry.
SchemeInfo adpsgd_info();

}  // namespace ringside::ps
