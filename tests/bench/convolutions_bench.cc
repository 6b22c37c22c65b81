// Ways of computing a convolution on this processor: what each of our own gains over oneDNN.
//
//     convolutions_bench [THREADS] [ROUNDS]
//
// Writes a table in Markdown: for each convolution of tests/bench/kernels_bench.h and each
// operation the time of each way that is offered for it, and how much longer oneDNN takes than the
// way that the device chooses. All ways of an operation are timed in turn, in every round; times
// are medians, and the quotient is the median of the rounds' quotients.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/device/cpu/convolution_onednn.h"
#include "core/device/cpu/convolution_taps.h"
#include "core/device/cpu/convolution_windows.h"
#include "core/device/cpu/convolution_winograd.h"
#include "tests/bench/kernels_bench.h"

namespace ringside::bench {
namespace {

/// In the order in which the device prefers them.
constexpr const char* names[] = {"Winograd", "windows", "taps", "oneDNN"};
constexpr std::size_t ways = std::size(names), onednn = ways - 1;

/// An operation, and its ways; an empty one is not offered for it.
struct Operation {
  std::string name;
  std::function<void()> by[ways];
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Table : public Operands {
 public:
  Table(int threads, int rounds)
      : Operands(threads), context_{device(), threads}, rounds_(static_cast<std::size_t>(rounds)) {}

  std::vector<Operation> operations(const ConvolutionShape& s) {
    const ConvolutionForward forward = convolution(s);
    const ConvolutionBackward backward = convolution_backward(s);
    const auto of = [&](auto function, const auto& op) {
      return [=, this] { function(context_, op); };
    };
    Operation y{"y", {}}, dx{"dx", {}}, dweight{"dweight", {}};
    if (cpu::winograd_is_faster(forward)) y.by[0] = of(cpu::convolve_by_winograd, forward);
    if (cpu::windows_are_faster(forward)) y.by[1] = of(cpu::convolve_by_windows, forward);
    y.by[onednn] = of(cpu::convolve_by_onednn, forward);
    if (cpu::winograd_is_faster(backward)) {
      dx.by[0] = of(cpu::image_gradient_by_winograd, backward);
      dweight.by[0] = of(cpu::weight_gradient_by_winograd, backward);
    }
    if (cpu::windows_are_faster(backward)) dx.by[1] = of(cpu::image_gradient_by_windows, backward);
    if (cpu::taps_are_faster(backward)) dweight.by[2] = of(cpu::weight_gradient_by_taps, backward);
    dx.by[onednn] = of(cpu::image_gradient_by_onednn, backward);
    dweight.by[onednn] = of(cpu::weight_gradient_by_onednn, backward);
    return {y, dx, dweight};
  }

  void add_rows(const ConvolutionShape& s) {
    for (const Operation& operation : operations(s)) {
      std::vector<double> seconds[ways];
      for (std::size_t round = 0; round <= rounds_; ++round)
        for (std::size_t way = 0; way < ways; ++way) {
          if (!operation.by[way]) continue;
          const double begin = device().clock().now();
          operation.by[way]();
          if (round > 0) seconds[way].push_back(device().clock().now() - begin);  // 0 warms up
        }
      std::size_t chosen = 0;
      while (!operation.by[chosen]) ++chosen;
      std::string row = fmt::format("| {}x{} of {}x{}x{} to {}, stride {} | {} |", s.size, s.size,
                                    s.image, s.image, s.in, s.out, s.stride, operation.name);
      for (std::size_t way = 0; way < ways; ++way)
        row += seconds[way].empty() ? " - |" : fmt::format(" {:.2f} |", median(seconds[way]) * 1e3);
      std::vector<double> quotients;
      for (std::size_t i = 0; i < rounds_; ++i)
        quotients.push_back(seconds[onednn][i] / seconds[chosen][i]);
      fmt::print("{} {} |\n", row,
                 chosen == onednn ? "-" : fmt::format("{:.2f}", median(quotients)));
      std::fflush(stdout);
    }
  }

  void print() {
    fmt::print("{} images, {} threads, {} rounds, {}; ms\n\n| convolution | operation |", images,
               context_.threads, rounds_, cpu_instructions());
    for (const char* name : names) fmt::print(" {} |", name);
    fmt::print(" oneDNN / chosen |\n|---|---|---|---|---|---|---|\n");
    for (const ConvolutionShape& s : convolutions) add_rows(s);
  }

 private:
  cpu::Context context_;
  std::size_t rounds_;
};

}  // namespace
}  // namespace ringside::bench

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 15;
  ringside::bench::Table(threads, rounds).print();
}
