// Communicator for ranks of several hosts: shared memory within a host, a library between hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/inter_host_backend.h"
#include "core/comm/store.h"
#include "peer/comm/hosts/staging.h"

namespace ringside::peer {

/// The hosts of a group's ranks.
struct Hosts {
  /// The host of every rank of the group: ranks with the same number share a host.
  std::vector<int> of_ranks;
  InterHostBackend between = InterHostBackend::gloo;
  /// The IPv4 address at which other hosts reach this rank. For Gloo alone: MPI knows its own.
  std::string address;
  double timeout_s = 60;
};

/// Whether an all_reduce of two ranks sends the whole array once in each direction, and both ranks
/// sum all of it: for arrays of one segment. This moves as many bytes as summing one half each and
/// sending it back, and waking a thread twice takes longer than summing the other half. In place of
/// halves, 128 KB took 0.7 of the time over MPICH and Gloo and 1.1 over Open MPI, and 512 KB to 1
/// MB 0.93 to 1.02 over all of them (in turn in one process, as tests/bench/hosts_bench.h does with
/// other sizes).
constexpr bool sums_whole(std::size_t bytes, int ranks) {
  return ranks == 2 && bytes <= segment_bytes;
}

/// For ranks that are processes of one or more hosts (or threads, with Gloo); all ranks of the
/// group call this function, with the same `of_ranks`. Blocks until all have, at most `timeout_s`,
/// which is also the deadline of every later wait. Ranks that all share a host get a communicator
/// over shared memory (peer/comm/shm). The device and the store must outlive the communicator. MPI
/// needs processes that its launcher has started, one for each rank (peer/comm/mpi/wire.h).
///
/// Sums run in rank order, with the bits of the communicator over shared memory. Below, S are the
/// bytes of the whole array, p the ranks, H the hosts, g the ranks of each; a link joins two hosts.
///   all_reduce     Hosts with several ranks in a row: a pipelined chain of prefix sums. Each host
///                  adds its own arrays to the sum of the hosts before it, in one pass, and sends
///                  that on; the whole sum comes back down the chain. S each way on each of H-1
///                  links, S/g of them by each rank; 2 (H-1) steps, and one for every segment (the
///                  pipelines of Pjesivac-Grbovic et al. 2007, up and down; only a chain keeps the
///                  order). Hosts with one rank: every rank sums one part, which all others send
///                  it, and sends them the sum: 2 S (p-1)/p a rank, 2 steps (for two ranks and up
///                  to 1 MB: 1 step).
///   reduce_scatter The first half of these. In the chain a sum goes back only as far as its owner.
///   all_gather     Ranks of a column send each other the blocks of their hosts, which cross every
///                  link once: S (H-1)/H a host, 1 step.
///   broadcast      A pipelined chain from the root's host round all others: S a host, H-1 steps.
///   all_to_all     Pairs of ranks: S (p-1)/p a rank, 1 step.
///   barrier        Dissemination between hosts: ceil(log2 H) steps.
/// If the ranks of a host are not consecutive, sums are made as with one rank a host: p-1 messages
/// of a rank then cross links. Ranks of one host exchange data through shared memory. A group with
/// an algorithm of messages sends the messages of that algorithm, all by the library. With
/// Algorithm::library an all_reduce is the library's own, in its order of sums, among all ranks of
/// all hosts; ranks that all share a host have no library.
///
/// traffic() counts bytes between ranks of a host, as the communicator over shared memory does, and
/// bytes between hosts; a segment that passes through a rank counts as received and sent. Segments
/// that arrive lie in memory of the communicator that no ledger counts: for an all_reduce of up to
/// 64 ranks at most 8 MB, and 128 KB a rank beyond; for the reduce_scatter of a chain 16 MB, and
/// 2 MB for each host above.
///
/// If a rank is late, ends or calls another operation, every rank that waits for it throws Error,
/// which names that rank and the last operations of the ranks on all hosts. A broken connection is
/// an Error at once. Unless the group is broken, the destructor waits until all ranks have reached
/// theirs, at most 5 s, so that they can read what was sent to them. Messages (send, recv) between
/// hosts take a thread for each peer and direction in use. expose() throws, and share() returns an
/// empty tensor.
std::unique_ptr<Communicator> make_hosts_communicator(Device& device, Store& store,
                                                      const Group& group, const Hosts& hosts);

}  // namespace ringside::peer
