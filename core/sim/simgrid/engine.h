// Engine: SimGrid's engine with the settings that worlds need.
#pragma once

#include <memory>
#include <simgrid/s4u.hpp>

namespace ringside::sim {

/// SimGrid's engine. A process can have one at a time.
class Engine {
 public:
  /// Throws Error if the process already has an engine.
  Engine() : engine_(start()) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  bool over() const { return over_; }
  /// Runs the simulation to its end. Throws Error when called a second time.
  void run();

 private:
  static std::unique_ptr<simgrid::s4u::Engine> start();

  std::unique_ptr<simgrid::s4u::Engine> engine_;
  bool over_ = false;
};

}  // namespace ringside::sim
