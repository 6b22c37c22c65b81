#include <algorithm>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {

namespace {

template <class T>
void look_up(const Context& context, const EmbeddingForward& op) {
  const std::int64_t positions = op.tokens.shape()[1], width = op.token_table.shape()[1];
  const auto* tokens = op.tokens.data<std::int32_t>();
  const T* table = op.token_table.data<T>();
  const T* position_table = op.position_table.data<T>();
  T* y = op.y.data<T>();
  parallel_for(context.threads, op.tokens.count(), 64,
               [=](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* __restrict token = table + tokens[i] * width;
                   T* __restrict row = y + i * width;
                   if (position_table) {
                     const T* __restrict at = position_table + i % positions * width;
                     for (std::int64_t c = 0; c < width; ++c)
                       store(row[c], load(token[c]) + load(at[c]));
                   } else {
                     std::copy(token, token + width, row);
                   }
                 }
               });
}

}  // namespace

void embedding_forward(const Context& context, const EmbeddingForward& op) {
  with_float_type(op.y.dtype(), [&]<class T>(T) { look_up<T>(context, op); });
}

void embedding_backward(const Context& context, const EmbeddingBackward& op) {
  const std::int64_t positions = op.tokens.shape()[1], width = op.dtoken_table.shape()[1];
  const std::int64_t count = op.tokens.count();
  const auto* tokens = op.tokens.data<std::int32_t>();
  const float* dy = op.dy.data<float>();
  const auto scatter = [&](const Tensor& table, auto row_of) {
    float* rows = table.data<float>();
    const std::int64_t table_rows = table.shape()[0];
    // Each thread has some of the columns, so that every row of the table adds up its gradients in
    // the order of the tokens.
    parallel_for(context.threads, width, 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t r = 0; r < table_rows; ++r)
        std::fill(rows + r * width + begin, rows + r * width + end, 0.0f);
      for (std::int64_t i = 0; i < count; ++i) {
        const float* __restrict from = dy + i * width;
        float* __restrict to = rows + row_of(i) * width;
        for (std::int64_t c = begin; c < end; ++c) to[c] += from[c];
      }
    });
  };
  scatter(op.dtoken_table, [&](std::int64_t i) { return tokens[i]; });
  if (op.dposition_table)
    scatter(op.dposition_table, [&](std::int64_t i) { return i % positions; });
}

}  // namespace ringside::cpu
