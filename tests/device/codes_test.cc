// Operations of codes on every device, against their definitions.
#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "tests/device/harness.h"

namespace ringside {
namespace {

using reference::Values;

constexpr std::int64_t code_sizes[] = {1, 7, 33, 130, 5000, 100003};

std::vector<KernelCase> fp32_on_devices() {
  std::vector<KernelCase> cases;
  for (const auto& device : devices_under_test()) cases.push_back({device, DType::f32});
  return cases;
}

class CodeKernels : public KernelsOnDevice {
 protected:
  Tensor empty(std::int64_t count, DType dtype) {
    return device().tensor({count}, MemoryKind::communication, dtype);
  }
  template <class T>
  std::vector<T> all(const Tensor& tensor) const {
    std::vector<T> host(static_cast<std::size_t>(tensor.count()));
    device().read(tensor, std::as_writable_bytes(std::span(host)));
    return host;
  }
  std::vector<float> floats(const Values& values) const { return {values.begin(), values.end()}; }
};
INSTANTIATE_TEST_SUITE_P(Devices, CodeKernels, ::testing::ValuesIn(fp32_on_devices()), case_name);

std::uint32_t magnitude_key(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

/// The indices of the k elements with the largest absolute values, by sorting all.
std::vector<std::int32_t> top_of(const std::vector<float>& in, std::int64_t k) {
  std::vector<std::int32_t> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return magnitude_key(in[static_cast<std::size_t>(a)]) >
           magnitude_key(in[static_cast<std::size_t>(b)]);
  });
  order.resize(static_cast<std::size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

TEST_P(CodeKernels, SelectTopKTakesTheLargestAndOfEqualOnesTheFirst) {
  for (const auto count : code_sizes)
    for (const bool ties : {false, true})
      for (const std::int64_t k : {std::int64_t{1}, (count + 99) / 100, (count + 1) / 2, count}) {
        Values values = normal(count);
        if (ties)
          for (double& value : values) value = std::round(2 * value) / 2;
        if (count > 100) values[77] = NAN, values[78] = -INFINITY;
        const Tensor in = upload({count}, values), indices = empty(k, DType::i32),
                     taken = output({k});
        kernels().select_top_k({.in = in, .indices = indices, .values = taken});
        const std::vector<float> host = floats(values);
        const std::vector<std::int32_t> expected = top_of(host, k);
        ASSERT_EQ(all<std::int32_t>(indices), expected) << k << " of " << count;
        const std::vector<float> got = download(taken);
        for (std::size_t j = 0; j < got.size(); ++j)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got[j]),
                    std::bit_cast<std::uint32_t>(host[static_cast<std::size_t>(expected[j])]));
      }
}

TEST_P(CodeKernels, DrawIndicesTakesOneOfEachStretchAndMovesAllAlike) {
  for (const auto& [k, below] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                 {3, 10},
                                 {10, 10},
                                 {1001, 100003},
                                 {999, 2'000'000'000}}) {
    std::set<std::vector<std::int32_t>> seen;
    for (const std::uint32_t step : {0, 1, 2}) {
      const Tensor indices = empty(k, DType::i32);
      kernels().draw_indices(
          {.indices = indices, .below = below, .seed = 5, .number = 9, .step = step});
      const auto drawn = all<std::int32_t>(indices);
      for (std::int64_t j = 0; j < k; ++j) {
        const auto block = static_cast<std::uint32_t>(j / 4);
        const std::uint64_t word =
            philox({block, 0, 9, step}, code_key(5))[static_cast<std::size_t>(j % 4)];
        const std::int64_t begin = j * below / k, size = (j + 1) * below / k - begin;
        const std::int64_t distance = static_cast<std::int64_t>(
            philox({~0u, ~0u, 9, step}, code_key(5))[0] * static_cast<std::uint64_t>(below) >> 32);
        ASSERT_EQ(
            drawn[static_cast<std::size_t>(j)],
            (begin + static_cast<std::int64_t>(word * static_cast<std::uint64_t>(size) >> 32) +
             distance) %
                below);
      }
      EXPECT_EQ(std::set<std::int32_t>(drawn.begin(), drawn.end()).size(), drawn.size());
      seen.insert(drawn);
    }
    EXPECT_EQ(seen.size(), below == 1 ? 1u : 3u) << "every step draws others";
  }
}

TEST_P(CodeKernels, DrawIndicesTakesAllElementsEquallyOften) {
  constexpr std::int64_t below = 10, k = 7, draws = 4000;
  std::vector<int> times(below);
  const Tensor indices = empty(k, DType::i32);
  for (std::uint32_t step = 0; step < draws; ++step) {
    kernels().draw_indices({.indices = indices, .below = below, .step = step});
    for (const std::int32_t index : all<std::int32_t>(indices))
      ++times[static_cast<std::size_t>(index)];
  }
  for (const int one : times) EXPECT_NEAR(one, draws * k / below, 5 * std::sqrt(draws * 0.21));
}

TEST_P(CodeKernels, DrawNormalIsThatOfItsCounter) {
  for (const std::int64_t count : {1, 1000, 5003}) {
    const Tensor out = output({count});
    const std::uint64_t seed = 7 + (std::uint64_t{3} << 32);
    kernels().draw_normal({.out = out, .seed = seed, .number = 9});
    const std::vector<float> got = download(out);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = random_normal(seed, Stream::codes, (std::uint64_t{9} << 32) + i);
      ASSERT_NEAR(got[i], expected, 1e-6 * std::max(1.0, std::abs(expected))) << i;
      sum += double{got[i]};
      squares += double{got[i]} * double{got[i]};
    }
    const auto n = static_cast<double>(count);
    if (count < 5000) continue;
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  }
}

TEST_P(CodeKernels, ElementsAreTakenAndAddedByTheirIndices) {
  const std::vector<std::int32_t> at = {1, 4, 5, 1000, 4999};
  const Values values = normal(5000), more = normal(5);
  const Tensor indices = upload({5}, at), out = output({5}), all_of_them = upload({5000}, values);
  kernels().take_elements({.in = all_of_them, .indices = indices, .out = out});
  kernels().add_elements(
      {.in = upload({5}, more), .indices = indices, .out = all_of_them, .scale = -0.5F});
  Values expected = values;
  for (std::size_t j = 0; j < at.size(); ++j) {
    EXPECT_EQ(download(out)[j], static_cast<float>(values[static_cast<std::size_t>(at[j])]));
    expected[static_cast<std::size_t>(at[j])] -= 0.5 * more[j];
  }
  EXPECT_CLOSE(all_of_them, expected);
}

TEST_P(CodeKernels, SignsHaveABitEachAndTheMeanOfMagnitudes) {
  for (const auto count : code_sizes) {
    Values values = normal(count);
    values[0] = -0.0;
    const Tensor in = upload({count}, values), signs = empty((count + 7) / 8, DType::u8),
                 magnitude = output({1});
    kernels().pack_signs({.in = in, .signs = signs, .magnitude = magnitude});
    const auto bytes = all<std::uint8_t>(signs);
    double sum = 0;
    for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
      const bool positive = i < values.size() && values[i] >= 0;
      ASSERT_EQ(bytes[i / 8] >> i % 8 & 1, positive ? 1 : 0) << i << " of " << count;
      if (i < values.size()) sum += std::abs(values[i]);
    }
    const float mean = download(magnitude)[0];
    EXPECT_NEAR(mean, sum / static_cast<double>(count), 1e-6);
    const Tensor root = output({1});
    kernels().pack_signs({.in = in, .signs = signs, .magnitude = root, .root_mean_square = true});
    const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    EXPECT_NEAR(download(root)[0], std::sqrt(squares / static_cast<double>(count)), 1e-6);

    const Values before = normal(count);
    for (const Tensor& of : {magnitude, Tensor()}) {
      const Tensor out = upload({count}, before);
      AddSigns op{.signs = {signs}, .out = out, .scale = -0.25F};
      if (of) op.magnitudes = {of};
      kernels().add_signs(op);
      const float value = of ? -0.25F * mean : -0.25F;
      const std::vector<float> got = download(out);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], static_cast<float>(before[i]) + (values[i] >= 0 ? value : -value)) << i;
    }
  }
}

