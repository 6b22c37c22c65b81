#include "ps/protocol/server_loop.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "core/base/error.h"
#include "core/observe/beats.h"
#include "core/observe/machine_load.h"
#include "core/observe/process_memory.h"
#include "core/plan/faults.h"
#include "ps/protocol/attendance.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/server_checkpoints.h"
#include "ps/protocol/worker_failures.h"

namespace ringside::ps {
namespace {

/// How often a server looks whether a worker that the run can do without is lost.
constexpr double loss_look_s = 0.05;
/// The time for which a server that fails waits for workers to which it could not yet send the
/// cause.
constexpr double last_moment_s = 2;

/// Adds up the bytes of the messages about measured steps, and the processor time of the process
/// for them: for each message, the time since the message before it. Workers may send messages
/// about the next step while others still send those about the current step, so there is no moment
/// at which a step begins for the server.
class Meter {
 public:
  /// With `free_steps` a worker may do more steps than the run has.
  Meter(const Channel& channel, const TrainConfig& train, bool free_steps)
      : channel_(channel), train_(train), first_(train.warmup), free_steps_(free_steps) {}

  /// The run goes on after so many steps, and warms up again.
  void restored(std::int64_t steps) { first_ += steps; }

  /// Takes the bytes that the channel has moved, and the processor time, since the last call. Both
  /// belong to the message with this header; they count if the message is about a measured step.
  void note(const Header& header) {
    const Traffic now = channel_.traffic();
    const double processor_now = processor_seconds();
    const std::int64_t step = step_of(header);
    if (is_about_a_step(header.kind) && step >= first_ && (step < train_.steps || free_steps_)) {
      measured_ = measured_ + (now - last_);
      processor_s_ += processor_now - last_processor_s_;
    }
    last_ = now;
    last_processor_s_ = processor_now;
  }

  std::int64_t first_step() const { return first_; }
  Traffic measured() const { return measured_; }
  double processor_s() const { return processor_s_; }

 private:
  /// Workers with free steps get the values of their steps as replies to their pushes; they pull
  /// values only to evaluate them, and at the end.
  bool is_about_a_step(Kind kind) const {
    return kind == Kind::push || kind == Kind::push_pull || (kind == Kind::pull && !free_steps_) ||
           kind == Kind::measure || kind == Kind::settle || kind == Kind::inputs ||
           kind == Kind::loss;
  }

  /// The step to which a message belongs; the first step is step 0. The header of a pull names the
  /// number of updates that the values have had. So a pull of the values after n updates belongs to
  /// step n - 1, and a pull of the initial values (n = 0) to step 0.
  static std::int64_t step_of(const Header& header) {
    return header.kind == Kind::pull ? std::max<std::int64_t>(0, header.step - 1) : header.step;
  }

  const Channel& channel_;
  const TrainConfig& train_;
  std::int64_t first_;  // measured step
  bool free_steps_;
  Traffic last_, measured_;
  double last_processor_s_ = processor_seconds(), processor_s_ = 0;
};

/// Tracks the steps of the workers; a trace shows the last ones.
class TracedSteps {
 public:
  TracedSteps(const RankContext& context, Timeline& timeline)
      : context_(context), timeline_(timeline) {}

  /// A message has come. The server's steps begin with the first push of any worker.
  void see(const Header& header) {
    if (header.kind != Kind::push && header.kind != Kind::push_pull) return;
    if (header.step <= newest_) return;
    newest_ = header.step;
    // A worker in the same rank follows the memory of their device.
    timeline_.trace(context_.traces(newest_), context_.self().worker < 0);
    if (timeline_.traces()) timeline_.begin_step();
  }

  void report(RankRecord& record) {
    const std::int64_t first = timeline_.first_kept_step();
    record.slices = timeline_.slices(first);
    std::erase_if(record.slices, [](const Slice& slice) { return slice.activity == "step"; });
    record.memory = timeline_.memory(first);
    timeline_.trace(false);
  }

