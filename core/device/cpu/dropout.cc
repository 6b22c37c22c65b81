// Dropout. Compiled without relaxed arithmetic, because an element's bits must not depend on its
// place in the range (core/device/ops/flat.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"
#include "core/num/random.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 14;  // elements that are worth a thread
constexpr std::uint64_t batch = 32;      // counters whose words are made together

/// Makes the words of `batch` counters from `counter` on, with the bits of philox()
/// (core/num/random.h), in a loop that compilers vectorise. words[w * batch + i] is word w of
/// counter i.
void draw(std::uint64_t counter, const Dropout& op, std::uint32_t* __restrict words) {
  constexpr std::uint32_t step0 = 0x9e3779b9u, step1 = 0xbb67ae85u;  // added to the key each round
  constexpr std::uint64_t factor0 = 0xd2511f53u, factor1 = 0xcd9e8d57u;
  std::uint32_t* __restrict c0 = words;
  std::uint32_t* __restrict c1 = words + batch;
  std::uint32_t* __restrict c2 = words + 2 * batch;
  std::uint32_t* __restrict c3 = words + 3 * batch;
  for (std::uint64_t i = 0; i < batch; ++i) {
    c0[i] = static_cast<std::uint32_t>(counter + i);
    c1[i] = static_cast<std::uint32_t>((counter + i) >> 32);
    c2[i] = op.layer;
    c3[i] = op.step;
  }
  auto [key0, key1] = dropout_key(op.seed);
  for (int round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < batch; ++i) {
      const std::uint64_t product0 = factor0 * c0[i], product1 = factor1 * c2[i];
      c0[i] = static_cast<std::uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<std::uint32_t>(product1);
      c2[i] = static_cast<std::uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<std::uint32_t>(product0);
    }
    key0 += step0;
    key1 += step1;
  }
}

/// Computes elements [begin, end) of the operation. Each element uses the word of its own number,
/// so the split into ranges does not matter.
template <class T>
void drop(const Dropout& op, std::int64_t begin, std::int64_t end) {
  const T* in = op.in.data<T>();
  T* out = op.out.data<T>();
  // A word is below probability * 2^32 exactly if it is below that number rounded up.
  const auto threshold =
      static_cast<std::uint32_t>(std::ceil(static_cast<double>(op.probability) * 0x1p32));
  const float scale = 1 / (1 - op.probability);
  const auto first = static_cast<std::uint64_t>(op.first);
  std::array<std::uint32_t, 4 * batch> words{}, ordered{};
  for (auto e = first + static_cast<std::uint64_t>(begin);
       e < first + static_cast<std::uint64_t>(end);) {
    const std::uint64_t counter = e / 4;
    draw(counter, op, words.data());
    for (std::uint64_t i = 0; i < batch; ++i)
      for (std::uint64_t w = 0; w < 4; ++w) ordered[i * 4 + w] = words[w * batch + i];
    const std::uint64_t stop =
        std::min((counter + batch) * 4, first + static_cast<std::uint64_t>(end));
    const std::uint32_t* word = ordered.data() + e % 4;
    const T* from = in + (e - first);
    T* to = out + (e - first);
    for (std::uint64_t i = 0; i < stop - e; ++i)
      store(to[i], word[i] < threshold ? 0.0f : load(from[i]) * scale);
    e = stop;
  }
}

}  // namespace

void dropout(const Context& context, const Dropout& op) {
  parallel_for(context.threads, op.out.count(), grain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 with_float_type(op.out.dtype(), [&]<class T>(T) { drop<T>(op, begin, end); });
               });
}

}  // namespace ringside::cpu
