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

}  // namespace

void note_process_memory(RankRecord& record) {
  record.rss = record.rss_of_peers = 0;
  std::string line;
  std::ifstream status("/proc/self/status");
  while (std::getline(status, line))
    if (line.starts_with("VmHWM:")) record.rss = bytes_of(line);

  // The names of the symmetric heap's segments contain their owner's process id.
  const std::string heap = "/memfd:ringside-";
  const std::string own = heap + std::to_string(getpid()) + " ";
  // Of an array that all ranks share (Communicator::share), an equal part is each rank's own: the
  // proportional share (Pss).
  const std::string array = "/memfd:ringside-shared ";
  bool of_peer = false, shared = false;
  std::ifstream maps("/proc/self/smaps");
  while (std::getline(maps, line)) {
    if (const bool is_header = line.find('-') < line.find(' '); is_header) {
      shared = line.find(array) != std::string::npos;
      of_peer =
          !shared && line.find(heap) != std::string::npos && line.find(own) == std::string::npos;
    } else if ((of_peer || shared) && line.starts_with("Rss:")) {
      record.rss_of_peers += bytes_of(line);
    } else if (shared && line.starts_with("Pss:")) {
      record.rss_of_peers -= bytes_of(line);
    }
  }
}

}  // namespace ringside
