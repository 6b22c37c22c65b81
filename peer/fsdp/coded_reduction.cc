#include "peer/fsdp/coded_reduction.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/device/convert.h"
#include "peer/schemes/compressed.h"

namespace ringside::peer {
namespace {

/// Seeds of sums within hosts and across them differ by this.
constexpr std::uint64_t across_hosts = std::uint64_t{1} << 63;

/// Makes the contexts of compressors of shards.
class ShardCoder {
 public:
  ShardCoder(const RankContext& context, const FsdpUnits& fsdp_units, int ranks,
             const CompressionOptions& options)
      : context_(context), fsdp_units_(fsdp_units), ranks_(ranks), options_(options) {
    const Model& model = fsdp_units.model();
    for (const Piece& piece : pieces_of(model, 0, model.parameter_count()))
      tensors_.push_back({piece.begin, piece.shape.count(), piece.number});
  }

  /// Elements [begin, begin + count) of the model: the shard of an FSDP unit that rank `owner`
  /// keeps, without padding.
  struct Shard {
    std::int64_t begin, count;
  };
  Shard shard(std::size_t fsdp_unit, int owner) const {
    const FsdpUnit& unit = fsdp_units_[fsdp_unit];
    const std::int64_t each = (unit.count + ranks_ - 1) / ranks_;
    const std::int64_t begin = std::min(owner * each, unit.count);
    return {unit.begin + begin, std::min(each, unit.count - begin)};
  }

  /// The codes that `worker`, one of `workers`, makes of the shard. The parts of a tensor in
  /// different shards have numbers of their own.
  CompressedBucket codes(std::size_t fsdp_unit, int owner, int worker, int workers,
                         std::uint64_t seed) const {
    const auto [begin, count] = shard(fsdp_unit, owner);
    std::vector<Piece> pieces;
    for (const NumberedTensor& tensor : tensors_) {
      const std::int64_t from = std::max(begin, tensor.begin);
      const std::int64_t to = std::min(begin + count, tensor.begin + tensor.count);
      if (from < to)
        pieces.push_back({from - begin,
                          {to - from},
                          tensor.number * static_cast<std::uint32_t>(ranks_) +
                              static_cast<std::uint32_t>(owner)});
    }
    return CompressedBucket({.device = context_.device,
                             .options = options_,
                             .pieces = std::move(pieces),
                             .worker = worker,
                             .workers = workers,
                             .seed = static_cast<std::uint64_t>(context_.plan.train.seed) + seed});
  }

 private:
  struct NumberedTensor {
    std::int64_t begin, count;
    std::uint32_t number;
  };

  const RankContext& context_;
  const FsdpUnits& fsdp_units_;
  int ranks_;
  CompressionOptions options_;
  std::vector<NumberedTensor> tensors_{};  // of the model
};

bool gathers(const CompressedBucket& codes) { return codes.move() == Compressor::Move::gather; }

}  // namespace

CodedReduction::CodedReduction(const RankContext& context, const Shards& shards,
                               const GradientBuckets& buckets, const HostGroups& hosts,
                               const CompressionOptions& options)
    : context_(context), shards_(shards), buckets_(buckets), hosts_(hosts), first_{hosts.within()} {
  const FsdpUnits& fsdp_units = shards.fsdp_units();
  const ShardCoder coder(context, fsdp_units, shards.ranks(), options);
  if (hosts.across()) second_.emplace(Level{*hosts.across()});
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    first_.to.emplace_back(static_cast<std::size_t>(hosts.host_ranks()));
    if (second_) second_->to.emplace_back(static_cast<std::size_t>(hosts.hosts()));
    const std::int64_t part = buckets.part_count(b, shards);
    for (int owner = 0; owner < shards.ranks(); ++owner) {
      const auto host = static_cast<std::size_t>(owner / hosts.host_ranks());
      const auto place = static_cast<std::size_t>(owner % hosts.host_ranks());
      for (std::size_t u = buckets[b].first; u <= buckets[b].last; ++u) {
        const auto [begin, count] = coder.shard(u, owner);
        const std::int64_t in_part = shards.begin(u) - shards.begin(buckets[b].first);
        const std::int64_t of_host = static_cast<std::int64_t>(host) * part + in_part;
        if (count == 0) continue;
        first_.to[b][place].push_back({coder.codes(u, owner, shards.rank(), shards.ranks(), 0),
                                       begin, owner * part + in_part, of_host, count});
        if (second_ && static_cast<int>(place) == hosts.place())
          second_->to[b][host].push_back(
              {coder.codes(u, owner, hosts.across()->rank(), hosts.hosts(), across_hosts), begin,
               of_host, in_part, count});
      }
    }
  }
}

