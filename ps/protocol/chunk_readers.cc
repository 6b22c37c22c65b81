#include "ps/protocol/chunk_readers.h"

#include <utility>

namespace ringside::ps {

void ChunkReaders::leave(int worker) {
  std::erase_if(waiting_, [&](const ChunkReader& reader) { return reader.worker == worker; });
}

std::vector<ChunkReader> ChunkReaders::take(
    const std::function<bool(const ChunkReader& reader)>& may, const Read& now) {
  std::vector<ChunkReader> served, waiting;
  for (ChunkReader& reader : waiting_) {
    const bool reads = may(reader);
    if (reads && reader.values && reader.trains)
      reads_[static_cast<std::size_t>(reader.worker)] = now;
    (reads ? served : waiting).push_back(std::move(reader));
  }
  waiting_ = std::move(waiting);
  return served;
}

std::vector<std::int64_t> ChunkReaders::versions() const {
  std::vector<std::int64_t> versions;
  for (const Read& read : reads_) versions.push_back(read.version);
  return versions;
}

void ChunkReaders::restored(const std::vector<std::int64_t>& versions, double now) {
  for (std::size_t w = 0; w < reads_.size(); ++w) reads_[w] = {versions[w], now};
}

}  // namespace ringside::ps
