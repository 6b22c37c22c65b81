// The operands of a layer's operation, divided into those it reads and those it writes. A visitor
// has in(), out() and in_out(), each of which takes a tensor.
#pragma once

#include <concepts>
#include <type_traits>

#include "core/device/ops.h"

namespace ringside::cpu {

template <class T, class Op>
concept Is = std::same_as<std::remove_const_t<T>, Op>;

void visit_operands(Is<LinearForward> auto& op, auto&& visit) {
  visit.in(op.x), visit.in(op.weight), visit.in(op.bias);
  visit.out(op.pre), visit.out(op.y);
}
void visit_operands(Is<LinearBackward> auto& op, auto&& visit) {
  // Without an activation the operation only reads dy.
  op.activation == Activation::none ? visit.in(op.dy) : visit.in_out(op.dy);
  visit.in(op.x), visit.in(op.weight), visit.in(op.pre);
  visit.out(op.dx), visit.out(op.dweight), visit.out(op.dbias);
}
void visit_operands(Is<EmbeddingBackward> auto& op, auto&& visit) {
  visit.in(op.tokens), visit.in(op.dy);
  visit.out(op.dtoken_table), visit.out(op.dposition_table);
}
void visit_operands(Is<TakeRowsBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.positions);
  visit.out(op.dx);
}
void visit_operands(Is<LayerNormForward> auto& op, auto&& visit) {
  visit.in(op.x), visit.in(op.residual), visit.in(op.weight), visit.in(op.bias);
  visit.out(op.sum), visit.out(op.y), visit.out(op.mean), visit.out(op.rstd);
}
void visit_operands(Is<LayerNormBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.x), visit.in(op.weight), visit.in(op.mean), visit.in(op.rstd);
  visit.in(op.dresidual);
  visit.out(op.dx), visit.out(op.dweight), visit.out(op.dbias);
}
void visit_operands(Is<RmsNormForward> auto& op, auto&& visit) {
  visit.in(op.x), visit.in(op.residual), visit.in(op.weight);
  visit.out(op.sum), visit.out(op.y), visit.out(op.rstd);
}
void visit_operands(Is<RmsNormBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.x), visit.in(op.weight), visit.in(op.rstd);
  visit.in(op.dresidual);
  visit.out(op.dx), visit.out(op.dweight);
}
void visit_operands(Is<SwiGluForward> auto& op, auto&& visit) {
  visit.in(op.x);
  visit.out(op.y);
}
void visit_operands(Is<SwiGluBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.x);
  visit.out(op.dx);
}
void visit_operands(Is<Rotary> auto& op, auto&& visit) { visit.in_out(op.x); }
void visit_operands(Is<AttentionForward> auto& op, auto&& visit) {
  visit.in(op.qkv);
  visit.out(op.y), visit.out(op.statistics);
}
void visit_operands(Is<AttentionBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.qkv), visit.in(op.y), visit.in(op.statistics);
  visit.out(op.dqkv);
}
void visit_operands(Is<CrossAttentionForward> auto& op, auto&& visit) {
  visit.in(op.q), visit.in(op.kv), visit.in(op.bias);
  visit.out(op.y), visit.out(op.statistics);
}
void visit_operands(Is<CrossAttentionBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.q), visit.in(op.kv), visit.in(op.bias);
  visit.in(op.y), visit.in(op.statistics);
  visit.out(op.dq), visit.out(op.dkv), visit.in_out(op.dbias);
}
void visit_operands(Is<ConvolutionForward> auto& op, auto&& visit) {
  visit.in(op.x), visit.in(op.weight), visit.in(op.bias);
  visit.out(op.y);
}
void visit_operands(Is<ConvolutionBackward> auto& op, auto&& visit) {
  op.relu ? visit.in_out(op.dy) : visit.in(op.dy);
  visit.in(op.x), visit.in(op.weight), visit.in(op.y);
  visit.out(op.dx), visit.out(op.dweight), visit.out(op.dbias);
}
void visit_operands(Is<MaxPoolForward> auto& op, auto&& visit) {
  visit.in(op.x);
  visit.out(op.y), visit.out(op.where);
}
void visit_operands(Is<MaxPoolBackward> auto& op, auto&& visit) {
  visit.in(op.dy), visit.in(op.where);
  visit.out(op.dx);
}
void visit_operands(Is<AverageWindowsForward> auto& op, auto&& visit) {
  visit.in(op.x);
  visit.out(op.y);
}
void visit_operands(Is<AverageWindowsBackward> auto& op, auto&& visit) {
  visit.in(op.dy);
  visit.out(op.dx);
}
void visit_operands(Is<AveragePoolForward> auto& op, auto&& visit) {
  visit.in(op.x);
  visit.out(op.y);
}
void visit_operands(Is<AveragePoolBackward> auto& op, auto&& visit) {
  visit.in(op.dy);
  visit.out(op.dx);
}
void visit_operands(Is<CrossEntropy> auto& op, auto&& visit) {
  visit.in(op.logits), visit.in(op.targets);
  visit.out(op.losses), visit.out(op.hits), visit.out(op.dlogits);
}

}  // namespace ringside::cpu
