// Micro-batches that are under way at once, and backwards in two halves, against one whole pass
// after the other: all bits are the same.
#include <functional>
#include <string>
#include <vector>

#include "tests/models/model_parts.h"

namespace ringside {
namespace {

TEST_P(MicroBatches, DifferFromEachOther) {
  EXPECT_FALSE(expected(0).logits == expected(1).logits);
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    EXPECT_FALSE(expected(0).parameters[u] == expected(1).parameters[u]) << u;
}

TEST_P(MicroBatches, UnderWayAtOnceComputeWhatTheyDoAlone) {
  for (const std::string order : {"F0F1F2B0B1B2", "F0F1B0F2B1B2", "F0F1F2B2B0B1", "F1F0B1B0"}) {
    SCOPED_TRACE(order);
    std::vector<ModelPart> parts;
    for (std::int64_t m = 0; m < micro_batches; ++m) parts.push_back(part_of(model_, m));
    for (std::size_t at = 0; at < order.size(); at += 2) {
      ModelPart& part = parts[static_cast<std::size_t>(order[at + 1] - '0')];
      if (order[at] == 'F') {
        EXPECT_TRUE(logits_of(part) == expected(part.micro_batch).logits);
      } else {
        all_backward(part);
        expect_gradients(part);
      }
    }
  }
}

TEST_P(MicroBatches, InTurnsThroughEveryUnitComputeWhatTheyDoAlone) {
  ModelPart one = part_of(model_, 0), other = part_of(model_, 1);
  for (ModelPart* part : {&one, &other}) part->x = input(part->micro_batch);
  bind(one, true, false);
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    for (ModelPart* part : {&one, &other}) forward(*part, u);
  for (ModelPart* part : {&one, &other}) part->x = output_gradient(part->x, part->micro_batch);
  for (std::size_t u = model_.units.size(); u-- > 0;)
    for (ModelPart* part : {&other, &one}) {
      bind(*part, true, true);
      backward(*part, u);
    }
  for (ModelPart* part : {&one, &other}) expect_gradients(*part);
}

TEST_P(MicroBatches, HaveTheirGradientsIfThoseOfParametersComeRightBehind) {
  ModelPart part = part_of(model_, 1);
  put_weights_off(part);
  logits_of(part);
  for (std::size_t u = model_.units.size(); u-- > 0;) {
    bind(part, true, false);
    backward(part, u);
    bind(part, false, false);
    model_.units[u]->bind({}, part.gradients[u]);
    finish(part, u);
  }
  expect_gradients(part);
}

TEST_P(MicroBatches, HaveTheirGradientsIfThoseOfParametersComeBehindAllInputs) {
  ModelPart part = part_of(model_, 1);
  put_weights_off(part);
  logits_of(part);
  all_backward(part, false);
  all_finish(part);
  expect_gradients(part);
}

TEST_P(MicroBatches, HaveTheirGradientsIfThoseOfParametersComeBehindTheNextForward) {
  ModelPart one = part_of(model_, 0), next = part_of(model_, 1);
  put_weights_off(one);
  put_weights_off(next);
  logits_of(one);
  all_backward(one, false);
  logits_of(next);
  all_finish(one);
  all_backward(next, false);
  all_finish(next);
  for (const ModelPart& part : {std::cref(one), std::cref(next)}) expect_gradients(part);
}

TEST_P(MicroBatches, HoldWhatIsPutOffUntilItIsDone) {
  expected(1);  // makes running statistics
  ModelPart part = part_of(model_, 1);
  bind(part, false, false);  // frees the gradients of other parts
  const auto used = [&] { return device_->ledger().current().total(); };
  const std::int64_t before = used();
  put_weights_off(part);
  logits_of(part);
  all_backward(part, false);
  part.x = {};
  bind(part, false, true);
  std::int64_t held = used();
  EXPECT_GT(held, before);
  for (std::size_t u = part.model.units.size(); u-- > 0;) {
    finish(part, u);
    // A tied table's part of the gradient may be there until its owner is done.
    EXPECT_LE(used(), held) << part.model.units[u]->name();
    held = used();
  }
  EXPECT_EQ(held, before);
}

INSTANTIATE_TEST_SUITE_P(Models, MicroBatches, ::testing::ValuesIn(ways()), name_of_way);

/// A pass with the micro-batches of two ranks whose batch norms are joined.
TEST(PassOfTwoRanks, HasTheSameGradientsInHalves) {
  constexpr std::int64_t ranks = 2;
  const Pass pass{.micro_batches = ranks, .ranks = ranks};
  for (const Case& one : cases()) {
    if (!find_model(one.config.kind).batch_norms) continue;
    SCOPED_TRACE(one.name);
    const auto device = make_cpu_device(1);
    const BoundModel bound(*device, make_model(one.config, *device));
    std::vector<std::vector<float>> results;
    for (const bool put_off : {false, true}) {
      testing::MicroBatch own(bound.model);
      const Tensor x = input_of(one.config, bound.model, *device, 2 * ranks, 1);
      Tensor d = own.forward(bound.model, x, pass);
      d = upload(*device, normals(d.count(), 2), d.shape());
      std::vector<float>& result = results.emplace_back();
      for (std::size_t u = bound.model.units.size(); u-- > 0;) {
        Unit& unit = *bound.model.units[u];
        const Tensor gradients =
            device->tensor({ranks * unit.layout().count()}, MemoryKind::gradient);
        own.saved[u].put_weights_off(put_off);
        unit.bind(bound.parameters[u], put_off ? Tensor{} : gradients);
        d = unit.backward(d, own.saved[u]);
        if (put_off) unit.bind({}, gradients);
        own.saved[u].finish_weights();
        for (const float value : download(gradients)) result.push_back(value);
        unit.bind(bound.parameters[u], {});
      }
    }
    EXPECT_TRUE(results[0] == results[1]);
  }
}

}  // namespace
}  // namespace ringside
