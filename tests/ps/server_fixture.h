// A fixture with a server of a small model, and messages to that server.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/device/cpu/cpu_device.h"
#include "core/num/random.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "ps/protocol/parameter_server.h"
#include "tests/ps/messages.h"

namespace ringside::ps {

/// The model has two units and three chunks: [0, 32) and [32, 50) of the first unit, [50, 60) of
/// the second.
class ServerTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t token = 77;

  /// A unit that has parameters and does nothing.
  struct Range : Unit {
    Range(std::int64_t count, Device& device) : Unit("range", device) {
      declare().add("values", {count}, {Init::Kind::normal, 1});
    }
    Tensor forward(const Tensor& input, const Pass&, Saved&) override { return input; }
    Tensor backward(const Tensor& grad_output, Saved&) override { return grad_output; }
  };

  static float value(const Tensor& t, std::int64_t i) {
    return t.dtype() == DType::bf16 ? to_float(t.data<bf16>()[i]) : t.data<float>()[i];
  }
  static void set(const Tensor& t, std::int64_t i, float value) {
    if (t.dtype() == DType::bf16)
      t.data<bf16>()[i] = to_bf16(value);
    else
      t.data<float>()[i] = value;
  }
  static std::vector<float> values_of(const Tensor& t) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < t.count(); ++i) values.push_back(value(t, i));
    return values;
  }

  ServerTest() {
    model_.units.push_back(std::make_unique<Range>(50, *device_));
    model_.units.push_back(std::make_unique<Range>(10, *device_));
    chunks_ = partition({50, 10}, 1, 128);
  }

  ServerConfig config(int workers) const {
    ServerConfig config{.workers = workers,
                        .token = token,
                        .initial_values = drawn_values(5),
                        .dtype = dtype_,
                        .steps = 10};
    config.optimizer.lr = 0.1;
    return config;
  }
  ParameterServer make_server(int workers) { return {model_, chunks_, *device_, config(workers)}; }

  /// Gradients of very different magnitudes, so that a sum in another order has other bits.
  Tensor gradient(int worker, const Chunk& chunk, std::int64_t step) {
    Tensor out = device_->tensor({chunk.count}, MemoryKind::gradient, dtype_);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      const auto position =
          static_cast<std::uint64_t>((step * 8 + worker) * 1000 + chunk.begin + i);
      const double scale = worker == 1 ? 1e3 : 1e-3;
      set(out, i, static_cast<float>(scale * random_normal(3, Stream::sampler, position)));
    }
    return out;
  }

  Message about(Kind kind, int worker, const Chunk& chunk, std::int64_t step) {
    Message message = testing::message_of(token, kind, worker, step);
    message.header.begin = chunk.begin;
    message.header.count = chunk.count;
    return message;
  }
  Message summand(int worker, std::int64_t sum, std::vector<double> values) {
    Message message = testing::message_of(token, Kind::sum, worker, sum);
    message.frames.push_back(device_->tensor({static_cast<std::int64_t>(values.size())},
                                             MemoryKind::communication, DType::f64));
    device_->write(message.frames[0], std::as_bytes(std::span(values)));
    return message;
  }
  static std::vector<double> doubles_of(const Message& message) {
    const auto values = message.frames.at(0).span<double>();
    return {values.begin(), values.end()};
  }
  Message push(int worker, std::size_t chunk, std::int64_t step, Kind kind = Kind::push_pull) {
    Message message = about(kind, worker, chunks_[chunk], step);
    message.frames.push_back(gradient(worker, chunks_[chunk], step));
    return message;
  }
  Message pull(int worker, std::size_t chunk, std::int64_t steps) {
    return about(Kind::pull, worker, chunks_[chunk], steps);
  }

  /// The parameters that one process would compute: sums in rank order, one optimizer for the whole
  /// model.
  std::vector<std::vector<float>> sequential(int workers, std::int64_t steps) {
    Tensor all = device_->tensor({60}, MemoryKind::parameter, dtype_);
    for (std::size_t u = 0; u < 2; ++u) {
      const std::int64_t first = model_.first_parameter(u);
      initialise(*model_.units[u], first, 5, 0,
                 all.range(first, model_.units[u]->layout().count()));
    }
    const auto optimizer =
        make_optimizer(config(1).optimizer, {10, workers}, *device_, all, parameter_map(model_));
    Tensor sum = device_->tensor({60}, MemoryKind::gradient, dtype_);
    for (std::int64_t step = 0; step < steps; ++step) {
      for (const Chunk& chunk : chunks_)
        for (int w = 0; w < workers; ++w) {
          const Tensor part = gradient(w, chunk, step);
          for (std::int64_t i = 0; i < chunk.count; ++i) {
            const std::int64_t at = chunk.begin + i;
            set(sum, at, w == 0 ? value(part, i) : value(sum, at) + value(part, i));
          }
        }
      optimizer->update({0, all, sum}, {.step = step});
    }
    std::vector<std::vector<float>> out;
    for (const Chunk& chunk : chunks_)
      out.push_back(values_of(all.range(chunk.begin, chunk.count)));
    return out;
  }

  std::string refusal(Server& server, int worker, Message message) {
    const Header asked = message.header;
    const Replies replies = server.handle(worker, std::move(message));
    if (replies.size() != 1 || replies[0].worker != worker) return "";
    const Header& header = replies[0].message.header;
    EXPECT_TRUE(header.reply);
    EXPECT_EQ(header.step, asked.step);
    return header.kind == Kind::error ? header.text : "";
  }

  DType dtype_ = DType::f32;
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Model model_;
  std::vector<Chunk> chunks_;
};

}  // namespace ringside::ps
