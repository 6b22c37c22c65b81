#include "core/observe/process_memory.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ringside {
namespace {

/// Converts "Rss:   1234 kB" to bytes.
std::int64_t bytes_of(const std::string& line) {
  std::istringstream words(line);
  std::string label;
  std::int64_t kib = 0;
  words >> label >> kib;
  return kib * 1024;
}

/// The owner of a mapping's memory.
enum class Owner { self, peer, all };

/// By the line that describes the mapping. The names of the symmetric heap's files contain their
/// owner's process id. Of an array that all ranks share (Communicator::share), an equal part is
/// each rank's own: the proportional share (Pss).
Owner owner_of(const std::string& mapping) {
  const std::string heap = "/memfd:ringside-";
  if (mapping.find(heap) == std::string::npos) return Owner::self;
  if (mapping.find(heap + "shared ") != std::string::npos) return Owner::all;
  return mapping.find(heap + std::to_string(getpid()) + " ") != std::string::npos ? Owner::self
                                                                                  : Owner::peer;
}

}  // namespace

void note_process_memory(RankRecord& record) {
  record.rss = record.rss_of_peers = 0;
  std::string line;
  std::ifstream status("/proc/self/status");
  while (std::getline(status, line))
    if (line.starts_with("VmHWM:")) record.rss = bytes_of(line);

  // For smaps the system looks at every page of the process.
  std::ifstream maps("/proc/self/maps");
  bool of_others = false;
  while (!of_others && std::getline(maps, line)) of_others = owner_of(line) != Owner::self;
  if (!of_others) return;
  Owner owner = Owner::self;
  std::ifstream pages("/proc/self/smaps");
  while (std::getline(pages, line)) {
    if (const bool is_header = line.find('-') < line.find(' '); is_header) {
      owner = owner_of(line);
    } else if (owner != Owner::self && line.starts_with("Rss:")) {
      record.rss_of_peers += bytes_of(line);
    } else if (owner == Owner::all && line.starts_with("Pss:")) {
      record.rss_of_peers -= bytes_of(line);
    }
  }
}

}  // namespace ringside
