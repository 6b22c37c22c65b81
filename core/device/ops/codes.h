// Operations of codes: gradients in fewer bytes (core/compress). Operands are flat and fp32 unless
// said; every operation is about one tensor of a model. Results depend on the operands alone, not
// on the number of threads. See core/device/ops.h.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/tensor.h"

namespace ringside {

/// Selects the k elements with the largest absolute values, where k is the number of `indices`
/// (int32, ascending); `values` are the elements. Of equal absolute values those with the lowest
/// indices are selected. A NaN counts as larger than every number.
struct SelectTopK {
  Tensor in{};
  Tensor indices{}, values{};
};
/// Draws k different indices below `below`, each with the same probability, where k is the number
/// of `indices` (int32): one from each of k stretches of equal size, to one element, all moved by
/// the same distance modulo `below`. Word j % 4 of philox({lower half of j / 4, upper half of j /
/// 4, `number`, `step`}, code_key(`seed`)), multiplied by the size of stretch j and divided by
/// 2^32, is added to the beginning of the stretch; the distance is word 0 for j / 4 = 2^64 - 1,
/// multiplied by `below` and divided by 2^32.
struct DrawIndices {
  Tensor indices{};
  std::int64_t below = 0;
  std::uint64_t seed = 0;
  std::uint32_t number = 0, step = 0;
};
/// out[i] = a normal number: random_normal(`seed`, Stream::codes, `number` * 2^32 + i), rounded to
/// fp32 (core/num/random.h). Devices agree to rounding.
struct DrawNormal {
  Tensor out{};
  std::uint64_t seed = 0;
  std::uint32_t number = 0;
};
/// out[j] = in[indices[j]]
struct TakeElements {
  Tensor in{}, indices{}, out{};
};
/// out[indices[j]] += scale * in[j]. The indices differ. Those that `out` does not have, as in a
/// message from elsewhere, are left out.
struct AddElements {
  Tensor in{}, indices{}, out{};
  float scale = 1;
};
/// Bit i % 8 of byte i / 8 of `signs` (uint8, one byte for 8 elements) says whether in[i] >= 0; the
/// last bits of the last byte are 0. `magnitude` [1] is the mean of the absolute values, or with
/// `root_mean_square` the root of the mean of the squares; optional.
struct PackSigns {
  Tensor in{};
  Tensor signs{}, magnitude{};
  bool root_mean_square = false;
};
/// For each of the codes in turn: out[i] += m where its sign of element i says in[i] >= 0, and -= m
/// elsewhere, where m is scale * its magnitude, or `scale` alone if `magnitudes` is empty. If not
/// `onto`, `out` is not read: sums begin with 0.
struct AddSigns {
  std::vector<Tensor> signs{}, magnitudes{};
  Tensor out{};
  float scale = 1;
  bool onto = true;
};
/// Rounds blocks of `block` elements (the last may be smaller) to integers from -L to L in two's
/// complement, with L = 127 in 8 `bits` and 7 in 4: QSGD (Alistarh et al., NeurIPS 2017, section
/// 3.1) with the block's largest absolute value for its norm, which goes into `norms`. With level l
/// = |x| * (L / norm), the code of x is the integer part of l + u with the sign of x, where u is (h
/// + 1/2) / 256. So the mean of a code over all draws is l, up to 2^-9. Element e with r = e % 1024
/// takes for h byte r / 256 (0: the lowest) of scrambled(k + r % 256), where k is word 0 of
/// philox({lower half of g, upper half of g, `number`, `step`}, code_key(`seed`)) with g = e / 1024
/// (core/num/random.h). If not `random`, u is 1/2 for all: codes are the nearest integers. `codes`
/// are uint8: one byte for each element; with 4 bits code_bytes(count, block, 4) bytes, where every
/// block begins with a byte of its own, and the first of two elements is in the lower half.
struct Quantise {
  Tensor in{};
  Tensor codes{}, norms{};
  std::int64_t block = 1;
  int bits = 8;
  bool random = true;
  std::uint64_t seed = 0;
  std::uint32_t number = 0, step = 0;
};
/// For each of the codes in turn: out[i] += scale * norm / L * code, with scale * norm / L rounded
/// first. If not `onto`, `out` is not read: sums begin with 0.
struct AddQuantised {
  std::vector<Tensor> codes{}, norms{};
  Tensor out{};
  std::int64_t block = 1;
  int bits = 8;
  float scale = 1;
  bool onto = true;
};
/// The number of blocks, and of bytes, that `count` elements are quantised to.
constexpr std::int64_t code_blocks(std::int64_t count, std::int64_t block) {
  return count / block + (count % block == 0 ? 0 : 1);
}
constexpr std::int64_t code_bytes(std::int64_t count, std::int64_t block, int bits) {
  return bits == 8 ? count : count / block * ((block + 1) / 2) + (count % block + 1) / 2;
}
/// L of Quantise.
constexpr float code_levels(int bits) { return bits == 8 ? 127 : 7; }
/// out [m, n] = op(a) * op(b), where op transposes the matrix if the flag says so.
struct MatrixProduct {
  Tensor a{}, b{}, out{};
  bool transpose_a = false, transpose_b = false;
};
/// Makes the columns of `matrix` [n, r], r <= n, orthonormal, from the first to the last
/// (Gram-Schmidt, each column twice). A column that depends on those before it, to about 1e-6 of
/// its norm, is replaced by the first unit vector that does not, to 1e-3: the span keeps its rank.
struct Orthonormalise {
  Tensor matrix{};
};

}  // namespace ringside
