// Linear layers in bf16 through oneDNN, on processors with instructions that multiply bf16. No
// operand is copied, and on such processors products may take half the time of fp32.
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/onednn.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

using onednn::Arguments;
using onednn::Desc;
using onednn::Runner;
using onednn::Tag;

constexpr auto type = dnnl::memory::data_type::bf16;

/// Describes a matrix [rows, columns]. If `transposed`, memory holds its transpose.
Desc matrix(std::int64_t rows, std::int64_t columns, bool transposed = false) {
  return {{rows, columns}, type, transposed ? Tag::ba : Tag::ab};
}

struct Product {
  Desc a, b, c;
  const Tensor &a_values, &b_values, &c_values;
  Tensor bias{};  // added to each row, optional
};

void multiply(Runner& runner, const Product& p) {
  const auto columns = p.c.dims()[1];
  const Desc bias = p.bias ? Desc{{1, columns}, type, Tag::ab} : Desc{};
  const dnnl::matmul::primitive_desc desc({p.a, p.b, bias, p.c}, Runner::attributes(),
                                          runner.engine());
  Arguments arguments{{DNNL_ARG_SRC, runner.memory(p.a, p.a_values)},
                      {DNNL_ARG_WEIGHTS, runner.memory(p.b, p.b_values)},
                      {DNNL_ARG_DST, runner.memory(p.c, p.c_values)}};
  if (p.bias) arguments.emplace(DNNL_ARG_BIAS, runner.memory(bias, p.bias));
  runner.run<dnnl::matmul>(desc, std::move(arguments));
}

dnnl::algorithm algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case Activation::gelu_erf:
      return dnnl::algorithm::eltwise_gelu_erf;
    case Activation::tanh:
      return dnnl::algorithm::eltwise_tanh;
    default:
      return dnnl::algorithm::eltwise_relu;
  }
}

auto activation_desc(const Runner& runner, Activation activation, const Desc& values) {
  const dnnl::eltwise_forward::desc desc(dnnl::prop_kind::forward_training,
                                         algorithm_of(activation), values, 0.0f, 0.0f);
  return dnnl::eltwise_forward::primitive_desc(desc, Runner::attributes(), runner.engine());
}

void activate(Runner& runner, const LinearForward& op, const Desc& values) {
  runner.run<dnnl::eltwise_forward>(
      activation_desc(runner, op.activation, values),
      {{DNNL_ARG_SRC, runner.memory(values, op.pre)}, {DNNL_ARG_DST, runner.memory(values, op.y)}});
}

/// dy *= activation'(pre)
void deactivate(Runner& runner, const LinearBackward& op, const Desc& values) {
  const dnnl::eltwise_backward::desc backward(algorithm_of(op.activation), values, values, 0.0f,
                                              0.0f);
  const dnnl::eltwise_backward::primitive_desc desc(backward, Runner::attributes(), runner.engine(),
                                                    activation_desc(runner, op.activation, values));
  const dnnl::memory dy = runner.memory(values, op.dy);
  runner.run<dnnl::eltwise_backward>(desc, {{DNNL_ARG_SRC, runner.memory(values, op.pre)},
                                            {DNNL_ARG_DIFF_DST, dy},
                                            {DNNL_ARG_DIFF_SRC, dy}});
}

/// Adds all rows up into one, in fp32. Each thread adds some of the columns.
void sum_rows(const Context& context, const Tensor& rows, const Tensor& out) {
  const std::int64_t count = rows.shape()[0], columns = rows.shape()[1];
  parallel_for(context.threads, columns, 64, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> sums(static_cast<std::size_t>(end - begin), 0.0f);
    float* __restrict sum = sums.data();
    for (std::int64_t r = 0; r < count; ++r) {
      const bf16* __restrict row = rows.data<bf16>() + r * columns + begin;
#pragma omp simd
      for (std::int64_t c = 0; c < end - begin; ++c) sum[c] += load(row[c]);
    }
    for (std::int64_t c = begin; c < end; ++c) store(out.data<bf16>()[c], sum[c - begin]);
  });
}

Error failure(std::int64_t rows, std::int64_t in, std::int64_t out, const dnnl::error& cause) {
  return refused_by_onednn(fmt::format("linear layer {}x{} to {} in bf16", rows, in, out),
                           cause.status, cause.what());
}

}  // namespace

bool has_bf16_products() {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  try {
    const dnnl::matmul::primitive_desc desc({matrix(16, 16), matrix(16, 16), matrix(16, 16)},
                                            engine);
    return std::string_view(desc.impl_info_str()).find("bf16") != std::string_view::npos;
  } catch (const dnnl::error&) {
    return false;
  }
}

void linear_forward_bf16(const Context& context, const LinearForward& op) {
  const std::int64_t rows = op.x.shape()[0], in = op.weight.shape()[1], out = op.weight.shape()[0];
  const bool active = op.activation != Activation::none;
  try {
    Runner runner(context);
    multiply(runner, {matrix(rows, in), matrix(in, out, true), matrix(rows, out), op.x, op.weight,
                      active ? op.pre : op.y, op.bias});
    if (active) activate(runner, op, matrix(rows, out));
  } catch (const dnnl::error& cause) {
    throw failure(rows, in, out, cause);
  }
}

void linear_backward_bf16(const Context& context, const LinearBackward& op) {
  const std::int64_t rows = op.dy.shape()[0], out = op.dy.shape()[1];
  const std::int64_t in = (op.dx ? op.dx : op.x).shape()[1];
  try {
    Runner runner(context);
    if (op.activation != Activation::none) deactivate(runner, op, matrix(rows, out));
    if (op.dbias) sum_rows(context, op.dy, op.dbias);
    if (op.dx)
      multiply(runner,
               {matrix(rows, out), matrix(out, in), matrix(rows, in), op.dy, op.weight, op.dx});
    if (op.dweight)
      multiply(runner, {matrix(out, rows, true), matrix(rows, in), matrix(out, in), op.dy, op.x,
                        op.dweight});
  } catch (const dnnl::error& cause) {
    throw failure(rows, in, out, cause);
  }
}

}  // namespace ringside::cpu
