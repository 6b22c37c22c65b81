#include "core/train/checkpoint_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/whole_file.h"
#include "core/plan/saved_steps.h"

namespace ringside {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The longest time for which a part is awaited, besides train.timeout_s.
constexpr double longest_write_s = 600;
/// How often the writer of the manifest looks whether a worker that may be lost is.
constexpr double look_s = 1;
constexpr const char* stopped_after_key = "checkpoint/stopped_after";

std::string name_of_part(RankPart part, int number) {
  return fmt::format("{} {}", part == RankPart::server ? "server" : "worker", number);
}

std::string entry_key(RankPart part, int number, std::int64_t done) {
  return fmt::format("checkpoint/{}/{}", done, name_of_part(part, number));
}

std::int64_t bytes_of(std::int64_t values) {
  return values * static_cast<std::int64_t>(sizeof(float));
}

std::string server_key(int server) {
  return fmt::format("checkpoint/{}", name_of_part(RankPart::server, server));
}

}  // namespace

struct CheckpointPart::Snapshot {
  std::int64_t done = 0;  // steps
  double taken_at = 0;    // on the host's clock
  std::vector<HostRange> ranges;
  /// Memory of the copy before, in the order of its ranges: fresh memory would have to be cleared.
  std::deque<std::vector<float>> spare;
  /// Of a simulated rank, which copies no values: bytes to write, by the device on which they lie
  /// (null: on the host already).
  std::map<Device*, double> bytes;
  ordered_json entry;
  std::function<void(const OpenFolder&)> then;
};

CheckpointPart::CheckpointPart(const RankContext& context, RankPart part,
                               std::function<void()> meanwhile)
    : context_(context),
      part_(part),
      meanwhile_(std::move(meanwhile)),
      storage_(context.links.storage(context)) {}

/// A simulated rank that ends by an exception must not wait: its world may be ending.
CheckpointPart::~CheckpointPart() {
  if (writer_.valid()) writer_.wait();
}

double CheckpointPart::now() const {
  return storage_ ? context_.device.clock().now() : seconds_now();
}

void CheckpointPart::wait() {
  if (storage_) cost_.write_s += storage_->wait();
  if (!writer_.valid()) return;
  const std::chrono::duration<double> nap(std::min(1.0, context_.plan.train.timeout_s / 16));
  while (meanwhile_ && writer_.wait_for(nap) != std::future_status::ready) meanwhile_();
  writer_.get();
}

void CheckpointPart::begin(std::int64_t done) {
  begun_at_ = now();
  wait();
  if (!snapshot_) snapshot_ = std::make_unique<Snapshot>();
  snapshot_->done = done;
  snapshot_->spare.clear();
  for (HostRange& range : snapshot_->ranges) snapshot_->spare.push_back(std::move(range.values));
  snapshot_->ranges.clear();
  snapshot_->bytes.clear();
  cost_.read_bytes = 0;
}

void CheckpointPart::take(const StateRange& range) {
  const std::int64_t count = range.values.count();
  const std::int64_t first = count * range.holder / range.holders,
                     end = count * (range.holder + 1) / range.holders;
  if (storage_) {
    cost_.read_bytes += bytes_of(count);
    snapshot_->bytes[range.device] += static_cast<double>(bytes_of(end - first));
    return;
  }
  HostRange own{.key = {range.name, range.replica}, .begin = range.begin + first, .values = {}};
  if (end == first) return;
  if (!snapshot_->spare.empty()) {
    own.values = std::move(snapshot_->spare.front());
    snapshot_->spare.pop_front();
  }
  own.values.resize(static_cast<std::size_t>(end - first));
  range.device->read(range.values.range(first, end - first),
                     std::as_writable_bytes(std::span(own.values)));
  add(std::move(own));
}

void CheckpointPart::add(HostRange range) {
  if (storage_) {
    const std::int64_t bytes = bytes_of(static_cast<std::int64_t>(range.values.size()));
    cost_.read_bytes += bytes;
    snapshot_->bytes[nullptr] += static_cast<double>(bytes);
    return;
  }
  if (!range.values.empty()) snapshot_->ranges.push_back(std::move(range));
}

void CheckpointPart::write_in_time() {
  double bytes = 0;
  for (const auto& [device, part] : snapshot_->bytes) {
    if (device && part > 0) storage_->copy(*device, part);
    bytes += part;
  }
  cost_.bytes = static_cast<std::int64_t>(bytes);
  ++cost_.written;
  if (bytes > 0) storage_->write(bytes);
  if (!context_.plan.checkpoint.asynchronous) wait();
  cost_.stall_s += now() - begun_at_;
}

void CheckpointPart::write(ordered_json entry, bool on_disk,
                           std::function<void(const OpenFolder&)> then) {
  if (storage_) return write_in_time();
  snapshot_->entry = std::move(entry);
  snapshot_->then = std::move(then);
  snapshot_->taken_at = seconds_now();
  if (copied_after(context_.plan, snapshot_->done)) keep_copy();
  if (on_disk) writer_ = std::async(std::launch::async, [this] { run(); });
  if (!context_.plan.checkpoint.asynchronous) wait();
  cost_.stall_s += seconds_now() - begun_at_;
}

