// Merges: which workers each merge of a run takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/protocol/message.h"

namespace ringside::ps {

/// The merges of a run (Policy::grace_s), in order, as one server knows them. One chunk of the
/// model, the first, decides which workers a merge takes; all other chunks, of all servers, take
/// the same workers. Else two workers could wait for ever, each as the only one that one chunk has
/// merged and another has not. Workers carry the decisions from the server of the first chunk to
/// the others (Kind::merge), each to every server: N * (S - 1) messages a merge, with N workers and
/// S servers.
class Merges {
 public:
  /// The most workers that the text of one message can name.
  static constexpr int most_workers = 4096;

  explicit Merges(int workers) : workers_(static_cast<std::size_t>(workers)), told_(workers_) {}

  /// The merges that are known.
  std::int64_t count() const { return static_cast<std::int64_t>(merges_.size()); }
  /// Whether the worker belongs to this merge, which is known.
  bool takes(std::int64_t merge, int worker) const {
    return merges_[static_cast<std::size_t>(merge)][static_cast<std::size_t>(worker)];
  }
  /// The next merge takes these workers, by worker.
  void decide(std::vector<bool> workers) { merges_.push_back(std::move(workers)); }

  /// The messages (Kind::merge, the merge in `step`, its workers in text) about all merges that the
  /// worker has not been told yet.
  std::vector<Header> untold(int worker);
  /// So many merges are over, and known to all.
  void restored(std::int64_t merges) {
    merges_.assign(static_cast<std::size_t>(merges), {});
    told_.assign(workers_, merges_.size());
  }
  /// Takes what a worker passes on. Throws Error, and changes nothing, if it is not the next merge
  /// or one that is known, with the same workers.
  void take(const Header& header);

 private:
  std::string text_of(const std::vector<bool>& workers) const;
  std::vector<bool> workers_in(std::string_view text) const;

  std::size_t workers_;
  std::vector<std::vector<bool>> merges_;
  std::vector<std::size_t> told_;  // by worker: how many merges
};

}  // namespace ringside::ps
