// ServerState: the part of a server that a run must have to go on.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "core/scheme/state.h"

namespace ringside::ps {

/// What checkpoints have of a server (ps/protocol/server_checkpoints.h): values, and the course of
/// the run so far. By default there is nothing to show, and no way to go on.
class ServerState {
 public:
  virtual ~ServerState() = default;

  /// The number of parameters that this server keeps.
  virtual std::int64_t parameter_count() const { return 0; }
  /// Whether they all have the updates of exactly `steps` steps.
  virtual bool is_after(std::int64_t steps) const { return static_cast<void>(steps), false; }
  /// Visits all that the server must have to go on (core/scheme/state.h); called between two steps.
  /// The default throws Error.
  virtual void visit_state(const StateVisitor& visit);
  /// All that visit_state() shows has been written, as it was after `steps` steps, of which
  /// `skipped` had changed nothing. Called before the first message. The default throws Error.
  virtual void restored(std::int64_t steps, std::int64_t skipped);
  /// What the server must have besides, as clocks of workers and histories; restore_course() is
  /// called after restored(), if the run is of the same scheme, options and world. By default
  /// nothing. Throws Error, or an exception of nlohmann::json, for what is no such thing.
  virtual nlohmann::ordered_json course() const;
  virtual void restore_course(const nlohmann::json& course);
};

}  // namespace ringside::ps