WorkPtr CodedReduction::begin(Level& level, std::size_t bucket, const Tensor& values) {
  const std::string& name = buckets_[bucket].name;
  Tensor sent;
  std::int64_t longest = 0;  // of the messages, in elements
  bool moves_codes = true;
  DType dtype = DType::u8;
  {
    const auto span = context_.timeline.scope(Activity::encoding, "encode " + name,
                                              {.bytes = static_cast<std::int64_t>(values.bytes())});
    for (std::vector<Coded>& message : level.to[bucket]) {
      std::int64_t length = 0;
      for (Coded& one : message) {
        one.codes.begin(values.range(one.from, one.count));
        length += one.codes.form(0).count;
        dtype = one.codes.form(0).dtype;
        moves_codes = gathers(one.codes);
      }
      longest = std::max(longest, length);
    }
    if (longest == 0) return nullptr;
    sent = context_.device.tensor({level.among.size() * longest}, MemoryKind::communication, dtype);
    for (std::size_t d = 0; d < level.to[bucket].size(); ++d) {
      std::int64_t at = static_cast<std::int64_t>(d) * longest;
      const std::int64_t end = at + longest;
      for (Coded& one : level.to[bucket][d]) {
        const Tensor message = sent.range(at, one.codes.form(0).count);
        one.codes.give(0, message);
        one.codes.remember(message);
        at += message.count();
      }
      if (at < end && !moves_codes)
        context_.device.kernels().fill({.out = sent.range(at, end - at)});
    }
  }
  level.among.name_next(name);
  Tensor& received = level.received[bucket];
  if (!moves_codes) {
    received = sent.range(level.among.rank() * longest, longest);
    return level.among.reduce_scatter(sent, received);
  }
  received = context_.device.tensor(sent.shape(), MemoryKind::communication, dtype);
  return level.among.all_to_all(sent, received);
}

void CodedReduction::finish(Level& level, std::size_t bucket, const Tensor& out) {
  const auto span = context_.timeline.scope(Activity::encoding, "decode " + buckets_[bucket].name,
                                            {.bytes = static_cast<std::int64_t>(out.bytes())});
  const Tensor received = std::exchange(level.received[bucket], {});
  std::int64_t at = 0;
  for (Coded& one : level.to[bucket][static_cast<std::size_t>(level.among.rank())]) {
    const std::int64_t count = one.codes.form(0).count;
    const int senders = gathers(one.codes) ? level.among.size() : 1;
    std::vector<Tensor> messages;
    for (int r = 0; r < senders; ++r)
      messages.push_back(received.range(r * (received.count() / senders) + at, count));
    one.codes.decode(messages, out.range(one.to, one.count));
    at += count;
  }
}

WorkPtr CodedReduction::begin(std::size_t bucket, const Tensor& gradient) {
  return begin(first_, bucket, gradient);
}

WorkPtr CodedReduction::go_on(std::size_t bucket, int) {
  const Tensor sums = context_.device.tensor(
      {hosts_.hosts() * buckets_.part_count(bucket, shards_)}, MemoryKind::communication);
  finish(first_, bucket, sums);
  return begin(*second_, bucket, sums);
}

void CodedReduction::finish(std::size_t bucket, const Tensor& part) {
  for (std::size_t u = buckets_[bucket].first; u <= buckets_[bucket].last; ++u) {
    const std::int64_t in_part = shards_.begin(u) - shards_.begin(buckets_[bucket].first);
    const std::int64_t real = shards_.real_count(u);
    const std::int64_t padding = shards_.padded_count(u) / shards_.ranks() - real;
    if (padding > 0) context_.device.kernels().fill({.out = part.range(in_part + real, padding)});
  }
  finish(second_ ? *second_ : first_, bucket, part);
}

