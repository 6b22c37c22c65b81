#include "ps/schemes/master.h"

#include <cmath>

#include "core/base/error.h"
#include "core/plan/slices.h"
#include "core/scheme/loss.h"

namespace ringside::ps {

Master::Master(const Model& model, const std::vector<Chunk>& chunks, Device& device,
               const ServerConfig& config, const Loader& loader, const RunPlan& plan)
    : ParameterServer(model, chunks, device, config),
      loader_(loader),
      terms_(model.terms),
      logits_per_sample_(model.logits_per_sample()),
      plan_(plan),
      open_(static_cast<std::size_t>(config.workers)) {}

Replies Master::answer(int worker, Message message) {
  Open& open = open_[static_cast<std::size_t>(worker)];
  Replies replies;
  if (message.header.kind == Kind::inputs)
    replies.push_back({worker, inputs(message.header, open)});
  else if (message.header.kind == Kind::loss)
    replies.push_back({worker, loss(message, open)});
  else
    return ParameterServer::answer(worker, std::move(message));
  return replies;
}

Message Master::inputs(const Header& header, Open& open) {
  const bool known = header.step >= 0 && header.step < config().steps && header.micro_batch >= 0 &&
                     header.micro_batch < plan_.train.accumulation;
  const BatchSlice slice =
      known ? slice_of(plan_, header.worker, header.step, header.micro_batch) : BatchSlice{};
  if (!known || header.begin != slice.first || header.count != slice.count)
    throw Error("the {} samples of step {} from sample {} on are not those of micro-batch {}",
                header.count, header.step, header.begin, header.micro_batch);
  if (open.targets)
    throw Error("the worker has not asked for the loss of micro-batch {} of step {} yet",
                open.micro_batch, open.step);
  const Batch batch = loader_.read(slice);
  const BatchSlice next = next_slice(plan_, header.worker, header.step, header.micro_batch);
  if (next.step < config().steps) loader_.expect(next);
  open = {header.step, header.micro_batch, batch.targets};
  return {reply_to(header), {batch.inputs}};
}

Message Master::loss(const Message& message, Open& open) {
  const Header& header = message.header;
  if (!open.targets || open.step != header.step || open.micro_batch != header.micro_batch)
    throw Error("the master keeps no targets for micro-batch {} of step {}", header.micro_batch,
                header.step);
  const std::int64_t samples =
      slice_of(plan_, header.worker, header.step, header.micro_batch).count;
  // With one term every target has a row of logits, also if samples differ in length.
  const std::int64_t wanted =
      terms_.size() == 1 ? open.targets.count() * terms_[0].classes : samples * logits_per_sample_;
  if (message.frames.size() != 1 || message.frames[0].dtype() != parameter_dtype(plan_.train) ||
      message.frames[0].count() != wanted)
    throw Error("the message must have one frame with {} logits of dtype {}", wanted,
                name_of(plan_.train.precision));
  const auto scale = static_cast<float>(header.scalar);
  if (!(std::isfinite(scale) && scale > 0))
    throw Error("the gradient scale is {}; it must be finite and above 0", header.scalar);
  const std::int64_t targets = loader_.targets({header.step, 0, plan_.train.global_batch});
  const LossTerms terms{.terms = terms_,
                        .global_batch = plan_.train.global_batch,
                        .gradient_scale = scale,
                        .targets = targets,
                        .gradient_targets = targets};
  const Loss loss = cross_entropy(device(), message.frames[0], open.targets, terms, true);
  open.targets = {};
  Message reply{reply_to(header), {loss.gradient}};
  reply.header.scalar = value_of(device(), loss).loss;
  return reply;
}

}  // namespace ringside::ps