 private:
  const RankContext& context_;
  Timeline& timeline_;
  std::int64_t newest_ = -1;
};

/// The note of a message's span in a trace.
SpanNote note_of(const Message& message) {
  return {.track = Server::track,
          .operation = name_of(message.header.kind),
          .bytes = frame_bytes(message)};
}

/// Sends the cause of a failure to the worker. Returns false if the worker takes no message now.
bool tell(Channel& channel, std::size_t worker, const std::string& cause) {
  Message message;
  message.header.kind = Kind::error;
  message.header.reply = true;
  message.header.worker = static_cast<std::int32_t>(worker);
  message.header.text = cause;
  return channel.try_send(static_cast<int>(worker), std::move(message));
}

/// Sends every worker the cause. Waits up to `moment_s` for workers that have not connected yet: no
/// other rank could send them the cause, and without it they would wait for their whole deadline.
void tell_failure(Channel& channel, Attendance& attendance, const Clock& clock, double moment_s,
                  const std::string& cause) {
  std::vector<bool> told(attendance.size());
  for (const double end = clock.now() + moment_s; clock.now() < end;) {
    for (std::size_t w = 0; w < told.size(); ++w) {
      if (told[w] || !attendance.came(w)) continue;
      told[w] = tell(channel, w, cause);
    }
    if (std::find(told.begin(), told.end(), false) == told.end()) return;
    try {
      if (const auto received = channel.receive(moment_s / 16)) attendance.heard(received->peer);
    } catch (const std::exception&) {
      // This error may only be about a peer that is gone. Workers must get the first cause.
    }
  }
}

/// Sends a heartbeat to these workers.
void reassure(Channel& channel, const Server& server, const std::vector<int>& workers) {
  for (const int worker : workers) {
    Message message;
    message.header.kind = Kind::alive;
    message.header.reply = true;
    message.header.worker = worker;
    message.header.token = server.token();
    channel.try_send(worker, std::move(message));
  }
}

/// Sends one to workers that wait for others, at a meeting or for the end of their training; or to
/// all that have come.
void reassure(Channel& channel, const Server& server, const Attendance& attendance, bool all) {
  reassure(channel, server, server.patient());
  reassure(channel, server, server.meetings().waiting());
  std::vector<int> others;
  for (std::size_t w = 0; all && w < attendance.size(); ++w)
    if (attendance.came(w)) others.push_back(static_cast<int>(w));
  reassure(channel, server, others);
}

/// Sends a worker the reason for which its message is refused.
void refuse(Channel& channel, const Received& received, std::string cause) {
  Message message{reply_to(received.message.header), {}};
  message.header.kind = Kind::error;
  message.header.text = std::move(cause);
  channel.try_send(received.peer, std::move(message));
}

/// The server's connections end, and it tells nobody why: a fault on purpose.
class Cut : public Error {
 public:
  Cut() : Error("the connections of this server were cut (faults.plan)") {}
};

/// Brings the fault about, if the launcher has named one.
void be_struck(const std::optional<std::string>& fault) {
  if (fault == "cut") throw Cut();
  while (fault) std::this_thread::sleep_for(std::chrono::hours(1));
}

void run(const RankContext& context, Channel& channel, Server& server, Greetings& greetings,
         Attendance& attendance, Meter& meter, TracedSteps& steps, ServerCheckpoints& checkpoints) {
  std::optional<Beats> beats;
  if (context.beat) beats.emplace(server.timeline(), Beats::Of::server, context.beat);
  Timeline& timeline = server.timeline();
  const Clock& clock = context.device.clock();
  WorkerFailures losses(context, channel, server, greetings);
  const bool may_lose = context.plan.expendable > 0 && !context.plan.cluster;
  const double nap_s = may_lose ? std::min(loss_look_s, attendance.nap_s()) : attendance.nap_s();
  const auto send = [&](Replies replies) {
    for (Reply& reply : replies) {
      const Header header = reply.message.header;
      const auto replying = timeline.traced(
          Server::track,
          [&] { return fmt::format("reply {} to worker {}", name_of(header.kind), reply.worker); },
          note_of(reply.message));
      losses.send(std::move(reply));
      meter.note(header);
    }
  };
  const bool is_struck = strikes_itself(context.plan, context.self().server);
  while (!server.seats().all_done()) {
    if (beats) beats->note_progress();
    if (is_struck) be_struck(context.store.try_get(fault_key(context.self().server)));
    send(checkpoints.look());
    const double due = server.due().value_or(std::numeric_limits<double>::infinity());
    if (due <= clock.now()) send(server.wake());
    std::optional<Received> received = losses.receive(std::clamp(due - clock.now(), 0.0, nap_s));
    if (received) {
      attendance.heard(received->peer);
      meter.note(received->message.header);
      const Header& first = received->message.header;
      if (std::string cause = greetings.refusal(received->peer, first); !cause.empty()) {
        refuse(channel, *received, std::move(cause));
        continue;
      }
      if (first.kind == Kind::hello) continue;
      steps.see(first);
      const auto handling = timeline.traced(
          Server::track,
          [&] { return fmt::format("receive {} of worker {}", name_of(first.kind), first.worker); },
          note_of(received->message));
      send(server.handle(received->peer, std::move(received->message)));
    }
    losses.look(nap_s);
    if (!server.failure().empty()) throw Error("{}", server.failure());
    if (attendance.check(server)) reassure(channel, server, attendance, attendance.parts_came());
  }
}

}  // namespace

RankRecord serve(const RankContext& context, Channel& channel, Server& server,
                 std::int64_t parameters) {
  const TrainConfig& train = context.plan.train;
  Attendance attendance(context.plan.world, channel, context.device.clock(), train.timeout_s);
  Meter meter(channel, train, context.plan.promise == Promise::replayed);
  TracedSteps steps(context, server.timeline());
  ServerCheckpoints checkpoints(context, server, [&] {
    std::vector<int> connected;
    for (int worker = 0; worker < context.plan.world; ++worker)
      if (attendance.came(static_cast<std::size_t>(worker)) && !server.seats().is_done(worker))
        connected.push_back(worker);
    reassure(channel, server, connected);
  });
  channel.check_with([&](int worker, const Header& header, std::span<const FrameShape> frames) {
    if (header.kind != Kind::hello || !frames.empty()) server.check_frames(worker, header, frames);
  });
  try {
    Greetings greetings(context.self().server, context.plan.world,
                        greeting_of(context.plan, context.program));
    meter.restored(checkpoints.restore(parameters));
    run(context, channel, server, greetings, attendance, meter, steps, checkpoints);
  } catch (const Cut&) {
    throw;
  } catch (const std::exception& error) {
    if (context.interruption && context.interruption->raised()) throw;  // workers know
    tell_failure(channel, attendance, context.device.clock(),
                 std::min(last_moment_s, train.timeout_s), error.what());
    throw;
  }
  const auto measured =
      static_cast<double>(std::max<std::int64_t>(1, checkpoints.last_step() - meter.first_step()));
  RankRecord record;
  server.report(record);
  checkpoints.finish(record);
  record.processor_s = meter.processor_s();
  record.bytes_sent_per_step = static_cast<double>(meter.measured().sent) / measured;
  record.bytes_received_per_step = static_cast<double>(meter.measured().received) / measured;
  record.at_peak = context.device.ledger().at_peak();
  record.device_memory = context.device.memory();
  record.parameters = parameters;
  steps.report(record);
  // Must come now, while the channel keeps the memory of workers mapped.
  if (context.own_process) note_process_memory(record);
  return record;
}

}  // namespace ringside::ps