/// How elements are quantised.
struct Rounding {
  std::int64_t block = 1;
  int bits = 8;
  bool random = true;

  /// The code of element i of blocks that begin with bytes of their own.
  int code(const std::vector<std::uint8_t>& codes, std::int64_t i) const {
    if (bits == 8) return static_cast<std::int8_t>(codes[static_cast<std::size_t>(i)]);
    const std::int64_t byte = i / block * ((block + 1) / 2) + i % block / 2;
    const int half = codes[static_cast<std::size_t>(byte)] >> (i % block % 2 * 4) & 15;
    return half < 8 ? half : half - 16;
  }
};

void PrintTo(const Rounding& one, std::ostream* out) {
  *out << one.bits << " bits, " << (one.random ? "at random" : "to the nearest") << ", blocks of "
       << one.block;
}

/// The code of x, element i, by the definition of Quantise.
int code_of(const Quantise& op, float x, std::size_t i, float factor) {
  const auto group = static_cast<std::uint32_t>(i / 1024);
  const std::uint32_t key = philox({group, 0, op.number, op.step}, code_key(op.seed))[0];
  const std::uint32_t word = scrambled(key + static_cast<std::uint32_t>(i % 256));
  const float drawn = (static_cast<float>(word >> 8 * (i % 1024 / 256) & 255) + 0.5F) / 256;
  const float level = std::abs(x) * factor + (op.random ? drawn : 0.5F);
  const float levels = code_levels(op.bits);
  const int code = static_cast<int>(level < levels ? level : levels);
  return x < 0 ? -code : code;
}

