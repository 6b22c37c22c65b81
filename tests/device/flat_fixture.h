// Parts that tests of flat operations share: lengths, fp32 masters, and the check that the bits of
// an element do not depend on its position.
#pragma once

#include <algorithm>

#include "tests/device/harness.h"

namespace ringside {

inline constexpr std::int64_t flat_sizes[] = {1, 7, 33, 130, 5000, 100003};

class FlatKernels : public KernelsOnDevice {
 protected:
  Values positive(std::int64_t count) {
    Values out = normal_f32(count);
    for (auto& value : out) value = std::abs(value);
    return out;
  }

  struct Operand {
    Values values;
    DType dtype;
  };

  /// Runs `apply` once over [0, count), and then in pieces cut at odd places, on fresh copies of
  /// `operands`; every operand must end with the same bits.
  template <class Apply>
  void expect_position_independent(const std::vector<Operand>& operands, Apply&& apply) {
    const auto count = static_cast<std::int64_t>(operands.front().values.size());
    const auto run = [&](const std::vector<std::int64_t>& cuts) {
      std::vector<Tensor> tensors;
      for (const auto& operand : operands)
        tensors.push_back(upload({count}, operand.values, operand.dtype));
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        std::vector<Tensor> piece;
        for (const auto& tensor : tensors)
          piece.push_back(tensor.range(cuts[i], cuts[i + 1] - cuts[i]));
        apply(piece);
      }
      std::vector<std::vector<float>> out;
      for (const auto& tensor : tensors) out.push_back(download(tensor));
      return out;
    };
    const auto whole = run({0, count});
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      std::vector<std::int64_t> cuts = {0, 1, count / 3 + static_cast<std::int64_t>(seed)};
      for (std::uint64_t i = 0; i < 9; ++i)
        cuts.push_back(static_cast<std::int64_t>(random_bits(seed, Stream::sampler, i) %
                                                 static_cast<std::uint64_t>(count)));
      cuts.push_back(count);
      std::sort(cuts.begin(), cuts.end());
      const auto pieces = run(cuts);
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_EQ(std::memcmp(pieces[i].data(), whole[i].data(), whole[i].size() * sizeof(float)),
                  0)
            << "operand " << i;
    }
  }

  /// Returns fp32 masters that lie close to 16-bit parameters but are not rounded to 16 bits;
  /// returns nothing for fp32 parameters, which have no masters.
  Values masters(const Values& parameters) {
    if (dtype() == DType::f32) return {};
    Values out = normal(static_cast<std::int64_t>(parameters.size()));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = parameters[i] + out[i] * std::abs(parameters[i]) / 2048;
    return reference::rounded(std::move(out), DType::f32);
  }
  Tensor upload_masters(const Values& values) {
    if (values.empty()) return {};
    return upload({static_cast<std::int64_t>(values.size())}, values, DType::f32);
  }
  /// Checks the result of an update. The parameters and, where there are masters, the masters must
  /// be close to `expected`; parameters with masters must be the rounded masters to the bit.
  void expect_updated(const Tensor& parameters, const Tensor& master, const Values& expected) {
    EXPECT_CLOSE(parameters, expected);
    if (!master) return;
    EXPECT_CLOSE(master, expected);
    const auto values = download(master);
    const auto published = held(Values(values.begin(), values.end()));
    EXPECT_EQ(download(parameters), std::vector<float>(published.begin(), published.end()));
  }
};

}  // namespace ringside