void CheckpointPart::keep_copy() {
  if (!copies_) copies_.emplace(ordered_json::object());
  Snapshot& one = *snapshot_;
  if (!copies_->write(one.done, one.entry, one.ranges)) return;
  const int number = part_ == RankPart::server ? context_.self().server : context_.self().worker;
  context_.store.set(copies_key(name_of_part(part_, number), told_++),
                     text_of_copies(copies_->files()));
}

/// Runs beside training.
void CheckpointPart::run() {
  Snapshot& one = *snapshot_;
  const int number = part_ == RankPart::server ? context_.self().server : context_.self().worker;
  bool told = false;
  const auto tell = [&] {
    told = true;
    context_.store.set(entry_key(part_, number, one.done), one.entry.dump());
  };
  try {
    const OpenFolder folder(context_.plan.checkpoint.path);
    cost_.bytes = 0;
    if (!one.ranges.empty()) {
      const CheckpointFile file = write_rank_file(folder.inside(checkpoint_name(one.done)),
                                                  context_.rank, one.ranges, part_);
      cost_.bytes = file.bytes;
      one.entry["file"] = to_json(file);
    }
    tell();
    if (one.then) one.then(folder);
    ++cost_.written;
    cost_.write_s += seconds_now() - one.taken_at;
  } catch (const std::exception& error) {
    cost_.failure = fmt::format("after step {}: {}", one.done, error.what());
    if (told) return;
    try {
      one.entry["failure"] = error.what();
      tell();
    } catch (const std::exception&) {
      // The run ends, and with it the store.
    }
  }
}

void CheckpointPart::finish(RankRecord& record) {
  const double begin = now();
  wait();
  // The last write of a simulated run, whose few steps stand for many, holds nothing up.
  if (!storage_) cost_.stall_s += now() - begin;
  if (writes_checkpoints(context_.plan) || cost_.resumed_after > 0) record.checkpoints = cost_;
}

json written_part(const RankContext& context, RankPart part, int number, std::int64_t done,
                  std::int64_t process) {
  const double longest = context.plan.train.timeout_s + longest_write_s;
  const bool may_be_lost = part == RankPart::worker && context.plan.expendable > 0;
  json entry;
  for (double waited = 0; entry.is_null(); waited += look_s) {
    try {
      entry = json::parse(
          context.store.get(entry_key(part, number, done), may_be_lost ? look_s : longest));
    } catch (const Error&) {
      if (!may_be_lost || waited >= longest) throw;
      if (context.store.try_get(lost_key(number, process)))
        throw Error("{} was lost before it had written its part", name_of_part(part, number));
    }
  }
  if (entry.contains("failure"))
    throw Error(
        "{}: {}{}", name_of_part(part, number), entry.at("failure").get<std::string>(),
        spans_hosts(context.plan) ? "; all hosts of the run must share checkpoint.path" : "");
  return entry;
}

void say_server_part(const RankContext& context, bool has) {
  context.store.set(server_key(context.self().server), has ? "has values" : "");
}

bool has_server_part(const RankContext& context, int server) {
  return !context.store.get(server_key(server), context.plan.train.timeout_s).empty();
}

void say_stop(const RankContext& context, std::int64_t done) {
  context.store.set(stopped_after_key, std::to_string(done));
}

std::int64_t said_stop(const RankContext& context) {
  const std::optional<std::string> said = context.store.try_get(stopped_after_key);
  return said ? std::stoll(*said) : 0;
}

bool goes_on(const RunPlan& plan) { return !plan.resume.empty() || !plan.host_copies.empty(); }

static Checkpoint opened(const RunPlan& plan) {
  if (plan.host_copies.empty()) return Checkpoint(plan.resume);
  std::vector<shm::Address> copies;
  for (const HostMemoryFile& file : plan.host_copies)
    copies.push_back({.process = static_cast<std::int32_t>(file.process),
                      .file = static_cast<std::int32_t>(file.file),
                      .identity = static_cast<std::uint64_t>(file.identity)});
  return checkpoint_of_copies(copies);
}

Checkpoint resumed_checkpoint(const RunPlan& plan, std::int64_t parameters) {
  Checkpoint from = opened(plan);
  if (from.manifest().parameters != parameters)
    throw Error("{}: its model has {} parameters, but this one has {}", from.path().string(),
                from.manifest().parameters, parameters);
  return from;
}

LossScale::State saved_loss_scale(const Manifest& manifest) {
  const json scale = manifest.scalars.at("loss_scale");
  return {scale.at("value").get<float>(), scale.at("good_steps").get<std::int64_t>(),
          scale.at("skipped").get<std::int64_t>(),
          scale.value("skipped_in_a_row", std::int64_t{0})};
}

}  // namespace ringside