TEST_P(CodeKernels, QuantiseRoundsByItsDraws) {
  std::vector<Rounding> roundings;
  for (const std::int64_t block : {1, 7, 100, 256, 200'000})
    for (const int bits : {8, 4})
      for (const bool random : {true, false}) roundings.push_back({block, bits, random});
  for (const auto count : code_sizes)
    for (const Rounding& rounding : roundings) {
      SCOPED_TRACE(::testing::PrintToString(rounding));
      const std::int64_t block = rounding.block;
      const float levels = rounding.bits == 8 ? 127 : 7;
      Values values = normal(count);
      if (count > 300)
        for (std::size_t i = 0; i < 256; ++i) values[i] = 0;
      const std::int64_t blocks = (count + block - 1) / block;
      const std::int64_t bytes =
          rounding.bits == 8 ? count : count / block * ((block + 1) / 2) + (count % block + 1) / 2;
      const Tensor codes = empty(bytes, DType::u8), norms = output({blocks});
      const Quantise op{.in = upload({count}, values),
                        .codes = codes,
                        .norms = norms,
                        .block = block,
                        .bits = rounding.bits,
                        .random = rounding.random,
                        .seed = 3,
                        .number = 4,
                        .step = 5};
      kernels().quantise(op);
      const auto got = all<std::uint8_t>(codes);
      const std::vector<float> in = floats(values), got_norms = download(norms);
      Values expected(values.size());
      for (std::int64_t b = 0; b < blocks; ++b) {
        const auto first = static_cast<std::size_t>(b * block),
                   last = static_cast<std::size_t>(std::min((b + 1) * block, count));
        float norm = 0;
        for (std::size_t i = first; i < last; ++i) norm = std::max(norm, std::abs(in[i]));
        ASSERT_EQ(got_norms[static_cast<std::size_t>(b)], norm);
        const float factor = norm > 0 ? levels / norm : 0;
        for (std::size_t i = first; i < last; ++i) {
          const int code = code_of(op, in[i], i, factor);
          ASSERT_EQ(rounding.code(got, static_cast<std::int64_t>(i)), code) << i << " of " << count;
          expected[i] = -2 * double{norm} / levels * code;
        }
      }
      const Tensor out = upload({count}, Values(values.size()));
      kernels().add_quantised({.codes = {codes},
                               .norms = {norms},
                               .out = out,
                               .block = block,
                               .bits = rounding.bits,
                               .scale = -2});
      EXPECT_CLOSE(out, expected);
    }
}

/// L / norm may be infinite or 0, and so may levels, or be no numbers.
TEST_P(CodeKernels, QuantiseTakesBlocksOfAnyMagnitude) {
  for (const int bits : {8, 4})
    for (const bool random : {true, false})
      for (const double scale : {1e-42, 1e-37, 1.0, 5e37})
        for (const double special : {0.0, double{INFINITY}, double{NAN}}) {
          Values values = normal(300);
          for (double& value : values) value *= scale;
          values[5] = special, values[6] = -special;
          const Tensor codes = empty(code_bytes(300, 300, bits), DType::u8), norms = output({1});
          const Quantise op{.in = upload({300}, values),
                            .codes = codes,
                            .norms = norms,
                            .block = 300,
                            .bits = bits,
                            .random = random};
          kernels().quantise(op);
          const std::vector<float> in = floats(values);
          const float norm = download(norms)[0];
          ASSERT_EQ(std::isfinite(norm), special == 0);
          const auto got = all<std::uint8_t>(codes);
          for (std::size_t i = 0; i < in.size(); ++i)
            ASSERT_EQ((Rounding{300, bits}.code(got, static_cast<std::int64_t>(i))),
                      code_of(op, in[i], i, norm > 0 ? code_levels(bits) / norm : 0))
                << in[i] << " among " << scale << " and " << special;
        }
}

/// An operation with several codes must add what operations with one code each add one after the
/// other, to the bit; where it does not add onto what is there, after zeros.
class CodesTogether : public CodeKernels {
 protected:
  static constexpr std::int64_t counts[] = {1, 33, 5003};
  static constexpr std::size_t most = 35;  // more than one launch of a GPU takes

  /// `add` runs an operation with the codes [first, first + n) on `out`.
  template <class Add>
  void expect_as_one_by_one(std::int64_t count, const Add& add) {
    for (const std::size_t codes : {std::size_t{0}, std::size_t{1}, std::size_t{3}, most})
      for (const bool onto : {true, false}) {
        const Values before = onto ? normal(count) : Values(static_cast<std::size_t>(count));
        const Tensor expected = upload({count}, before);
        for (std::size_t c = 0; c < codes; ++c) add(c, 1, expected, true);
        const Tensor got = onto ? upload({count}, before) : output({count});
        add(0, codes, got, onto);
        ASSERT_EQ(bits_of(got), bits_of(expected)) << codes << " codes of " << count;
      }
  }

 private:
  std::vector<std::uint32_t> bits_of(const Tensor& tensor) const {
    std::vector<std::uint32_t> bits;
    for (const float value : all<float>(tensor))
      bits.push_back(std::bit_cast<std::uint32_t>(value));
    return bits;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, CodesTogether, ::testing::ValuesIn(fp32_on_devices()), case_name);

std::vector<Tensor> some_of(const std::vector<Tensor>& all, std::size_t first, std::size_t n) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

TEST_P(CodesTogether, SignsAreAddedAsOneByOne) {
  for (const auto count : counts) {
    std::vector<Tensor> signs, magnitudes;
    for (std::size_t c = 0; c < most; ++c) {
      signs.push_back(empty((count + 7) / 8, DType::u8));
      magnitudes.push_back(output({1}));
      kernels().pack_signs({.in = upload({count}, normal(count)),
                            .signs = signs.back(),
                            .magnitude = magnitudes.back()});
    }
    expect_as_one_by_one(count,
                         [&](std::size_t first, std::size_t n, const Tensor& out, bool onto) {
                           kernels().add_signs({.signs = some_of(signs, first, n),
                                                .magnitudes = some_of(magnitudes, first, n),
                                                .out = out,
                                                .scale = 0.3F,
                                                .onto = onto});
                         });
  }
}

TEST_P(CodesTogether, QuantisedAreAddedAsOneByOne) {
  for (const auto count : counts)
    for (const int bits : {8, 4})
      for (const std::int64_t block : {7, 256, 5001}) {
        std::vector<Tensor> codes, norms;
        for (std::size_t c = 0; c < most; ++c) {
          codes.push_back(empty(code_bytes(count, block, bits), DType::u8));
          norms.push_back(output({code_blocks(count, block)}));
          kernels().quantise({.in = upload({count}, normal(count)),
                              .codes = codes.back(),
                              .norms = norms.back(),
                              .block = block,
                              .bits = bits});
        }
        expect_as_one_by_one(count,
                             [&](std::size_t first, std::size_t n, const Tensor& out, bool onto) {
                               kernels().add_quantised({.codes = some_of(codes, first, n),
                                                        .norms = some_of(norms, first, n),
                                                        .out = out,
                                                        .block = block,
                                                        .bits = bits,
                                                        .scale = 0.3F,
                                                        .onto = onto});
                             });
      }
}

TEST_P(CodeKernels, QuantiseIsRightInTheMean) {
  constexpr std::int64_t count = 512, draws = 400;
  for (const int bits : {8, 4}) {
    const Values values = normal(count);
    const Tensor in = upload({count}, values), codes = empty(count, DType::u8), norms = output({1}),
                 sum = upload({count}, Values(count));
    for (std::uint32_t step = 0; step < draws; ++step) {
      kernels().quantise(
          {.in = in, .codes = codes, .norms = norms, .block = count, .bits = bits, .step = step});
      kernels().add_quantised({.codes = {codes},
                               .norms = {norms},
                               .out = sum,
                               .block = count,
                               .bits = bits,
                               .scale = 1.0F / draws});
    }
    // The variance of one draw is at most a quarter of a level's square.
    const double level = download(norms)[0] / (bits == 8 ? 127 : 7);
    const double deviation = level / 2 / std::sqrt(draws);
    const std::vector<float> mean = download(sum);
    for (std::size_t i = 0; i < mean.size(); ++i)
      EXPECT_NEAR(mean[i], values[i], 5 * deviation) << bits << " bits";
  }
}

TEST_P(CodeKernels, ValuesThatAreNotFiniteStayNoticed) {
  for (const double bad : {double{NAN}, double{INFINITY}}) {
    Values values = normal(300);
    values[5] = bad;
    const Tensor in = upload({300}, values), codes = empty(300, DType::u8), norms = output({1}),
                 out = upload({300}, Values(300));
    for (const int bits : {8, 4}) {
      kernels().fill({.out = out});
      kernels().quantise({.in = in, .codes = codes, .norms = norms, .block = 300, .bits = bits});
      kernels().add_quantised(
          {.codes = {codes}, .norms = {norms}, .out = out, .block = 300, .bits = bits});
      EXPECT_FALSE(std::isfinite(download(out)[5])) << bad << ", " << bits << " bits";
    }
    const Tensor signs = empty(38, DType::u8), magnitude = output({1});
    for (const bool root : {false, true}) {
      kernels().pack_signs(
          {.in = in, .signs = signs, .magnitude = magnitude, .root_mean_square = root});
      EXPECT_FALSE(std::isfinite(download(magnitude)[0])) << bad;
    }
  }
}

TEST_P(CodeKernels, MatrixProductAgreesWithReference) {
  for (const bool a_turned : {false, true})
    for (const bool b_turned : {false, true}) {
      if (a_turned && b_turned) continue;  // of no use to codes
      constexpr std::int64_t m = 37, n = 5, k = 130;
      const Values a = normal(m * k), b = normal(k * n);
      const Tensor out = output({m, n});
      kernels().matrix_product({.a = upload(a_turned ? Shape{k, m} : Shape{m, k}, a),
                                .b = upload(b_turned ? Shape{n, k} : Shape{k, n}, b),
                                .out = out,
                                .transpose_a = a_turned,
                                .transpose_b = b_turned});
      Values expected(m * n);
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          for (std::int64_t l = 0; l < k; ++l)
            expected[static_cast<std::size_t>(i * n + j)] +=
                a[static_cast<std::size_t>(a_turned ? l * m + i : i * k + l)] *
                b[static_cast<std::size_t>(b_turned ? j * k + l : l * n + j)];
      EXPECT_CLOSE(out, expected);
    }
}

TEST_P(CodeKernels, OrthonormaliseKeepsTheSpanAndItsRank) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 5}, {130, 3}, {3000, 8}}) {
    Values matrix = normal(rows * columns);
    const bool dependent = columns >= 3;
    const auto at = [&, columns = columns](std::int64_t r, std::int64_t c) {
      return static_cast<std::size_t>(r * columns + c);
    };
    if (dependent)  // the last column is a sum of the first two
      for (std::int64_t r = 0; r < rows; ++r)
        matrix[at(r, columns - 1)] = static_cast<float>(static_cast<float>(matrix[at(r, 0)]) +
                                                        2 * static_cast<float>(matrix[at(r, 1)]));
    const Tensor made = upload({rows, columns}, matrix);
    kernels().orthonormalise({.matrix = made});
    const std::vector<float> q = download(made);
    const auto dot = [&, rows = rows](const auto& a, std::int64_t i, const auto& b,
                                      std::int64_t j) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += double{a[at(r, i)]} * double{b[at(r, j)]};
      return sum;
    };
    for (std::int64_t i = 0; i < columns; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        EXPECT_NEAR(dot(q, i, q, j), i == j ? 1 : 0, 1e-5) << i << ", " << j;
      }
    // Every column of the matrix is the sum of its projections.
    for (std::int64_t c = 0; c < columns; ++c) {
      double rest = dot(matrix, c, matrix, c);
      const double whole = rest;
      for (std::int64_t j = 0; j < columns; ++j) rest -= std::pow(dot(matrix, c, q, j), 2);
      EXPECT_NEAR(rest / whole, 0, 1e-5) << c;
    }
  }
}

TEST_P(CodeKernels, OrthonormaliseMakesABasisOfNothing) {
  const Tensor made = upload({5, 3}, Values(15));
  kernels().orthonormalise({.matrix = made});
  const std::vector<float> q = download(made);
  for (std::size_t i = 0; i < q.size(); ++i) EXPECT_EQ(q[i], i / 3 == i % 3 ? 1 : 0) << i;
}

}  // namespace
}  // namespace ringside
