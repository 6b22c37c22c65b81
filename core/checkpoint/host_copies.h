// Copies of a run's state in the memory of its host, which outlive the processes that made them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/shm/peer_memory.h"

namespace ringside {

/// What one part of a run (RankPart) keeps of its state after its two latest copied steps: each in
/// a nameless file of the host's memory, by turns, so that one is whole whenever the process ends.
/// Whoever opens the files in time has the copies when the process is gone, as Gemini's (Wang et
/// al., SOSP'23, section 4) has those of machines. Costs twice the bytes of the part, and a pass
/// over them for each copy. For one thread.
class HostCopies {
 public:
  /// `constant` is what every copy says about itself: the part, and the run.
  explicit HostCopies(nlohmann::ordered_json constant);
  ~HostCopies();

  /// Copies the state after `done` steps over the older copy. `scalars` is state that is no range.
  /// Returns whether a file has been made for that, so that files() is another list now. Throws
  /// Error if the host has no memory left.
  bool write(std::int64_t done, const nlohmann::ordered_json& scalars,
             const std::vector<HostRange>& ranges);
  /// The files that hold copies, of this process.
  std::vector<shm::Address> files() const;

 private:
  class Slot;

  std::string constant_;
  std::unique_ptr<Slot> slots_[2];
  int next_ = 0;
};

/// A file of HostCopies that this process has opened, and keeps.
class HostCopy {
 public:
  /// Throws Error if the file cannot be opened any more, or holds no copy.
  explicit HostCopy(const shm::Address& of);
  HostCopy(HostCopy&&) noexcept;
  HostCopy& operator=(HostCopy&&) noexcept;
  ~HostCopy();

  /// The number of steps after which the state was copied; none while a copy is written, and where
  /// its process ended meanwhile.
  std::optional<std::int64_t> done() const;
  /// The file as other processes of this host find it, as long as this object lives.
  shm::Address address() const;

 private:
  shm::File file_;
  std::unique_ptr<shm::Mapping> mapping_;
};

/// How a part tells the launcher of its copies' files, by the store: the key, of which a part has
/// another each time, and the value. parse_copies() throws Error for what is no such value.
std::string copies_key(const std::string& part, int number);
/// The part that such a key is about; empty if it is another key.
std::string part_of_key(const std::string& key);
std::string text_of_copies(const std::vector<shm::Address>& files);
std::vector<shm::Address> parse_copies(const std::string& value);

/// A checkpoint of copies after one step, one of every part of a run. Throws Error that names a
/// file that cannot be opened, or that holds no copy or one of another step.
Checkpoint checkpoint_of_copies(const std::vector<shm::Address>& copies);

}  // namespace ringside
