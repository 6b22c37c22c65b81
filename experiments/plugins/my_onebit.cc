// Signs with error feedback, as a plug-in that computes on the host.
#include <ringside/plugin.h>

#include <cmath>
#include <numeric>

using namespace ringside;

namespace {

/// The code: the mean of the absolute values, fp32, and a bit for each sign.
class MyOneBit final : public compress::TensorCodes {
 public:
  using TensorCodes::TensorCodes;
  static std::int64_t bytes_of(const CompressionOptions&, const Shape& tensor) {
    return 4 + (tensor.count() + 7) / 8;
  }

 private:
  std::int64_t bytes(const Piece& piece) const override { return bytes_of(options(), piece.shape); }
  void encode(const Piece&, const Tensor& values, const Tensor& code) override {
    const OpCost cost{.bytes = static_cast<double>(values.bytes() + code.bytes())};
    on_host(device(), {values}, {code}, cost, [](HostValues& in, HostValues& out) {
      const auto elements = in.of<float>(0);
      double sum = 0;
      for (const float element : elements) sum += std::abs(element);
      out.of<float>(0)[0] = static_cast<float>(sum / static_cast<double>(elements.size()));
      const auto signs = out.of<std::uint8_t>(0).subspan(4);
      std::fill(signs.begin(), signs.end(), std::uint8_t{0});
      for (std::size_t i = 0; i < elements.size(); ++i)
        signs[i / 8] |= static_cast<std::uint8_t>((std::signbit(elements[i]) ? 0 : 1) << (i % 8));
    });
  }
  void add(const Piece&, const Tensor& code, float scale, const Tensor& out) override {
    const OpCost cost{.bytes = static_cast<double>(2 * out.bytes() + code.bytes())};
    on_host(device(), {code, out}, {out}, cost, [scale](HostValues& in, HostValues& sum) {
      const float magnitude = scale * in.of<float>(0)[0];
      const auto signs = in.of<std::uint8_t>(0).subspan(4);
      for (std::size_t i = 0; i < sum.of<float>(0).size(); ++i)
        sum.of<float>(0)[i] =
            in.of<float>(1)[i] + ((signs[i / 8] >> (i % 8)) & 1 ? magnitude : -magnitude);
    });
  }
};

}  // namespace

RINGSIDE_PLUGIN(compress::codes_info<MyOneBit>("my_onebit", "the signs of each tensor"))
