// Optimizer updates on flat ranges. Compiled without relaxed arithmetic: see ops.h.
#include <cmath>

#include "core/device/cpu/cpu_kernels.h"
#include "core/device/cpu/parallel.h"

namespace ringside::cpu {
namespace {

constexpr std::int64_t grain = 1 << 14;  // elements that are worth a thread

void plain_step(float* __restrict p, const float* __restrict g, std::int64_t count, float lr,
                float decay) {
  for (std::int64_t i = 0; i < count; ++i) p[i] -= lr * (g[i] + decay * p[i]);
}

void first_step(float* __restrict p, float* __restrict u, const float* __restrict g,
                std::int64_t count, float lr, float decay) {
  for (std::int64_t i = 0; i < count; ++i) {
    u[i] = g[i] + decay * p[i];
    p[i] -= lr * u[i];
  }
}

void momentum_step(float* __restrict p, float* __restrict u, const float* __restrict g,
                   std::int64_t count, float lr, float decay, float momentum) {
  for (std::int64_t i = 0; i < count; ++i) {
    u[i] = momentum * u[i] + (g[i] + decay * p[i]);
    p[i] -= lr * u[i];
  }
}

}  // namespace

void adamw(const Context& context, const AdamW& op) {
  const auto step = static_cast<double>(op.step);
  const double correction1 = 1 - std::pow(static_cast<double>(op.beta1), step);
  const double correction2 = 1 - std::pow(static_cast<double>(op.beta2), step);
  const auto rate = static_cast<float>(op.lr / correction1);
  const auto root = static_cast<float>(1 / std::sqrt(correction2));
  const float keep = 1 - op.lr * op.weight_decay;
  const float beta1 = op.beta1, beta2 = op.beta2, epsilon = op.epsilon;
  const float fresh1 = 1 - beta1, fresh2 = 1 - beta2;

  float* p_all = op.parameters.data<float>();
  float* m_all = op.first_moment.data<float>();
  float* v_all = op.second_moment.data<float>();
  const float* g_all = op.gradients.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 float* __restrict p = p_all;
                 float* __restrict m = m_all;
                 float* __restrict v = v_all;
                 const float* __restrict g = g_all;
                 for (std::int64_t i = begin; i < end; ++i) {
                   m[i] = beta1 * m[i] + fresh1 * g[i];
                   v[i] = beta2 * v[i] + fresh2 * (g[i] * g[i]);
                   p[i] = keep * p[i] - rate * (m[i] / (std::sqrt(v[i]) * root + epsilon));
                 }
               });
}

void sgd(const Context& context, const Sgd& op) {
  const float lr = op.lr, decay = op.weight_decay, momentum = op.momentum;
  // At step 1 the velocity is the gradient itself, whatever its memory held.
  const bool first = op.step == 1;
  float* p_all = op.parameters.data<float>();
  float* u_all = op.velocity.data<float>();
  const float* g_all = op.gradients.data<float>();
  parallel_for(context.threads, op.parameters.count(), grain,
               [=](std::int64_t begin, std::int64_t end, int) {
                 if (momentum == 0)
                   plain_step(p_all + begin, g_all + begin, end - begin, lr, decay);
                 else if (first)
                   first_step(p_all + begin, u_all + begin, g_all + begin, end - begin, lr, decay);
                 else
                   momentum_step(p_all + begin, u_all + begin, g_all + begin, end - begin, lr,
                                 decay, momentum);
               });
}

}  // namespace ringside::cpu