/// All compressors of a level have taken equally many steps.
void CodedReduction::visit_state(Level& level, const char* prefix, const StateVisitor& visit) {
  const Model& model = shards_.fsdp_units().model();
  StateRange like{.name = prefix,
                  .replica = shards_.rank(),
                  .holder = shards_.rank(),
                  .holders = shards_.ranks()};
  const auto each = [&](const auto& with) {
    for (auto& bucket : level.to)
      for (std::vector<Coded>& message : bucket)
        for (Coded& one : message) with(one);
  };
  std::uint32_t steps = 0;
  each([&](const Coded& one) { steps = one.codes.steps(); });
  const auto tensors =
      static_cast<std::int64_t>(pieces_of(model, 0, model.parameter_count()).size());
  visit_compressor_steps(context_.device, steps, 0, tensors, like, visit);
  each([&](Coded& one) {
    one.codes.set_steps(steps);
    like.begin = one.begin;
    visit_compressor(context_.device, one.codes, like, visit);
  });
}

void CodedReduction::visit_state(const StateVisitor& visit) {
  visit_state(first_, "", visit);
  if (second_) visit_state(*second_, "across_hosts/", visit);
}

namespace {

/// One shard of the model, with the codes that all workers, and on several hosts all hosts, make of
/// it.
struct DefinedShard {
  std::int64_t begin, count;
  std::vector<CompressedBucket> workers, hosts;
};

/// What the owner of a shard makes of the codes of `values`.
void sum_by_codes(Device& device, std::span<CompressedBucket> codes, std::span<const Tensor> values,
                  const Tensor& out) {
  std::vector<Tensor> messages;
  for (std::size_t w = 0; w < codes.size(); ++w) {
    codes[w].begin(values[w]);
    const Compressor::Form form = codes[w].form(0);
    messages.push_back(device.tensor({form.count}, MemoryKind::workspace, form.dtype));
    codes[w].give(0, messages.back());
    codes[w].remember(messages.back());
  }
  if (!gathers(codes[0])) messages = {added_up(device, messages)};
  codes[0].decode(messages, out);
}

void sum_shard(Device& device, DefinedShard& shard, std::span<const Tensor> gradients,
               const Tensor& out) {
  std::vector<Tensor> own, sums;
  for (const Tensor& gradient : gradients) own.push_back(gradient.range(shard.begin, shard.count));
  if (shard.hosts.empty()) return sum_by_codes(device, shard.workers, own, out);
  const std::size_t each = own.size() / shard.hosts.size();  // workers of a host
  for (std::size_t h = 0; h < shard.hosts.size(); ++h) {
    sums.push_back(device.tensor({shard.count}, MemoryKind::workspace));
    sum_by_codes(device, std::span(shard.workers).subspan(h * each, each),
                 std::span(own).subspan(h * each, each), sums.back());
  }
  sum_by_codes(device, shard.hosts, sums, out);
}

}  // namespace

std::unique_ptr<SyncScheme> define_coded_reduction(const RankContext& context,
                                                   const GradientCodes& codes) {
  const int ranks = context.plan.defines;
  return define_sum(context, [context, codes, ranks](const Model& model) {
    const FsdpUnits fsdp_units(model, codes.least);
    const ShardCoder coder(context, fsdp_units, ranks, codes.compression);
    const auto shards = std::make_shared<std::vector<DefinedShard>>();
    for (std::size_t u = 0; u < fsdp_units.size(); ++u)
      for (int owner = 0; owner < ranks; ++owner) {
        const auto [begin, count] = coder.shard(u, owner);
        if (count == 0) continue;
        DefinedShard& shard = shards->emplace_back(DefinedShard{begin, count, {}, {}});
        for (int w = 0; w < ranks; ++w) shard.workers.push_back(coder.codes(u, owner, w, ranks, 0));
        for (int h = 0; codes.hosts > 1 && h < codes.hosts; ++h)
          shard.hosts.push_back(coder.codes(u, owner, h, codes.hosts, across_hosts));
      }
    return [&device = context.device, shards](std::span<const Tensor> gradients,
                                              const Tensor& total, bool first) {
      for (DefinedShard& shard : *shards) {
        const Tensor out = total.range(shard.begin, shard.count);
        const Tensor sum =
            first ? out : device.tensor(out.shape(), MemoryKind::workspace, out.dtype());
        sum_shard(device, shard, gradients, sum);
        if (!first) device.kernels().add({.in = sum, .out = out});
      }
    };
  });
}

}  // namespace ringside::peer
