#include "peer/comm/shm/shared_records.h"

#include <algorithm>
#include <bit>

namespace ringside::peer {

// A reader that gets a word of a later record (acquire) also sees the 0 that the writer stored
// before that word (release), and so notices that `number` has changed.

void SharedRecords::begin(std::uint64_t number, const Collective& call, std::string_view purpose,
                          double now) {
  const auto words = std::bit_cast<Words>(record_of(number, call, purpose, now));
  Slot& slot = slots_[(number - 1) % kept];
  slot.number.store(0, std::memory_order_relaxed);
  slot.ended.store(0, std::memory_order_release);
  for (std::size_t w = 0; w < words.size(); ++w)
    slot.words[w].store(words[w], std::memory_order_release);
  slot.number.store(number, std::memory_order_release);
  count_.store(number, std::memory_order_release);
}

void SharedRecords::end(std::uint64_t number, double now) {
  Slot& slot = slots_[(number - 1) % kept];
  if (slot.number.load(std::memory_order_relaxed) == number)
    slot.ended.store(now, std::memory_order_relaxed);
}

std::vector<Record> SharedRecords::list() const {
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  std::vector<Record> out;
  for (std::uint64_t number = count - std::min(count, kept) + 1; number <= count; ++number) {
    const Slot& slot = slots_[(number - 1) % kept];
    if (slot.number.load(std::memory_order_acquire) != number) continue;
    Words words;
    for (std::size_t w = 0; w < words.size(); ++w)
      words[w] = slot.words[w].load(std::memory_order_acquire);
    const double ended = slot.ended.load(std::memory_order_acquire);
    if (slot.number.load(std::memory_order_relaxed) != number) continue;
    out.push_back(std::bit_cast<Record>(words));
    out.back().ended = ended;
  }
  return out;
}

}  // namespace ringside::peer
